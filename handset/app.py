"""The application: the pure headset, its card, its link and its store, on one event loop.

One thread. Every event goes through :meth:`Application.tell`, which carries out all
effects before it returns, so writes, clears and ledger entries have one order. The audio
callbacks run in C on their own threads and only wake this one.

Shutdown order: the core is told to stop (cursors go out first), then it exits; then the
link, the card, the store.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from handset.audio import devices
from handset.audio.card import Card, CardSettings
from handset.core import events as ev
from handset.core import messages as msg
from handset.core.ledger import Ledger
from handset.core.recovery import device_record, event_record
from handset.core.session import SessionSettings
from handset.core.turn import TurnSettings
from handset.edge import codec
from handset.edge.whip import Target
from handset.errors import DeviceError
from handset.playing import Speaker
from handset.sending import TurnSender
from handset.starting import Files, start
from handset.talking import Microphone, Upsampler
from handset.uplink import Uplink

log = logging.getLogger(__name__)

TICK_S = 0.05
REOPEN_S = 1.0

Watcher = Callable[[ev.Observe], None]


@dataclass(frozen=True, slots=True)
class AppSettings:
    card: CardSettings
    target: Callable[[], Target]
    """Where to connect, asked anew for every connection: credentials don't last."""
    files: Files
    handset_id: str = "handset"
    label: str = ""
    turn: TurnSettings = field(default_factory=TurnSettings)
    session: SessionSettings = field(default_factory=SessionSettings)


