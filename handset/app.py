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
from dataclasses import dataclass, field, replace

from handset.audio import devices
from handset.audio.card import Card, CardSettings
from handset.audio.voice_front import VoiceSettings
from handset.core import events as ev
from handset.core import messages as msg
from handset.core.keys import Key
from handset.core.ledger import Ledger
from handset.core.person import PersonSettings
from handset.core.recovery import device_record, event_record, parked_record
from handset.core.session import SessionSettings
from handset.core.turn import TurnSettings
from handset.edge import codec
from handset.edge.whip import Target
from handset.errors import DeviceError, UsageError
from handset.intake import Intake
from handset.listening import Listener, Presence
from handset.notices import Sounds
from handset.notifying import NoticePlayer
from handset.playing import Speaker
from handset.ports import Lamp
from handset.sending import TurnSender
from handset.starting import Files, start
from handset.system.health import Health, read_health
from handset.system.local_requests import Answer, Request
from handset.system.local_socket import LocalServer
from handset.talking import Microphone, Upsampler
from handset.uplink import Uplink

log = logging.getLogger(__name__)

TICK_S = 0.05
REOPEN_S = 1.0
HEALTH_S = 10.0
TASK_S = 120.0
"""How long a program that a gesture started may run."""
RESERVE = 3_600 * 48_000
"""Capture positions that are reserved ahead: an hour, so one write an hour."""

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
    person: PersonSettings = field(default_factory=PersonSettings)
    voice: VoiceSettings = field(default_factory=VoiceSettings)
    """Used where ``person.keys.mode`` is automatic."""
    language: str = "en"
    tasks: dict[ev.Task, tuple[str, ...]] = field(default_factory=dict)
    """Programs for what a person may ask for by a gesture."""
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
            settings.person,
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
        self._notices: NoticePlayer | None = None
        self._health = Health()
        self._health_at = 0.0
        self._tasks: list[asyncio.Task[None]] = []
        self._hold = 0
        """Number of the queue's newest pause or duck."""
        self.lamps: list[Lamp] = []
        self.intake = Intake(self._wake_fd)
        self._turns = begun.turns
        self._reserved = begun.first_sample
        self.mic = Microphone(
            lambda packet, sample: self.uplink.send_packet(packet, sample),
            begun.turns,
            begun.first_sample,
        )
        for stored in begun.restored:
            self.mic.restore(stored)
        self._reserve()
        automatic = settings.person.keys.mode == "automatic"
        self._listener = Listener(settings.voice, self.tell) if automatic else None
        self._presence = None if automatic else Presence(self.tell)
        self._local = LocalServer(settings.files.control, self._asked)
        self.uplink = Uplink(
            settings.target, self.tell, self.mic.lookahead, lambda: self.mic.position
        )
        self._sender = TurnSender(self.uplink.send_audio)

    # ---- life

    async def run(self) -> None:
        """Until the core exits (see :meth:`stop`)."""
        loop = asyncio.get_running_loop()
        loop.add_reader(self._wake_fd, self._woken)
        try:
            await self._local.start()
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
        await self._local.close()
        for task in self._tasks:
            task.cancel()
        self._sender.close()
        if self._listener is not None:
            self._listener.close()
        await self.uplink.end()
        if self.card is not None:
            self.card.close()
            self.card = None
        self._store.close()
        self._journal.close()
        if self._turns is not None:
            self._turns.close()
        os.close(self._wake_fd)

    # ---- the card

    def _open_card(self) -> None:
        try:
            card = Card.open(
                replace(self.settings.card, reference=self._listener is not None),
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
        if self.settings.person.tell:
            sounds = Sounds(self.settings.language, card.grant.rate)
            self._notices = NoticePlayer(card.playout, timing, sounds, self.tell, self.sample_at)
        if self._listener is not None:
            self._listener.open(card, self._upsampler.origin)
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
        self._speaker = self._notices = None
        self._reopen_at = time.monotonic() + REOPEN_S

    def _woken(self) -> None:
        try:
            os.eventfd_read(self._wake_fd)
        except BlockingIOError:
            return
        self._pump()

    def _pump(self) -> None:
        """One look at everything that moves by itself."""
        self._take_keys()
        self._check_health()
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
        if self._listener is not None:
            self._listener.reference(card)
        for position, frames in card.capture.read():
            first, samples = self._upsampler.feed(position, frames)
            self.mic.feed(first, samples)
            begin = self.mic.position - len(samples)
            if self._listener is not None:
                self._listener.feed(begin, samples)
            elif self._presence is not None and self.headset.turn.has_floor:
                self._presence.feed(begin, samples)
        for gap in card.capture.gaps():
            facts = {"position": gap.position, "length": gap.length, "kind": gap.kind}
            self._observe("capture.gap", facts)
        self.tell(ev.CaptureReached(self.mic.position))
        self._reserve()

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
        if self._notices is not None:
            self._notices.look(seen[0])

    def _reserve(self) -> None:
        """Capture positions are this run's alone: a block of them is reserved, on disk,
        before the first of it is used."""
        if self.mic.position + RESERVE // 2 > self._reserved:
            self._reserved = self.mic.position + RESERVE
            self._store.put_meta("capture", str(self._reserved))

    def _check_health(self) -> None:
        """What the kernel says of this machine, every ``HEALTH_S``; told when it changes."""
        if time.monotonic() < self._health_at:
            return
        self._health_at = time.monotonic() + HEALTH_S
        before, now = self._health, read_health(self._health)
        self._health = now
        for name in ("too_hot", "undervoltage", "low_battery"):
            if getattr(before, name) != getattr(now, name):
                self.tell(ev.Condition(name, getattr(now, name)))
        if before.docked is not None and now.docked != before.docked:
            self.tell(ev.ControlTold("battery", "docked", int(bool(now.docked))))

    # ---- controls

    def _take_keys(self) -> None:
        for event in self.intake.drain(self.sample_at):
            self.tell(event)

    def gesture(self, key: Key, control: str = "local") -> None:
        """A key that goes down and up again, by a program for a person."""
        now = time.monotonic_ns()
        self.intake.level(control, key, True, now)
        self.intake.level(control, key, False, now)
        self._take_keys()

    def _asked(self, request: Request) -> Answer:
        """The local socket's requests."""
        match request["do"]:
            case "type":
                return self._type(request["text"])
            case "gesture":
                try:
                    key = Key(request["name"])
                except ValueError:
                    names = ", ".join(key.value for key in Key)
                    raise UsageError(
                        f"gesture: no gesture is named {request['name']!r}; there are {names}"
                    ) from None
                self.gesture(key)
                return {"turn": self.headset.turn.number, "state": self.headset.turn.state.value}
        return self.status()

    def _type(self, text: str) -> Answer:
        if not self.headset.floor.typed_room:
            raise UsageError("too many typed turns wait for a spoken one to end; end that first")
        self.tell(ev.Typed(text))
        turn = self.headset.turn
        waits = self.headset.floor.typed_waiting
        return {
            "turn": turn.number + waits if waits else turn.number,
            "waits": bool(waits),
            "kept": not self.headset.session.open,
        }

    def status(self) -> Answer:
        """Facts for a person; nothing secret is in them."""
        headset = self.headset
        return {
            "state": headset.turn.state.value,
            "turn": headset.turn.number,
            "session": headset.session.session,
            "link": headset.session.state.value,
            "epoch": headset.session.epoch,
            "card": headset.route if self.card is not None else "",
            "muted": headset.person.muted,
            "volume": headset.person.volume.step,
            "kept_events": len(headset.outbox),
        }

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

    def press(self, at_ns: int, control: str = "bench") -> None:
        """The talk key goes down at ``at_ns``; a bench's hand."""
        self.intake.level(control, Key.TALK, True, at_ns)
        self._take_keys()

    def release(self, at_ns: int, control: str = "bench") -> None:
        self.intake.level(control, Key.TALK, False, at_ns)
        self._take_keys()

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
            case ev.HoldPlayout() | ev.ResumePlayout() | ev.SetVolume() | ev.MuteMicrophone():
                if self.card is not None:
                    self._to_card(self.card, effect)
            case ev.PlayNotice(notice, part):
                if self._notices is not None:
                    self._notices.play(notice, part)
            case ev.FlushNotices():
                if self._notices is not None:
                    self._notices.flush()
            case ev.ShowLamp(pattern):
                for lamp in self.lamps:
                    lamp.show(pattern)
            case ev.Park(events):
                self._reset_wanted = False
                for event in events:
                    self._journal.append(parked_record(event, codec.encode(event)))
            case ev.RunTask(task):
                self._tasks.append(asyncio.ensure_future(self._run_task(task)))
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

    async def _run_task(self, task: ev.Task) -> None:
        """The program that the settings name for it; its exit status says how it went."""
        command = self.settings.tasks[task]
        try:
            process = await asyncio.create_subprocess_exec(
                *command, stdin=asyncio.subprocess.DEVNULL
            )
            async with asyncio.timeout(TASK_S):
                status = await process.wait()
        except TimeoutError:
            process.kill()
            status = await process.wait()
        except OSError as error:
            log.error("%s: %s: %s", task, command[0], error.strerror)
            status = 127
        self.tell(ev.TaskDone(task, status == 0))

    def _to_card(
        self,
        card: Card,
        effect: ev.HoldPlayout | ev.ResumePlayout | ev.SetVolume | ev.MuteMicrophone,
    ) -> None:
        match effect:
            case ev.HoldPlayout(duck):
                self._hold = card.playout.duck() if duck else card.playout.pause()
            case ev.ResumePlayout():
                card.playout.dismiss(self._hold)
            case ev.SetVolume(gain):
                card.playout.volume(round(gain * 32_768))
            case ev.MuteMicrophone(muted):
                card.capture.mute(muted)

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
