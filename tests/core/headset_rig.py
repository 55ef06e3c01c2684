"""The real headset core on the real queue and a fake card, with a small edge beside it.

Everything runs on the card's clock. Audio is marked: a frame of item number ``k`` that is
its ``i``-th is ``mark(k, i)``, so the card's own tape says, item by item, what was handed
over and what sounded.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np

from handset.audio.capture import Capture, CaptureConfig
from handset.audio.playout import Playout, PlayoutConfig
from handset.core import events as ev
from handset.core import messages as msg
from handset.core.facts import Answer
from handset.core.floor import FloorSettings
from handset.core.headset import Headset, Identity
from handset.core.keys import Key
from handset.core.notices import Notice, Part
from handset.core.outbox import Outbox
from handset.core.packets import ItemAudio, ItemEnd, ItemStart, Packet
from handset.core.person import PersonSettings
from handset.core.session import SessionSettings
from handset.core.turn import Turn, TurnSettings
from handset.core.wearer import WearerSettings
from handset.fakes.card import FakeCard

MS = 1_000_000
SECOND = 1_000_000_000
LOUD = 16_000
CYCLE = 8
E = TypeVar("E", bound=msg.Durable)
QUIET = PersonSettings(
    floor=FloorSettings(grace_ns=0), wearer=WearerSettings(disclose=False), tell=False
)
"""No notices, and a press that clears at once: what most tests of the cursor are about."""


def mark(number: int, start: int, n: int) -> np.ndarray:
    """Frames ``start .. start + n`` of the item with that number (below 2,000)."""
    return (LOUD + number * CYCLE + np.arange(start, start + n) % CYCLE).astype(np.int16)


def packet(samples: int) -> bytes:
    """What stands for a compressed packet here: how many samples are in it."""
    return struct.pack(">I", samples)


@dataclass(slots=True)
class Chunk:
    item_id: str
    frames: np.ndarray
    samples: int
    total: int | None = None


@dataclass(slots=True)
class Decoder:
    """Puts out ``ceil(samples * device rate / rate)`` frames, as the real one does."""

    number: int
    rate: int
    device_rate: int
    samples: int = 0
    frames: int = 0

    def take(self, samples: int) -> np.ndarray:
        self.samples += samples
        upto = -(-self.samples * self.device_rate // self.rate)
        out = mark(self.number, self.frames, upto - self.frames)
        self.frames = upto
        return out


class Writer:
    """From decoded audio to the queue, in the order of the control side."""

    def __init__(self, rig: Rig, playout: Playout) -> None:
        self.rig = rig
        self.playout = playout
        self.decoders: dict[str, Decoder] = {}
        self.backlog: deque[Chunk] = deque()

    def open(self, item_id: str, rate: int) -> None:
        number = self.rig.number(item_id)
        self.decoders[item_id] = Decoder(number, rate, self.playout.config.rate)

    def decode(self, item_id: str, packets: Iterable[bytes]) -> None:
        decoder = self.decoders.get(item_id)
        if decoder is None:
            return
        for each in packets:
            (samples,) = struct.unpack(">I", each)
            self.backlog.append(Chunk(item_id, decoder.take(samples), samples))
        self.flush()

    def end(self, item_id: str, samples: int) -> None:
        if self.decoders.pop(item_id, None) is None:
            return
        self.backlog.append(Chunk(item_id, mark(0, 0, 0), 0, samples))
        self.flush()

    def drop(self, item_ids: tuple[str, ...]) -> None:
        for item_id in item_ids:
            self.decoders.pop(item_id, None)
        gone = [chunk for chunk in self.backlog if chunk.item_id in item_ids]
        self.backlog = deque(chunk for chunk in self.backlog if chunk.item_id not in item_ids)
        for chunk in gone:
            self.rig.tell(ev.AudioFenced(chunk.item_id, chunk.samples))

    def flush(self) -> None:
        while self.backlog:
            chunk = self.backlog[0]
            n = min(len(chunk.frames), self.playout.space)
            if n < len(chunk.frames) and n == 0:
                return
            ledger = self.rig.headset.playback.ledger
            samples = chunk.samples * n // len(chunk.frames) if n < len(chunk.frames) else 0
            samples = samples or chunk.samples
            starts = ledger.starts_run(chunk.item_id)
            if n:
                taken = self.playout.write(self.playout.generation, chunk.frames[:n], starts)
                assert taken == n, f"the queue took {taken} of {n}"
            chunk.frames = chunk.frames[n:]
            chunk.samples -= samples
            if len(chunk.frames) == 0:
                self.backlog.popleft()
            self.rig.tell(ev.AudioQueued(chunk.item_id, n, samples))
            if len(chunk.frames) == 0 and chunk.total is not None:
                self.rig.tell(ev.ItemQueued(chunk.item_id, chunk.total))


@dataclass(slots=True)
class SaidItem:
    """What the edge has of an item."""

    start: ItemStart
    packets: list[bytes] = field(default_factory=list)
    total: int | None = None

    @property
    def samples(self) -> int:
        return sum(struct.unpack(">I", each)[0] for each in self.packets)


@dataclass
class Edge:
    """The other end. ``acks``: it acknowledges what arrives, contiguously and at once."""

    acks: bool = True
    pongs: bool = True
    session: str = "s1"
    welcome: dict[str, Any] = field(default_factory=dict)
    """Further fields of its welcome."""
    messages: list[tuple[int, msg.FromHandset]] = field(default_factory=list)
    """With the epoch over which they came; lost ones are not here."""
    seen: dict[str, dict[int, msg.Durable]] = field(default_factory=dict)
    upto: dict[str, int] = field(default_factory=dict)
    replies: deque[msg.FromEdge] = field(default_factory=deque)

    def receive(self, epoch: int, message: msg.FromHandset) -> None:
        self.messages.append((epoch, message))
        if isinstance(message, msg.Hello):
            welcome = msg.Welcome(
                session=self.session,
                epoch=epoch,
                protocol=1,
                resume_token="token",
                **self.welcome,
            )
            self.replies.append(welcome)
        if isinstance(message, msg.ClockPing) and self.pongs:
            pong = msg.ClockPong(id=message.id, sent_ns=0, edge_received_ns=0, edge_sent_ns=0)
            self.replies.append(pong)
        if isinstance(message, msg.Durable):
            self.seen.setdefault(message.outbox_id, {})[message.seq] = message
            if self.acks:
                self.acknowledge(message.outbox_id)

    def acknowledge(self, outbox_id: str) -> None:
        have, upto = self.seen[outbox_id], self.upto.get(outbox_id, 0)
        while upto + 1 in have:
            upto += 1
        self.upto[outbox_id] = upto
        self.replies.append(msg.EventAck(outbox_id=outbox_id, seq=upto))

    def acknowledge_all(self) -> None:
        self.acks = True
        for outbox_id in self.seen:
            self.acknowledge(outbox_id)


class Rig:
    def __init__(
        self,
        rate: int = 48_000,
        blocks: int | Iterable[int] = 480,
        *,
        buffer: int = 1_440,
        drift_ppm: float = 0.0,
        step_ns: int = 1,
        seconds: float = 10.0,
        fade_ms: float = 0.0,
        acks: bool = True,
        connect: bool = True,
        device: bool = True,
        pending: Iterable[msg.Durable] = (),
        turn: int = 0,
        first_clear: int = 0,
        turn_settings: TurnSettings | None = None,
        outbox_id: str = "ob",
        person: PersonSettings = QUIET,
    ) -> None:
        self.rate, self.block_frames, self.buffer = rate, blocks, buffer
        self.drift_ppm, self.step_ns, self.seconds = drift_ppm, step_ns, seconds
        self.fade_ms = fade_ms
        self.edge = Edge(acks)
        self.effects: list[ev.Effect] = []
        self.kept: list[msg.Durable] = []
        self.settled: list[str] = []
        self.answers: list[Answer] = []
        self.links: list[int] = []
        """Open links' epochs, one at most."""
        self.opening: list[int] = []
        self.exited: str | None = None
        self.hold = 0
        self.notices: list[tuple[Notice, Part]] = []
        """What was put into the notice lane, newest last."""
        self.clears: list[int] = []
        self.tapes: list[tuple[FakeCard, list[Answer]]] = []
        """Cards that are gone, with the answers of their queues."""
        self.handles: dict[str, int] = {}
        self.sent: dict[str, int] = {}
        """Packets said so far, by item."""
        self.said: dict[str, SaidItem] = {}
        self._numbers: dict[str, int] = {}
        self._idle_ns = 10 * SECOND
        self.headset = Headset(
            Identity("h1", "bench", "test", "boot"),
            Outbox(outbox_id, pending),
            Turn(turn_settings or TurnSettings(), turn),
            SessionSettings(),
            lambda: 0.0,
            first_clear,
            person,
        )
        self.card: FakeCard | None = None
        self.writer: Writer | None = None
        if device:
            self.plug()
        if connect:
            self.connect()

    # ---- time and device --------------------------------------------------------------------

    @property
    def now(self) -> int:
        return self.card.now_ns if self.card is not None else self._idle_ns

    @property
    def playout(self) -> Playout:
        assert self.card is not None
        return self.card.playout

    def plug(self, rate: int | None = None) -> None:
        """A device is there, with a queue of its own."""
        self.rate = rate or self.rate
        first_clear = self.headset.playback.generation
        config = PlayoutConfig(
            self.rate,
            seconds=self.seconds,
            fade_ms=self.fade_ms,
            restart_frames=720,
            first_clear=first_clear,
        )
        playout = Playout(config)
        capture = Capture(CaptureConfig(self.rate))
        self.card = FakeCard(
            playout,
            capture,
            blocks=self.block_frames,
            buffer=self.buffer,
            start_ns=self._idle_ns,
            drift_ppm=self.drift_ppm,
            step_ns=self.step_ns,
        )
        self.answers = []
        self.writer = Writer(self, playout)
        self.tell(ev.DeviceReady(self.card.timing(), "fake"))

    def unplug(self, lost: int | None = None) -> None:
        """The device goes away now; the application notices."""
        card = self.card
        assert card is not None
        card.kill()
        snapshot = card.playout.snapshot()
        fading = snapshot.fading if snapshot is not None else 0
        self.tell(ev.DeviceLost(self.buffer + 480 + fading if lost is None else lost, "unplugged"))
        card.playout.settle(card.now_ns)
        self.look()
        self.tapes.append((card, self.answers))
        self._idle_ns = card.now_ns
        self.card = self.writer = None

    def look(self) -> None:
        seen = self.playout.look()
        if seen is not None:
            self.answers += seen[1]
            self.tell(ev.PlayoutSeen(*seen))

    def step(self) -> None:
        """One callback, and one look at everything."""
        if self.card is not None:
            self.card.block()
            self.card.capture.read()
            self.look()
            self.writer.flush()
        else:
            self._idle_ns += 10 * MS
        self.tell(ev.CaptureReached(self.position()))
        self.tell(ev.Tick())
        self.serve()

    def run(self, ms: float) -> None:
        until = self.now + round(ms * MS)
        while self.now < until:
            self.step()

    def play(self, frames: int) -> None:
        """Callbacks for exactly ``frames``, which is a number of whole blocks."""
        until = self.card.handed + frames
        while self.card.handed < until:
            self.step()

    def position(self, at_ns: int | None = None) -> int:
        """The capture timeline: 48 kHz samples of the card's clock."""
        return (self.now if at_ns is None else at_ns) * 48 // MS

    # ---- the link ---------------------------------------------------------------------------

    def connect(self) -> None:
        """Until the session is open."""
        for _ in range(400):
            self.tell(ev.Tick())
            if self.opening:
                epoch = self.opening.pop()
                self.links = [epoch]
                self.tell(ev.LinkOpened(epoch))
            self.serve()
            if self.headset.session.open:
                return
            self.pass_time(50)
        raise AssertionError("no session")

    def pass_time(self, ms: int) -> None:
        if self.card is not None:
            self.run(ms)
        else:
            self._idle_ns += ms * MS

    def serve(self) -> None:
        """The edge's replies arrive."""
        while self.edge.replies and self.links:
            self.tell(ev.EdgeSaid(self.links[0], self.edge.replies.popleft()))

    def lose_link(self) -> None:
        epoch = self.links.pop()
        self.edge.replies.clear()
        self.tell(ev.LinkClosed(epoch, "lost"))

    def edge_says(self, message: msg.FromEdge) -> None:
        if self.links:
            self.tell(ev.EdgeSaid(self.links[0], message))

    def edge_audio(self, audio: Packet) -> None:
        if self.links:
            self.tell(ev.EdgeAudio(self.links[0], audio))

    # ---- what the edge says ------------------------------------------------------------------

    def number(self, item_id: str) -> int:
        return self._numbers.setdefault(item_id, len(self._numbers))

    def response(self, name: str, turn: int = 0, speculative: bool = False) -> None:
        self.edge_says(msg.ResponseCreated(response_id=name, turn=turn, speculative=speculative))

    def start_item(self, item: str, response: str, rate: int = 24_000, turn: int = 0) -> None:
        self.handles[item] = len(self.handles) + 1
        self.sent[item] = 0
        start = ItemStart(self.handles[item], item, 0, response, turn, rate, 0)
        self.said[item] = SaidItem(start)
        self.edge_audio(start)

    def audio(self, item: str, samples: int, chunk: int = 480) -> None:
        """``samples`` more of the item, in packets of ``chunk``."""
        sizes = [chunk] * (samples // chunk) + ([samples % chunk] if samples % chunk else [])
        for at in range(0, len(sizes), 200):
            part = tuple(packet(n) for n in sizes[at : at + 200])
            self.said[item].packets += part
            self.edge_audio(ItemAudio(self.handles[item], self.sent[item], part))
            self.sent[item] += len(part)

    def resume(self) -> None:
        """After a reconnect the edge sends every item on from where the handset has it,
        and whole where it is not known there."""
        (hello,) = self.sent_to_edge(msg.Hello)[-1:]
        have = {it.item_id: it.next_packet for it in hello.resume.items} if hello.resume else {}
        for number, (item, said) in enumerate(self.said.items()):
            handle = self.handles[item] = hello.epoch * 10_000 + number
            self.edge_audio(replace(said.start, handle=handle))
            first = have.get(item, 0)
            if rest := tuple(said.packets[first:]):
                self.edge_audio(ItemAudio(handle, first, rest))
            self.sent[item] = len(said.packets)
            if said.total is not None:
                self.edge_audio(ItemEnd(handle, len(said.packets), said.total))

    def end_item(self, item: str, samples: int) -> None:
        self.said[item].total = samples
        self.edge_audio(ItemEnd(self.handles[item], self.sent[item], samples))

    def done(self, response: str) -> None:
        self.edge_says(msg.ResponseDone(response_id=response))

    def say(
        self, response: str, item: str, samples: int, rate: int = 24_000, turn: int = 0
    ) -> None:
        """A whole response of one item."""
        self.response(response, turn)
        self.start_item(item, response, rate, turn)
        self.audio(item, samples, rate // 50)
        self.end_item(item, samples)
        self.done(response)

    def clear_remotely(self, response: str) -> None:
        self.edge_says(msg.OutputClear(response_id=response))

    # ---- gestures ----------------------------------------------------------------------------

    def key(self, key: Key, down: bool, control: str = "button") -> None:
        at = self.position()
        sample = msg.Estimate(at, at - 48, at + 48)
        self.tell(ev.KeyLevel(control, key, down, self.now, sample))

    def press(self) -> None:
        self.key(Key.TALK, True)

    def release(self) -> None:
        """The contact opens; it is a release when it has stayed open for 25 ms."""
        self.key(Key.TALK, False)

    def let_go(self) -> None:
        """Two looks at the clock that see the contact open: no callback runs meanwhile."""
        self.tell(ev.Tick())
        self.card.hang(26 * MS)
        self.tell(ev.Tick())

    def hear_notices(self) -> None:
        """Whatever the handset says by itself is played to its end."""
        for _ in range(50):
            if self.headset.person.telling.queue.playing is None:
                return
            self.tell(ev.NoticeDone())
        raise AssertionError("the handset never stops talking")

    def told(self) -> list[Notice]:
        """The notices that were begun, each once, in order."""
        return list(dict.fromkeys(notice for notice, _ in self.notices))

    def tap(self, key: Key, control: str = "button") -> None:
        self.key(key, True, control)
        self.pass_time(60)
        self.key(key, False, control)
        self.pass_time(40)

    def speak(self, ms: int = 300) -> None:
        """A whole turn, committed."""
        self.press()
        self.run(ms)
        self.release()
        self.run(300)

    # ---- carrying out --------------------------------------------------------------------------

    def tell(self, event: ev.Event) -> None:
        for effect in self.headset.handle(event, self.now):
            self.perform(effect)

    def perform(self, effect: ev.Effect) -> None:
        self.effects.append(effect)
        match effect:
            case ev.ClearPlayout(request):
                self.clears.append(request)
                given = self.playout.clear()
                assert given == request, f"the queue numbered a clear {given}, not {request}"
            case ev.HoldPlayout(duck):
                if self.card is not None:
                    self.hold = self.playout.duck() if duck else self.playout.pause()
            case ev.ResumePlayout():
                if self.card is not None:
                    self.playout.dismiss(self.hold)
            case ev.PlayNotice(notice, part):
                self.notices.append((notice, part))
            case ev.OpenDecoder(item_id, rate, _):
                self.writer.open(item_id, rate)
            case ev.Decode(item_id, packets):
                self.writer.decode(item_id, packets)
            case ev.EndItem(item_id, samples):
                self.writer.end(item_id, samples)
            case ev.DropDecoders(item_ids):
                if self.writer is not None:
                    self.writer.drop(item_ids)
            case ev.Keep(events):
                self.kept += events
            case ev.Settle(_, _, ids):
                self.settled += ids
            case ev.Send(message, _):
                if self.links:
                    self.edge.receive(self.links[0], message)
            case ev.OpenLink(epoch):
                self.opening = [epoch]
            case ev.CloseLink():
                self.links.clear()
                self.edge.replies.clear()
            case ev.Exit(cause):
                self.exited = cause

    # ---- reading the result ---------------------------------------------------------------------

    def of(self, kind: type[E]) -> list[E]:
        return [event for event in self.kept if isinstance(event, kind)]

    def truncates(self) -> dict[str, int]:
        """Newest ``audio_end_ms`` by item."""
        return {str(event.item_id): event.audio_end_ms for event in self.of(msg.Truncate)}

    def finals(self) -> dict[str, msg.PlayoutReceipt]:
        return {
            str(event.item_id): event
            for event in self.of(msg.PlayoutReceipt)
            if event.state != "queued"
        }

    def final_states(self) -> dict[str, str]:
        return {name: receipt.state for name, receipt in self.finals().items()}

    def sent_to_edge(self, kind: type[E]) -> list[E]:
        return [message for _, message in self.edge.messages if isinstance(message, kind)]
