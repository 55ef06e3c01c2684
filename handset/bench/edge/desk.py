"""Everything the edge does for one handset: the pure parts, joined to its connections.

The desk decodes what comes in, gives it to the owner, the assembly or the pacer, and
carries out effects. It has no task, and is told the time (the clock it is given stamps the
answers to ``clock.ping`` as they leave). Whatever can't be used is counted, answered with
``error``, and costs nothing else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from handset.bench import speech
from handset.core import messages as m
from handset.core import packets
from handset.core.packets import CaptureData, Malformed
from handset.edge.codec import Decoded, Unknown, encode

from .alerts import OpenAlert
from .capture import Assembly
from .effects import (
    Attach,
    Continue,
    Credit,
    Effect,
    Forget,
    Generate,
    MapCapture,
    Send,
    StopItems,
)
from .lives import Response
from .owner import Owner
from .pacing import PacedItem, Pacer
from .provider import Chunk, Generation, Item, Script


class Line(Protocol):
    """A connection, as the desk uses it."""

    number: int

    def send(self, channel: str, data: str | bytes) -> bool: ...

    def buffered(self, channel: str) -> int: ...


class Desk:
    """``new_id(kind)`` gives ids that were never given before."""

    def __init__(
        self,
        handset_id: str,
        script: Script,
        new_id: Callable[[str], str],
        clock: Callable[[], int],
    ) -> None:
        self.handset_id = handset_id
        self.script = script
        self.counters: Counter[str] = Counter()
        self.assembly = Assembly()
        self.owner = Owner(self.assembly, new_id, script.terms)
        self.pacer = Pacer()
        self.paced: dict[str, PacedItem] = {}
        self.items: dict[str, Item] = {}
        self._new_id = new_id
        self._clock = clock
        self._lines: dict[int, Line] = {}
        self._audio: int | None = None
        self._generations: dict[str, Generation] = {}
        self._said: dict[str, tuple[speech.Clip, ...]] = {}
        self._ticked_ns: int | None = None

    # ---- what comes in -----------------------------------------------------------------

    def connected(self, line: Line) -> None:
        self._lines[line.number] = line

    def gone(self, number: int) -> None:
        """The connection has ended. What it was for goes on with the next one."""
        self._lines.pop(number, None)
        self.owner.gone(number)
        self.assembly.close(number)
        if self._audio == number:
            self._audio = None
            self.pacer.detach()

    def text(self, number: int, decoded: Decoded[m.FromHandset | Unknown], now_ns: int) -> None:
        """One message of ``ctl`` or ``tick``."""
        if decoded.unknown_fields:
            self.counters["unknown_fields"] += len(decoded.unknown_fields)
        if isinstance(decoded.message, Unknown):
            self.counters["unknown_types"] += 1
            return
        try:
            self._carry_out(self.owner.handle(number, decoded.message, now_ns), now_ns)
        except Malformed as error:
            self.malformed(number, str(error))

    def binary(self, number: int, data: bytes, now_ns: int) -> None:
        """One message of ``aud``."""
        try:
            message = packets.decode(data)
            if not isinstance(message, CaptureData):
                raise Malformed(f"{type(message).__name__} is not for an edge")
        except Malformed as error:
            self.malformed(number, str(error))
            return
        self.assembly.data(message)
        self._carry_out(self.owner.poll(now_ns), now_ns)

    def malformed(self, number: int, why: str) -> None:
        self.counters["malformed"] += 1
        if number in self._lines:
            self._lines[number].send("ctl", encode(m.Fault(code="malformed", message=why[:400])))

    def rtp(self, number: int, ssrc: int, timestamp: int, payload: bytes) -> None:
        self.assembly.rtp(number, ssrc, timestamp, payload)

    # ---- time --------------------------------------------------------------------------

    def tick(self, now_ns: int) -> None:
        """Let the provider go on, look for complete turns, send what may be sent."""
        passed_ns = 0 if self._ticked_ns is None else now_ns - self._ticked_ns
        self._ticked_ns = now_ns
        for generation in list(self._generations.values()):
            for chunk in generation.advance(passed_ns):
                self._generated(generation, chunk)
            if generation.over:
                del self._generations[generation.response_id]
        self._carry_out(self.owner.poll(now_ns), now_ns)
        self._pump(now_ns)
        for response_id in self._through():
            self._carry_out(self.owner.all_sent(response_id, now_ns), now_ns)

    def _pump(self, now_ns: int) -> None:
        line = None if self._audio is None else self._lines.get(self._audio)
        if line is None:
            return
        for data in self.pacer.pump(now_ns, line.buffered("aud")):
            if not line.send("aud", data):
                self.counters["audio_unsent"] += 1

    def _through(self) -> list[str]:
        session = self.owner.session
        if session is None:
            return []
        return [
            response_id
            for response_id, record in session.responses.items()
            if record.state is Response.LIVE
            and response_id not in self._generations
            and not self.pacer.unsent(response_id)
        ]

    def _generated(self, generation: Generation, chunk: Chunk) -> None:
        session, record = self.owner.response(generation.response_id)
        item = self.items[chunk.item_id]
        history = session.history
        if record.state in (Response.LIVE, Response.SENT):
            if history.find(chunk.item_id) is None:
                clip = item.clip
                history.begin(
                    chunk.item_id,
                    record.response_id,
                    record.turn,
                    clip.rate,
                    clip.text,
                    item.words,
                )
                if record.entire:  # the view has it once it was played, to its end
                    history.presume_unplayed(chunk.item_id)
                self.paced[chunk.item_id] = PacedItem(
                    chunk.item_id,
                    record.response_id,
                    record.turn,
                    clip.rate,
                    clip.pre_skip,
                    clip.samples,
                )
                self.pacer.add(self.paced[chunk.item_id])
        else:
            self.counters["generated_late_packets"] += len(chunk.packets)
        if history.find(chunk.item_id) is not None:
            history.grow(chunk.item_id, chunk.samples, chunk.ended)
            self.pacer.feed(chunk.item_id, chunk.packets, chunk.ended)

    # ---- what the bench asks for -------------------------------------------------------

    def say(self, clips: tuple[str, ...], now_ns: int) -> str:
        """Unprompted speech: the script's, or these clips. The response's id."""
        said = tuple(speech.load(name) for name in clips) or self.script.clips(None)
        if not said:
            raise ValueError("the script has nothing unprompted, and no clips were named")
        response_id, effects = self.owner.say(now_ns)
        self._said[response_id] = said
        self._carry_out(effects, now_ns)
        return response_id

    def alert(self, alert: OpenAlert, now_ns: int) -> None:
        """Something that the person must hear. ValueError without a session."""
        for name in alert.clips:
            speech.load(name)
        self._carry_out(self.owner.alert(alert, now_ns), now_ns)

    def withdraw(self, alert_id: str, now_ns: int) -> None:
        self._carry_out(self.owner.withdraw(alert_id, now_ns), now_ns)

    def policy(self, require_manual: bool, next_turn: bool, now_ns: int) -> None:
        self._carry_out(self.owner.policy(require_manual, next_turn), now_ns)

    def clear(self, response_id: str, now_ns: int) -> None:
        """Remote clear. ``KeyError`` for a response that was never made."""
        self._carry_out(self.owner.clear(response_id, now_ns), now_ns)

    def go_away(self, time_left_ms: int, now_ns: int) -> None:
        self._carry_out([Send(m.GoAway(time_left_ms=time_left_ms, reason="asked for"))], now_ns)

    def end(self, reason: str, now_ns: int) -> None:
        self._carry_out(self.owner.end(reason, now_ns), now_ns)

    # ---- effects -----------------------------------------------------------------------

    def _carry_out(self, effects: list[Effect], now_ns: int) -> None:
        for effect in effects:
            match effect:
                case Send():
                    self._send(effect)
                case Attach(connection, _, have):
                    self._audio = connection
                    self.assembly.open(connection)
                    self.pacer.attach(have)
                    self._carry_out(self.owner.offer_again(now_ns), now_ns)
                case Generate():
                    self._generate(effect, now_ns)
                case StopItems(response_id, end):
                    self._stop(response_id, end)
                case Continue(connection, item_id, next_packet):
                    if not self.pacer.resume(item_id, next_packet):
                        self.counters["wanted_in_vain"] += 1
                        self.malformed(connection, f"no packet {next_packet} of item {item_id}")
                case Forget(item_id):
                    self.pacer.forget(item_id)
                case Credit(room_ms):
                    self.pacer.credit(room_ms, now_ns)
                case MapCapture(connection, message):
                    self.assembly.map(connection, message)

    def _send(self, effect: Send) -> None:
        number = max(self._lines, default=-1) if effect.connection is None else effect.connection
        line, message = self._lines.get(number), effect.message
        channel = "ctl"
        if isinstance(message, m.ClockPong):
            message, channel = replace(message, edge_sent_ns=self._clock()), "tick"
        if line is None or not line.send(channel, encode(message)):
            self.counters["unsent"] += 1

    def _generate(self, effect: Generate, now_ns: int) -> None:
        clips = self._said.pop(effect.response_id, None)
        if effect.clips is not None:
            clips = tuple(speech.load(name) for name in effect.clips)
        if clips is None:
            clips = self.script.clips(effect.nth)
        self._carry_out(self.owner.announce(effect.response_id, silent=not clips), now_ns)
        if not clips:
            return
        items = [Item(self._new_id("item"), clip) for clip in clips]
        self.items.update((item.item_id, item) for item in items)
        self._generations[effect.response_id] = Generation(
            effect.response_id, items, self.script.speed, self.script.think_ms * 1_000_000
        )

    def _stop(self, response_id: str, end: bool) -> None:
        if response_id in self._generations:
            self._generations[response_id].stop()
        session, _ = self.owner.response(response_id)
        if not end:
            self.pacer.stop(response_id)
            return
        left = self.pacer.end(response_id)
        for item in session.history.of_response(response_id):
            if item.item_id not in left:
                if item.item_id not in session.receipts:
                    session.history.presume_unplayed(item.item_id)
            elif left[item.item_id] < self.items[item.item_id].clip.samples:
                session.history.shorten(item.item_id, left[item.item_id])
