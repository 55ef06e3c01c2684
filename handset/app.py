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
import random
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from handset import __version__
from handset.audio import devices
from handset.audio.card import Card, CardSettings
from handset.audio.playout import read_remains
from handset.core import events as ev
from handset.core import messages as msg
from handset.core.headset import Headset, Identity
from handset.core.ledger import Ledger
from handset.core.outbox import Outbox
from handset.core.packets import Malformed, decode
from handset.core.recovery import device_record, recover
from handset.core.session import SessionSettings
from handset.core.turn import Turn, TurnSettings
from handset.edge import codec
from handset.edge.mic import MicTrack
from handset.edge.peer import Binary, Channel, Closed, Link, LinkEvent, Opened, Text
from handset.edge.store import OutboxStore
from handset.edge.whip import Target
from handset.errors import (
    CredentialRefused,
    DeviceError,
    FingerprintMismatch,
    PeerError,
    ProtocolMismatch,
    UsageError,
)
from handset.playing import Speaker
from handset.sending import TurnSender
from handset.system.identity import boot_id, boot_words
from handset.system.journal import Journal, read_journal
from handset.talking import Microphone, Upsampler

log = logging.getLogger(__name__)

TICK_S = 0.05
REOPEN_S = 1.0

Watcher = Callable[[ev.Observe], None]
Tap = Callable[[str, str, str | bytes], None]
"""Given ``sent`` or ``received``, the channel, and the message as it is on the wire."""


@dataclass(frozen=True, slots=True)
class AppSettings:
    card: CardSettings
    target: Callable[[], Target]
    """Where to connect, asked anew for every connection: credentials don't last."""
    state: Path
    runtime: Path
    handset_id: str = "handset"
    label: str = ""
    turn: TurnSettings = field(default_factory=TurnSettings)
    session: SessionSettings = field(default_factory=SessionSettings)