class Application:
    def __init__(self, settings: AppSettings, watch: Watcher | None = None) -> None:
        self.settings = settings
        self.watchers: list[Watcher] = [watch] if watch else []
        self.card: Card | None = None
        begun = start(
            settings.files,
            settings.handset_id,
            settings.label,
            settings.turn,
            settings.session,
        )
        self.headset = begun.headset
        self.recovered = begun.recovered
        self._store, self._journal, self._boot = begun.store, begun.journal, begun.boot
        self._unstored = 0
        self._reset_wanted = False
        self._exit = asyncio.Event()
        self._wake_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._reopen_at = 0.0
        self._device_problem = ""
        self._speaker: Speaker | None = None
        self._upsampler: Upsampler | None = None
        self.mic = Microphone(lambda packet, sample: self.uplink.send_packet(packet, sample))
        self.uplink = Uplink(settings.target, self.tell, self.mic.lookahead)
        self._sender = TurnSender(self.uplink.send_audio)

    # ---- life

    async def run(self) -> None:
        """Until the core exits (see :meth:`stop`)."""
        loop = asyncio.get_running_loop()
        loop.add_reader(self._wake_fd, self._woken)
        try:
            self._open_card()
            while not self._exit.is_set():
                self._pump()
                try:
                    async with asyncio.timeout(TICK_S):
                        await self._exit.wait()
                except TimeoutError:
                    continue
        finally:
            loop.remove_reader(self._wake_fd)
            await self._end()

    def stop(self, cause: str) -> None:
        """Ends :meth:`run`, once last cursors are delivered or kept."""
        self.tell(ev.Stop(cause))

    async def _end(self) -> None:
        self._sender.close()
        await self.uplink.end()
        if self.card is not None:
            self.card.close()
            self.card = None
        self._store.close()
        self._journal.close()
        os.close(self._wake_fd)

    # ---- the card

    def _open_card(self) -> None:
        try:
            card = Card.open(
                self.settings.card,
                region=self.settings.files.region,
                wake_fd=self._wake_fd,
                boot_id=self._boot,
                first_clear=self.headset.playback.generation,
            )
        except DeviceError as error:
            self._reopen_at = time.monotonic() + REOPEN_S
            if str(error) != self._device_problem:
                self._device_problem = str(error)
                log.error("%s", error)
                self._observe("device.problem", {"problem": str(error)})
            return
        self._device_problem = ""
        self.card = card
        locked = card.lock_memory()
        if locked:
            log.warning(
                "audio memory is not locked (%s): allow it with LimitMEMLOCK=", os.strerror(locked)
            )
        if card.grant.problem:
            log.warning("%s", card.grant.problem)
        self._speaker = Speaker(card.playout, self._journal.append, self.tell, self._starts_run)
        # The microphone's timeline goes on where the last card left it.
        self._upsampler = Upsampler(card.grant.rate, self.mic.position)
        timing = card.output.timing
        # In the journal before the core lets anything into the new queue.
        empty = Ledger(timing, 0, self.headset.playback.generation)
        self._journal.append(device_record(empty))
        self.tell(ev.DeviceReady(timing, card.output.device.name))

    def _starts_run(self, item_id: str) -> bool:
        ledger = self.headset.playback.ledger
        assert ledger is not None
        return ledger.starts_run(item_id)

    def _lose_card(self) -> None:
        card = self.card
        assert card is not None
        card.close_streams()
        snapshot = card.playout.snapshot()
        lost = card.lost_frames(snapshot.fading if snapshot else 0)
        self.tell(ev.DeviceLost(lost, "the sound card is gone"))
        card.playout.settle(time.monotonic_ns())
        self._look(card)
        card.close()
        self.card = None
        self._speaker = None
        self._reopen_at = time.monotonic() + REOPEN_S

    def _woken(self) -> None:
        try:
            os.eventfd_read(self._wake_fd)
        except BlockingIOError:
            return
        self._pump()

    def _pump(self) -> None:
        """One look at everything that moves by itself."""
        card = self.card
        if card is None:
            if not self._exit.is_set() and time.monotonic() >= self._reopen_at:
                devices.rescan()
                self._open_card()
        elif card.gone(time.monotonic_ns()):
            self._lose_card()
        else:
            self._listen(card)
            self._look(card)
            if self._speaker is not None:
                self._speaker.flush()
        self.tell(ev.Tick())
        if self._reset_wanted and self._unstored == 0:
            self._reset_wanted = False
            self._journal.reset()
            self._rewrite_journal()

    def _rewrite_journal(self) -> None:
        """What a replay needs even when nothing is playing."""
        if self.headset.session.session:
            self._journal.append({"k": "session", "session": self.headset.session.session})
        ledger = self.headset.playback.ledger
        if self.card is not None and ledger is not None:
            self._journal.append(device_record(ledger))

    def _listen(self, card: Card) -> None:
        assert self._upsampler is not None
        for position, frames in card.capture.read():
            first, samples = self._upsampler.feed(position, frames)
            self.mic.feed(first, samples)
        for gap in card.capture.gaps():
            facts = {"position": gap.position, "length": gap.length, "kind": gap.kind}
            self._observe("capture.gap", facts)
        self.tell(ev.CaptureReached(self.mic.position))

    def _look(self, card: Card) -> None:
        seen = card.playout.look()
        if seen is None:
            return
        rate = card.grant.rate
        waiting = self._speaker.waiting if self._speaker is not None else 0
        self.headset.room_ms = max(card.playout.space - waiting, 0) * 1000 // rate
        queued = card.playout.written - seen[0].read + waiting
        self.headset.queued_ms = queued * 1000 // rate
        self.tell(ev.PlayoutSeen(*seen))

    # ---- controls

    def sample_at(self, at_ns: int) -> msg.Estimate | None:
        """Capture position (48 kHz) at a time, with bounds; None without a microphone."""
        if self.card is None or self._upsampler is None:
            return None
        found = self.card.capture.sample_at(at_ns, self.card.input.timing)
        if found is None:
            return None
        rate, origin = self.card.grant.rate, self._upsampler.origin
        return msg.Estimate(
            origin + found.est * 48_000 // rate,
            origin + found.lo * 48_000 // rate,
            origin - (-found.hi * 48_000 // rate),
        )

    def press(self, at_ns: int, source: msg.CommitSource = "ptt") -> None:
        self.tell(ev.Press(at_ns, source, self.sample_at(at_ns)))

    def release(self, at_ns: int) -> None:
        self.tell(ev.Release(at_ns, self.sample_at(at_ns)))

    def control_lost(self, at_ns: int) -> None:
        self.tell(ev.ControlLost(at_ns))

    # ---- events and effects

    def tell(self, event: ev.Event) -> None:
        for effect in self.headset.handle(event, time.monotonic_ns()):
            self._perform(effect)

    def _perform(self, effect: ev.Effect) -> None:
        match effect:
            case ev.Send(message, tick):
                self.uplink.send(message, tick)
            case ev.Keep(events):
                self._keep(events)
            case ev.Settle(outbox_id, seq, ids):
                if seq:
                    self._store.settle(outbox_id, seq)
                self._store.settle_ids(ids)
            case ev.Remember(key, value):
                self._store.put_meta(key, value)
            case ev.Log(record):
                self._reset_wanted = False
                self._journal.append(record)
            case ev.ResetLog():
                self._reset_wanted = True
            case ev.ClearPlayout(request):
                self._clear(request)
            case ev.OpenDecoder(item_id, rate, pre_skip):
                if self._speaker is not None:
                    self._speaker.open(item_id, rate, pre_skip)
            case ev.Decode(item_id, packets):
                if self._speaker is not None:
                    self._speaker.decode(item_id, packets)
            case ev.EndItem(item_id, samples):
                if self._speaker is not None:
                    self._speaker.end(item_id, samples)
            case ev.DropDecoders(item_ids):
                if self._speaker is not None:
                    self._speaker.drop(item_ids)
            case ev.BeginTurnAudio(turn, start):
                self.mic.begin(turn, start)
            case ev.EndTurnAudio(turn, end):
                self.mic.end(turn, end)
            case ev.ForgetTurnAudio(turn):
                self.mic.forget(turn)
                self._sender.forget(turn)
            case ev.ResendTurnAudio(turn, ranges):
                self._sender.send(turn, self.mic.packets(turn, ranges))
            case ev.OpenLink(epoch):
                self.uplink.open(epoch)
            case ev.CloseLink(epoch, reason):
                self.uplink.close(epoch, reason)
            case ev.Observe():
                for watch in self.watchers:
                    watch(effect)
            case ev.Exit():
                self._exit.set()

    def _observe(self, kind: str, facts: dict[str, object]) -> None:
        self._perform(ev.Observe(kind, time.monotonic_ns(), facts))

    def _clear(self, request: int) -> None:
        if self.card is None or request == self.card.playout.generation:
            return  # coalesced: nothing was written since that one
        given = self.card.playout.clear()
        if given != request:
            raise AssertionError(f"the queue numbered a clear {given}, the ledger {request}")

    def _keep(self, events: tuple[msg.Durable, ...]) -> None:
        self._reset_wanted = False
        for event in events:
            self._journal.append(event_record(event, codec.encode(event)))
        self._unstored += 1
        loop = asyncio.get_running_loop()
        kept = self._store.append(events)
        kept.add_done_callback(lambda _: loop.call_soon_threadsafe(self._stored))

    def _stored(self) -> None:
        self._unstored -= 1
