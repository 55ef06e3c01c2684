"""The playout ledger: which frames of the speech lane belong to which item.

The control side appends to it exactly what it writes to the queue, in the same order,
and tells it every clear it asks for. The callback's answers, snapshots and segments say
how far the lane got. From both together follows, per item, what was received, handed,
dropped and is still queued.

Rules:

1. Who is hit. A clear stops every item (of one response, if it names one) that was
   announced before it was asked for and is not complete (end known, all handed). Items
   announced later are another turn's.
2. The cut decides. An item's cursor is what the answer says was handed, never what the
   request found. A late answer for an older number changes nothing.
3. What was handed will sound, for as long as the device lives. So the final receipt
   waits for ``silent_at.hi``; a device lost before that turns the tail into ``lost``.
4. ``played`` needs a known end, all handed, and a block that the device asked for after
   ``silent_at.hi``: time that passes while callbacks have stopped proves nothing.
5. Exactly one final state per item. Whatever arrives later is counted as fenced.

Counts are kept apart from indices on purpose: every update compares them, and a
difference raises ``LedgerFault``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

from handset.core.facts import Anchor, Answer, Segment, SegmentKind, Snapshot
from handset.core.item import Item, ItemState, Run
from handset.core.messages import Cause, Estimate
from handset.core.segments import DeviceTiming, SegmentLog, frame_at, restart_loss, time_of

CLEAR_SLOTS = 16
"""Clears that may be unanswered at once (KH_CLEAR_SLOTS)."""
RESTARTED = "device restarted"
"""Reason of an item that was handed whole, and of which a part may not have sounded."""
KEEP_CLOSED = 512
"""Final items remembered, so that late audio of one is counted with it."""


class LedgerFault(AssertionError):
    """The queue and the ledger disagree: a fault of ours, never of the peer."""


@dataclass(slots=True)
class _Clear:
    request: int
    cause: Cause


@dataclass(frozen=True, slots=True)
class Cut:
    """One answered clear: what it covered and whom it hit."""

    answer: Answer
    requests: tuple[int, ...]
    causes: tuple[Cause, ...]
    items: tuple[Item, ...]


class Ledger:
    def __init__(
        self,
        timing: DeviceTiming,
        first_frame: int = 0,
        first_clear: int = 0,
        *,
        handed: int = 0,
        dropped: int = 0,
    ) -> None:
        """``first_frame``: where the queue's counts began; ``handed`` and ``dropped``: what
        went through it before this ledger, all of it settled."""
        self.timing = timing
        self.items: dict[str, Item] = {}
        """Announced and not final."""
        self.closed: dict[str, Item] = {}
        """The newest ``KEEP_CLOSED`` final ones."""
        self.log = SegmentLog()
        self.written = first_frame + handed + dropped
        self.read = self.written
        self.generation = first_clear
        self.answered = first_clear
        self.handed = handed
        self.dropped = dropped
        self._first_frame = first_frame
        self._anchor: Anchor | None = None
        self._lane: deque[tuple[Item, Run]] = deque()
        self._owners: deque[tuple[int, Item]] = deque()
        self._handed_spans: deque[list[Any]] = deque(maxlen=64)
        self._clears: deque[_Clear] = deque()
        self._tail: Item | None = None
        self._since: int | None = None
        self.holed: list[Item] = []
        self._alive_ns = 0
        """When the newest block was asked for."""

    def inherit(self, before: Ledger) -> list[Item]:
        """Takes over, from the ledger of another device, the items that wait for their
        first frame, and the memory of closed ones. Returns the former."""
        for item in before.items.values():
            if item.frames:
                raise LedgerFault(f"item {item.item_id!r} has frames in another device's queue")
            item.device_rate = self.timing.rate
        self.items, before.items = before.items, {}
        self.closed = before.closed
        return list(self.items.values())

    # ---- what the control side does -------------------------------------------------

    def announce(
        self, item_id: str, response_id: str, content_index: int, turn: int, rate: int
    ) -> Item:
        if item_id in self.items or item_id in self.closed:
            raise LedgerFault(f"item {item_id!r} is announced already")
        item = Item(item_id, response_id, content_index, turn, rate, self.timing.rate)
        self.items[item_id] = item
        return item

    def open_for(self, item_id: str) -> bool:
        """Whether audio of the item may still be queued."""
        item = self.items.get(item_id)
        return item is not None and item.stopped_by is None and item.state is ItemState.OPEN

    def starts_run(self, item_id: str) -> bool:
        """Whether its next frame must be marked as the start of a run."""
        return self._tail is None or self._tail.item_id != item_id

    def append(self, item_id: str, frames: int, samples: int) -> None:
        """``frames`` were written to the queue; they stand for ``samples`` of the item."""
        if not self.open_for(item_id):
            raise LedgerFault(f"item {item_id!r} is not open; its audio must be fenced")
        item = self.items[item_id]
        item.append(self.written, frames, samples)
        if frames == 0:
            return
        if self._tail is item and self._lane:
            self._lane[-1][1].length += frames
        else:
            self._lane.append((item, Run(self.written, frames)))
        if self._tail is not item:
            self._owners.append((self.written, item))
            self._tail = item
        self.written += frames

    def end(self, item_id: str, total: int) -> None:
        """All of the item has been appended; it is ``total`` samples long."""
        item = self.items.get(item_id)
        if item is None or item.state is not ItemState.OPEN:
            return
        item.total = total
        item.state = ItemState.DRAINING

    def fenced(self, item_id: str, samples: int) -> None:
        """Audio of a closed item arrived; it is counted and never sounds."""
        item = self.items.get(item_id) or self.closed.get(item_id)
        if item is not None:
            item.fenced += samples

    def live(self) -> list[Item]:
        """Items that a clear would stop now."""
        return [
            item for item in self.items.values() if item.stopped_by is None and not item.complete
        ]

    def clear(self, cause: Cause, only: Collection[str] | None = None) -> int:
        """A clear is asked for; its number, which is the queue's too. ``only``: the
        response that is stopped; no other may have frames in the queue then."""
        if self.generation - self.answered < CLEAR_SLOTS:
            self.generation += 1
        for item in self.live():
            if only is None or item.response_id in only:
                item.stopped_by = self.generation
        self._clears.append(_Clear(self.generation, cause))
        self._tail = None
        return self.generation

    def withdraw(self, response_id: str) -> list[Item]:
        """Closes the announced items of a response none of whose audio was queued."""
        items = [item for item in self.live() if item.response_id == response_id]
        for item in items:
            if item.frames:
                raise LedgerFault(f"item {item.item_id!r} has frames in the queue")
            self._close(item, ItemState.CLEARED, None)
        return items

    # ---- what the callback says ------------------------------------------------------

    def update(
        self, snapshot: Snapshot, answers: Iterable[Answer], segments: Iterable[Segment]
    ) -> list[Cut]:
        """One look at the queue: a snapshot, every answer up to ``snapshot.answered``, and
        the segments finished since. Returns what was cut, in order."""
        for segment in segments:
            self._segment(segment)
        self.log.grow(snapshot.open)
        self._restarted(snapshot.anchor)
        cuts = [cut for answer in answers if (cut := self._answer(answer)) is not None]
        if snapshot.answered != self.answered:
            raise LedgerFault(
                f"the snapshot of block {snapshot.block} follows clear {snapshot.answered}, "
                f"the ledger has applied {self.answered}"
            )
        self._anchor = snapshot.anchor if snapshot.anchor.blocks else self._anchor
        self._alive_ns = snapshot.now_ns
        self._hand(snapshot.read)
        for item in self.items.values():
            if item.silent_at is None and item.state is ItemState.DRAINING and item.complete:
                item.silent_at = self._silent_at(item)
        self._check(snapshot)
        return cuts

    def _restarted(self, anchor: Anchor) -> None:
        """Looks whether the device was started anew since the last look, with frames in it."""
        if not anchor.blocks or anchor.since == self._since:
            return
        first, self._since = self._since is None, anchor.since
        lost = 0 if first else restart_loss(anchor, self.timing)
        until = self.log.queue_at(anchor.since)
        start = self.log.queue_at(max(anchor.since - lost, 0))
        if not lost or until is None:
            return
        for item in self.items.values():
            from_frame = item.frames_below(start) if start is not None else 0
            if item.make_hole(from_frame, item.frames_below(until)):
                self.holed.append(item)

    def take_holed(self) -> list[Item]:
        """Items in which a hole was found, or grew, since the last call."""
        holed, self.holed = self.holed, []
        return holed

    def replay_answer(self, answer: Answer) -> Cut | None:
        """An answer without a snapshot that follows it: of a process that is gone."""
        return self._answer(answer)

    def forget(self, item_id: str) -> None:
        """The item was final already, for a process that is gone."""
        self.items.pop(item_id, None)

    def finished(self, now_ns: int) -> list[Item]:
        """Items that reached their final state by ``now_ns``, as far as it is proved."""
        done = []
        for item in list(self.items.values()):
            if not self._is_silent(item, now_ns):
                continue
            if item.cut:
                done.append(self._close(item, ItemState.CLEARED, item.reason))
            elif item.complete and item.whole:
                done.append(self._close(item, ItemState.PLAYED, None))
            elif item.complete:
                done.append(self._close(item, ItemState.CLEARED, RESTARTED))
        return done

    def give_up(self, item_id: str, now_ns: int, reason: str) -> Item | None:
        """Closes an item whose end will never come, once what it has was played."""
        item = self.items.get(item_id)
        if item is None or item.state is not ItemState.OPEN or item.stopped_by is not None:
            return None
        if item.handed < item.frames:
            return None
        if item.silent_at is None:
            item.silent_at = self._silent_at(item)
        if not self._is_silent(item, now_ns):
            return None
        return self._close(item, ItemState.UNFINISHED, reason)

    def lose(self, frames: int, reason: str) -> list[Item]:
        """The device is gone with up to ``frames`` handed frames in its buffer. Closes
        every item that was not silent yet; returns them. Silence in between is not
        counted, so the bound is never too small."""
        left = frames
        for item, n in reversed(self._handed_spans):
            if left <= 0:
                break
            if item.item_id in self.items:
                item.lost += min(n, left)
            left -= n
        return [self._close(item, ItemState.CLEARED, reason) for item in list(self.items.values())]

    # ---- inside ------------------------------------------------------------------------

    def _close(self, item: Item, state: ItemState, reason: str | None) -> Item:
        item.state = state
        item.reason = reason
        item.cut = True
        self.items.pop(item.item_id)
        self.closed[item.item_id] = item
        while len(self.closed) > KEEP_CLOSED:
            self.closed.pop(next(iter(self.closed)))
        return item

    def _owner(self, queue_frame: int) -> Item | None:
        while len(self._owners) > 1 and self._owners[1][0] <= queue_frame:
            self._owners.popleft()
        return self._owners[0][1] if self._owners and self._owners[0][0] <= queue_frame else None

    def _segment(self, segment: Segment) -> None:
        self.log.add(segment)
        item = self._owner(segment.queue_frame)
        if item is None:
            return
        item.ducked += segment.ducked
        item.fades += segment.faded
        if segment.kind is SegmentKind.STARVED:
            item.synthesized += segment.length

    def _answer(self, answer: Answer) -> Cut | None:
        if answer.request <= self.answered:
            return None
        self._anchor = answer.anchor
        if not answer.anchor.blocks:
            self._anchor = Anchor(answer.device_frame, answer.dac_ns, 0, answer.dac_ns, 0)
        self._hand(answer.cursor)
        if answer.faded and self._handed_spans:
            self._handed_spans[-1][0].faded = answer.faded
        self._take(answer.fence, handed=False)
        covered = []
        while self._clears and self._clears[0].request <= answer.request:
            covered.append(self._clears.popleft())
        asked = {clear.request: clear.cause.at_ns for clear in reversed(covered)}
        hit = []
        for item in self.items.values():
            if item.stopped_by is None or item.cut or item.stopped_by > answer.request:
                continue
            item.cut = True
            item.state = ItemState.CLEARED
            item.at_request = self._at_request(item, asked.get(item.stopped_by))
            item.stopped_by = answer.request
            item.silent_at = self._silent_at(item, answer)
            hit.append(item)
        self.answered = answer.request
        return Cut(
            answer,
            tuple(clear.request for clear in covered),
            tuple(clear.cause for clear in covered),
            tuple(hit),
        )

    def _hand(self, upto: int) -> None:
        if not self.read <= upto <= self.written:
            raise LedgerFault(f"the queue was read to {upto}; {self.read}..{self.written} can be")
        self._take(upto, handed=True)

    def _take(self, upto: int, handed: bool) -> None:
        while self._lane and self._lane[0][1].start < upto:
            item, run = self._lane[0]
            n = run.below(upto)
            if handed:
                item.handed += n
                self.handed += n
                self._span(item, n)
            else:
                item.dropped += n
                self.dropped += n
            run.start += n
            run.length -= n
            if run.length:
                break
            self._lane.popleft()
        self.read = max(self.read, upto)

    def _span(self, item: Item, n: int) -> None:
        if self._handed_spans and self._handed_spans[-1][0] is item:
            self._handed_spans[-1][1] += n
        else:
            self._handed_spans.append([item, n])

    def _at_request(self, item: Item, at_ns: int | None) -> Estimate:
        """Samples of the item that had left the converter when the clear was asked for."""
        handed = item.samples(item.handed)
        if at_ns is None or self._anchor is None or item.handed == 0:
            return Estimate(handed, 0, handed)
        frame = frame_at(self._anchor, self.timing, at_ns)
        positions = []
        for device_frame in (frame.lo, frame.est, frame.hi):
            queue = self.log.queue_at(device_frame)
            if queue is None:
                return Estimate(handed, 0, handed)
            positions.append(item.samples(min(item.frames_below(queue), item.handed)))
        lo, est, hi = positions
        return Estimate(est, lo, hi)

    def _silent_at(self, item: Item, answer: Answer | None = None) -> Estimate | None:
        last = item.last_handed
        if last is None or self._anchor is None:
            return None
        device_frame = self.log.device_of(last)
        if device_frame is None:
            # A fade that goes on beyond the block that was looked at; or too old for the
            # log, and then any time is late enough.
            device_frame = self._anchor.frame + item.faded
            if answer is not None:
                device_frame = answer.device_frame + answer.faded
        return time_of(self._anchor, self.timing, device_frame + 1)

    def _is_silent(self, item: Item, now_ns: int) -> bool:
        if item.handed == 0 and (item.cut or item.frames == 0):
            return True
        return item.silent_at is not None and min(now_ns, self._alive_ns) > item.silent_at.hi

    def _check(self, snapshot: Snapshot) -> None:
        """The identities of a consistent snapshot."""
        if snapshot.read != self._first_frame + snapshot.handed + snapshot.discarded:
            raise LedgerFault(
                f"block {snapshot.block}: read {snapshot.read} is not {self._first_frame} + "
                f"handed {snapshot.handed} + discarded {snapshot.discarded}"
            )
        if (self.handed, self.dropped) != (snapshot.handed, snapshot.discarded):
            raise LedgerFault(
                f"block {snapshot.block}: the ledger has handed {self.handed} and dropped "
                f"{self.dropped}, the queue {snapshot.handed} and {snapshot.discarded}"
            )
        queued: dict[str, int] = {}
        for item, run in self._lane:
            queued[item.item_id] = queued.get(item.item_id, 0) + run.length
        for item in self.items.values():
            waiting = queued.get(item.item_id, 0)
            if item.frames != item.handed + item.dropped + waiting:
                raise LedgerFault(
                    f"item {item.item_id!r}: received {item.frames} frames, handed "
                    f"{item.handed}, dropped {item.dropped}, queued {waiting}"
                )