class Application:
    def __init__(self, settings: AppSettings, watch: Watcher | None = None) -> None:
        self.settings = settings
        self.watchers: list[Watcher] = [watch] if watch else []
        self.taps: list[Tap] = []
        self.card: Card | None = None
        self.recovered: list[msg.Durable] = []
        self.links = 0
        self._boot = boot_id()
        self._words = boot_words(self._boot)
        self._region = settings.runtime / "playout"
        self._journal_path = settings.runtime / "journal"
        self._store = OutboxStore(settings.state / "outbox.db")
        self._unstored = 0
        self._reset_wanted = False
        self._link: Link | None = None
        self._mic_track: MicTrack | None = None
        self._link_task: asyncio.Task[None] | None = None
        self._link_epoch = 0
        self._closing: set[asyncio.Task[None]] = set()
        self._exit: asyncio.Event = asyncio.Event()
        self._wake_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._reopen_at = 0.0
        self._device_problem = ""
        self._speaker: Speaker | None = None
        self._upsampler: Upsampler | None = None
        self._sender = TurnSender(self._send_audio)
        self.mic = Microphone(self._send_packet)
        settings.runtime.mkdir(parents=True, exist_ok=True, mode=0o700)
        settings.state.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._begin()

    # ---- start

    def _begin(self) -> None:
        """Finds what an earlier run left, before anything new is made."""
        loaded = self._store.open()
        records = read_journal(self._journal_path, self._words)
        remains = read_remains(self._region, self._words)
        stored = {event.event_id for event in loaded.pending} | set(loaded.settled_ids)
        unstored = []
        for record in records:
            if record["k"] == "event":
                event = codec.decode_from_handset(record["event"]).message
                if isinstance(event, msg.Durable) and event.event_id not in stored:
                    unstored.append(event)
        found = recover(
            records,
            remains.snapshot if remains else None,
            remains.answers if remains else (),
            str(self._boot),
            time.monotonic_ns(),
        )
        outbox = Outbox(uuid.uuid4().hex[:16], [*loaded.pending, *unstored], loaded.settled_ids)
        fresh = outbox.add(found.events)
        self.recovered = [*unstored, *fresh]
        if self.recovered:
            self._store.append(self.recovered).result()
        meta = loaded.meta
        clear = max(int(meta.get("clear", 0)), found.clear, remains.generation if remains else 0)
        turn = max(int(meta.get("turn", 0)), found.turn)
        identity = Identity(
            self.settings.handset_id, self.settings.label, __version__, str(self._boot)
        )
        self.headset = Headset(
            identity,
            outbox,
            Turn(self.settings.turn, turn),
            self.settings.session,
            random.random,
            clear,
        )
        self._journal = Journal(self._journal_path, self._words)

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
        if self._link_task is not None:
            self._link_task.cancel()
        self._sender.close()
        if self._link is not None:
            await self._link.close("the handset stops")
        if self._closing:
            await asyncio.wait(self._closing, timeout=5)
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
                region=self._region,
                wake_fd=self._wake_fd,
                boot_id=self._words,
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
                self._send(message, tick)
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
                self._link_task = asyncio.ensure_future(self._connect(epoch))
            case ev.CloseLink(epoch, reason):
                self._close_link(epoch, reason)
            case ev.Observe():
                for watch in self.watchers:
                    watch(effect)
            case ev.Exit():
                self._exit.set()

    def _observe(self, kind: str, facts: dict[str, object]) -> None:
        self._perform(ev.Observe(kind, time.monotonic_ns(), facts))

    def _clear(self, request: int) -> None:
        if self.card is None:
            return
        given = self.card.playout.clear()
        if given != request:
            raise AssertionError(f"the queue numbered a clear {given}, the ledger {request}")

    def _keep(self, events: tuple[msg.Durable, ...]) -> None:
        self._reset_wanted = False
        for event in events:
            self._journal.append({"k": "event", "event": codec.encode(event)})
        self._unstored += 1
        loop = asyncio.get_running_loop()
        kept = self._store.append(events)
        kept.add_done_callback(lambda _: loop.call_soon_threadsafe(self._stored))

    def _stored(self) -> None:
        self._unstored -= 1

    # ---- the link

    async def _connect(self, epoch: int) -> None:
        track = MicTrack()
        try:
            link = await Link.open(
                self.settings.target(),
                track,
                lambda event: self._on_link(epoch, event),
            )
        except (CredentialRefused, FingerprintMismatch, ProtocolMismatch, UsageError) as error:
            log.error("%s", error)
            self.tell(ev.LinkClosed(epoch, str(error), permanent=True))
            return
        except PeerError as error:
            log.warning("%s", error)
            self.tell(ev.LinkClosed(epoch, str(error)))
            return
        if epoch != self.headset.session.epoch:
            await link.close("too late")
            return
        self._link, self._mic_track, self._link_epoch = link, track, epoch
        self.links += 1
        self.tell(ev.LinkOpened(epoch))
        self.tell(
            ev.MicMapped(
                epoch, track.ssrc(link.sender), track.origin(link.sender), 0, self.mic.lookahead
            )
        )

    def _on_link(self, epoch: int, event: LinkEvent) -> None:
        """Called by aiortc: only puts the event on the loop's queue."""
        if not isinstance(event, Opened):
            asyncio.get_running_loop().call_soon(self._link_event, epoch, event)

    def _link_event(self, epoch: int, event: LinkEvent) -> None:
        match event:
            case Text(channel=channel, data=data):
                self._tapped("received", channel, data)
                self._text(epoch, data)
            case Binary(channel=channel, data=data):
                self._tapped("received", channel, data)
                try:
                    self.tell(ev.EdgeAudio(epoch, decode(data)))
                except Malformed as error:
                    self.tell(ev.EdgeNonsense(epoch, str(error)))
            case Closed(reason=reason):
                if epoch == self._link_epoch:
                    self._link = self._mic_track = None
                self.tell(ev.LinkClosed(epoch, reason))
            case Opened():
                pass

    def _text(self, epoch: int, data: str) -> None:
        try:
            decoded = codec.decode_from_edge(data)
        except Malformed as error:
            self.tell(ev.EdgeNonsense(epoch, str(error)))
            return
        if decoded.unknown_fields:
            self.headset.counters["unknown_fields"] += len(decoded.unknown_fields)
        if isinstance(decoded.message, codec.Unknown):
            self.tell(ev.EdgeNonsense(epoch, decoded.message.type, kind="unknown_type"))
        else:
            self.tell(ev.EdgeSaid(epoch, decoded.message))

    def _tapped(self, way: str, channel: str, data: str | bytes) -> None:
        for tap in self.taps:
            tap(way, channel, data)

    def _send(self, message: msg.FromHandset, tick: bool) -> None:
        if self._link is not None:
            channel: Channel = "tick" if tick else "ctl"
            data = codec.encode(message)
            self._tapped("sent", channel, data)
            self._link.send(channel, data)

    def _send_audio(self, data: bytes) -> bool:
        """One binary message, when the connection has room for it now."""
        link = self._link
        if link is None or link.buffered("aud") > 4096:
            return False
        self._tapped("sent", "aud", data)
        return link.send("aud", data)

    def _send_packet(self, packet: bytes, capture_sample: int) -> None:
        if self._mic_track is not None:
            self._mic_track.put(packet, capture_sample)

    def _close_link(self, epoch: int, reason: str) -> None:
        if self._link is not None and epoch == self._link_epoch:
            task = asyncio.ensure_future(self._link.close(reason))
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)
            self._link = self._mic_track = None
        elif self._link_task is not None and epoch == self.headset.session.epoch:
            self._link_task.cancel()
