"""Clears through the real adapter on the simulated card, each one checked on its tape.

A clear is a little conversation: one to four items of one or two responses, written in
chunks of any size, play for a random while; then playout is cleared, and everything
falls silent. What the ledger says of every item is put beside what the card's tape holds.
The tape is the only truth here: no count of ours is compared with another of ours.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from dataclasses import dataclass

from handset.audio.playout import STALE
from handset.bench.analyse import Fault, Heard, Queued, Reading, read
from handset.bench.rig import Rig, Urgent
from handset.bench.signals import TAGS, coded
from handset.core.item import Item
from handset.core.ledger import Cut
from handset.core.messages import Cause, Estimate

SHORTEST_S, LONGEST_S = 0.05, 6.0
PLAY_S = (0.1, 0.4)
LARGEST_CHUNK = 9600
LEAD_S = (0.6, 3.0)
"""How far ahead of the ear the items are written."""
LAG_NS = 30_000_000
"""A clear is asked for up to this long before it is called."""
SECOND = 1_000_000_000
_PATIENCE_S = 10.0


@dataclass(frozen=True, slots=True)
class ItemResult:
    """Samples (at the device's rate) that the ledger reports of one item, and what is on the
    tape: ``heard``. ``truth``: samples that had left the converter at the request."""

    item_id: str
    state: str
    received: int
    handed: int
    dropped: int
    faded: int
    synthesized: int
    heard: int
    heard_faded: int
    silence: int
    at_request: Estimate | None
    truth: int
    silent_at: Estimate | None
    silent_ns: int | None

    @property
    def error(self) -> int:
        """Below 0: the cursor claims more than sounded."""
        return self.heard - self.handed


@dataclass(frozen=True, slots=True)
class Clear:
    """One clear. Times are ns of CLOCK_MONOTONIC. The call of the clear lies between
    ``call_ns`` and ``returned_ns``; ``block_due_ns`` is when the card was due to ask for the
    block that cut. ``offset``: card frame of device frame 0, None when nothing sounded."""

    number: int
    requests: int
    items: tuple[ItemResult, ...]
    faults: tuple[Fault, ...]
    request_ns: int
    call_ns: int
    returned_ns: int
    cut_ns: int
    block_due_ns: int | None
    silent_ns: int | None
    restarts: int
    underflows: int
    offset: int | None
    late_write_refused: bool

    @property
    def call_to_cut_ns(self) -> int:
        return self.cut_ns - self.call_ns


@dataclass(slots=True)
class _Speech:
    """One item of the plan, and how it is going."""

    item: Item
    tag: int
    frames: int
    ends: bool


class Trials:
    """``run`` makes clears, one after the other, reproducible in ``seed`` but for timing.
    ``speed``: of the card's clock; above 1 the pauses shrink with it."""

    def __init__(self, rig: Rig, seed: int, speed: float = 1.0) -> None:
        self.rig = rig
        self.random = random.Random(seed)
        self.speed = speed
        self._tag = 0
        self._offset: int | None = None
        self._from = rig.card.sync()
        self._restarts = rig.restarts()

    def run(self, clears: int) -> Iterator[Clear]:
        for number in range(1, clears + 1):
            yield self._one(number)

    # ---- one clear -------------------------------------------------------------------------

    def _plan(self, number: int, play_s: float) -> list[_Speech]:
        """Mostly the last item is longer than what will be played, so that it is cut."""
        rate = self.rig.stream.timing.rate
        count = self.random.randint(1, 4)
        second = self.random.randint(1, count)  # first item of the other response
        speech = []
        for k in range(count):
            # Half of them are short, so that a cut often meets more than one item.
            longest = LONGEST_S if self.random.random() < 0.5 else 4 * SHORTEST_S
            shortest = play_s if k == count - 1 and self.random.random() < 0.9 else SHORTEST_S
            frames = round(rate * self.random.uniform(shortest, max(longest, shortest)))
            response = f"response-{number}-{1 if k < second else 2}"
            item = self.rig.ledger.announce(f"item-{number}-{k + 1}", response, 0, number, rate)
            self._tag = (self._tag + 1) % TAGS
            speech.append(_Speech(item, self._tag, frames, self.random.random() < 0.8))
        return speech

    def _feed(self, speech: list[_Speech], ahead: int) -> None:
        """Writes chunks until ``ahead`` frames are queued, or all of the items."""
        ledger = self.rig.ledger
        for each in speech:
            while each.item.frames < each.frames:
                if ledger.written - ledger.read >= ahead:
                    return
                largest = min(LARGEST_CHUNK, each.frames - each.item.frames)
                chunk = min(largest, 1 + int(LARGEST_CHUNK * self.random.random() ** 3))
                if self.rig.write(each.item, each.tag, chunk) < chunk:
                    return
            if each.ends and each.item.total is None:
                ledger.end(each.item.item_id, each.frames)

    def _one(self, number: int) -> Clear:
        rig, ledger = self.rig, self.rig.ledger
        underflows = rig.underflows
        play_s = self.random.uniform(*PLAY_S)
        speech = self._plan(number, play_s)
        ahead = round(ledger.timing.rate * self.random.uniform(*LEAD_S))
        self._feed(speech, ahead)
        until = time.monotonic_ns() + round(SECOND * play_s / self.speed)
        while (left := until - time.monotonic_ns()) > 0:
            time.sleep(min(left / SECOND, 0.02 / self.speed))
            rig.look()
            ledger.finished(time.monotonic_ns())
            self._feed(speech, ahead)

        lag = self.random.choice((0, self.random.randrange(LAG_NS)))
        generation = ledger.generation
        call_ns, returned_ns, requests = self._clear(lag)
        stale = rig.queue.write(generation, coded(0, 0, 480), False)
        cut = self._await_cut()
        self._await_silence()
        reading, restarts = self._read(speech)
        items = tuple(
            self._result(each, heard, reading, call_ns - lag)
            for each, heard in zip(speech, reading.heard, strict=True)
        )
        offset = self._offset = self._find_offset(speech, reading)
        due = self._block_due(cut)
        if restarts:  # and what it is now, the next sample tells
            self._offset = None
        silent = None if reading.last is None else rig.card.time_ns(reading.last + 1)
        return Clear(
            number, requests, items, reading.faults, call_ns - lag, call_ns, returned_ns,
            cut.answer.now_ns, due, silent, restarts, rig.underflows - underflows,
            offset, stale == STALE,
        )  # fmt: skip

    def _clear(self, lag: int) -> tuple[int, int, int]:
        """When it was called and had returned, and how many times it was asked for."""
        rig = self.rig
        requests = 2 if self.random.random() < 0.1 else 1
        with Urgent():
            call_ns = time.monotonic_ns()
            number = rig.queue.clear()
        returned_ns = time.monotonic_ns()
        numbers = [number, *(rig.queue.clear() for _ in range(1, requests))]
        for each in numbers:
            asked = rig.ledger.clear(Cause("gesture", call_ns - lag))
            if asked != each:
                raise AssertionError(f"the ledger's clear is {asked}, the queue's {each}")
        return call_ns, returned_ns, requests

    def _await_cut(self) -> Cut:
        deadline = time.monotonic() + _PATIENCE_S
        cuts: list[Cut] = []
        while self.rig.ledger.answered < self.rig.ledger.generation:
            cuts += self.rig.look()
            if time.monotonic() > deadline:
                raise TimeoutError(f"clear {self.rig.ledger.generation} was not answered")
            time.sleep(0.001)
        return cuts[0]

    def _await_silence(self) -> None:
        deadline = time.monotonic() + _PATIENCE_S
        rig = self.rig
        while rig.ledger.items:
            rig.look()
            rig.ledger.finished(time.monotonic_ns())
            if time.monotonic() > deadline:
                raise TimeoutError(f"items stay open: {', '.join(rig.ledger.items)}")
            time.sleep(0.001)

    # ---- what is on the tape ---------------------------------------------------------------------

    def _read(self, speech: list[_Speech]) -> tuple[Reading, int]:
        card, timing = self.rig.card, self.rig.stream.timing
        end = card.now_frame()
        restarts = self.rig.restarts() - self._restarts
        if restarts:  # then the time of the silence is not to be relied on
            end += timing.buffer + timing.block
        card.wait_committed(end)
        restarts = self.rig.restarts() - self._restarts
        record = card.record(self._from, end)
        queued = [Queued(each.tag, each.item.frames) for each in speech]
        reading = read(record.samples, self._from, queued, self.rig.curve)
        self._from = end
        self._restarts += restarts
        return reading, restarts

    def _result(self, each: _Speech, heard: Heard, reading: Reading, request_ns: int) -> ItemResult:
        item, card = each.item, self.rig.card
        silence = sum(s.frames for s in reading.silences if s.tag == each.tag)
        last = int(heard.positions[-1]) if len(heard.positions) else None
        return ItemResult(
            item.item_id, item.state.value, item.received, item.handed, item.dropped, item.faded,
            item.synthesized, heard.upto, heard.faded, silence, item.at_request,
            heard.until(card.frame_at(request_ns)), item.silent_at,
            None if last is None else card.time_ns(last + 1),
        )  # fmt: skip

    def _find_offset(self, speech: list[_Speech], reading: Reading) -> int | None:
        """Card frame of device frame 0, by a sample that is known in both; the last one when
        nothing sounded."""
        for each, heard in zip(speech, reading.heard, strict=True):
            if len(heard.positions) and each.item.runs:
                device = self.rig.ledger.log.device_of(each.item.runs[0].start)
                if device is not None:
                    return int(heard.positions[0]) - device
        return self._offset

    def _block_due(self, cut: Cut) -> int | None:
        """By the card's clock: its buffer has room for a block as soon as the frame leaves that
        is a buffer older than the block's end."""
        timing = self.rig.stream.timing
        if self._offset is None:
            return None
        frame = self._offset + cut.answer.device_frame + timing.block - timing.buffer
        return self.rig.card.time_ns(frame) if frame >= 0 else None
