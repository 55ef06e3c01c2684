"""What was heard: from a tape of index-coded items to counts and faults. Pure.

Theory of operation. On the tape 0 is silence (see ``signals``); what is left is compared
with the queued items in their order:

1. The longest stretch that is equal is what sounded at full gain.
2. If it ends before the tape does, the rest is a fade: the next samples of the same item
   at the known gains, each of them equal, and then nothing. A fade can begin a few
   samples earlier than the difference shows, where gains round to nothing.
3. Otherwise something is wrong. The next whole group on the tape says where the queue is
   then, and the difference says what happened: frames dropped, added, heard again, or
   there at another gain. Then 1 goes on from there.

Where silence lies *inside* an item it is reported apart; whether it may be there is for
the caller to judge.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from handset.bench.signals import Indices, Samples, coded, decoded, faded

EARLIEST = 32
"""Samples of a fade that may look like full gain."""
_SLACK = 48_000
_SEARCH = 4096


class FaultKind(StrEnum):
    DROPPED = "dropped"
    ADDED = "added"
    REPEATED = "repeated"
    GAIN = "gain"


@dataclass(frozen=True, slots=True)
class Queued:
    """``frames`` of the item with that tag were queued, its first one first."""

    tag: int
    frames: int


@dataclass(frozen=True, slots=True)
class Fault:
    """``frames`` of item ``tag`` from index ``index`` on, seen at tape frame ``at``."""

    kind: FaultKind
    tag: int
    index: int
    frames: int
    at: int
    gain: float = 1.0


@dataclass(frozen=True, slots=True)
class Silence:
    """``frames`` of silence before sample ``index`` (> 0) of item ``tag``."""

    tag: int
    index: int
    frames: int


@dataclass(frozen=True, slots=True)
class Heard:
    """``upto``: index of the last sample that sounded, plus 1. ``positions``: tape frames of
    all that sounded of the item, in order; ``faded`` of them, the last ones, in a fade."""

    tag: int
    upto: int
    faded: int
    positions: Indices

    def until(self, frame: int) -> int:
        """How many had sounded when tape frame ``frame`` was leaving the converter."""
        return int(np.searchsorted(self.positions, frame, side="right"))


@dataclass(frozen=True, slots=True)
class Reading:
    heard: tuple[Heard, ...]
    """One per queued item, in order; ``upto`` is 0 where nothing sounded."""
    faults: tuple[Fault, ...]
    silences: tuple[Silence, ...]
    last: int | None
    """Tape frame of the last sample that sounded."""


class _Walk:
    """Position ``want`` in the queue and ``seen`` in what sounded, and what was found."""

    def __init__(
        self, samples: Samples, start: int, queued: Sequence[Queued], curve: NDArray[np.int32]
    ) -> None:
        self.positions = np.flatnonzero(samples).astype(np.int64)
        self.values = samples[self.positions]
        self.positions += start
        self.queued = queued
        self.curve = curve
        self.first = np.concatenate(([0], np.cumsum([item.frames for item in queued])))
        self.expected = self._expected(len(self.values) + _SLACK)
        self.owner = np.full(len(self.values), -1, np.int64)
        """Queue frame that each value was recognised as."""
        self.faded = 0
        self.faults: list[Fault] = []
        self.want = self.seen = 0

    def _expected(self, most: int) -> Samples:
        parts: list[Samples] = [np.empty(0, np.int16)]
        for item in self.queued:
            if most <= 0:
                break
            parts.append(coded(item.tag, 0, min(item.frames, most)))
            most -= item.frames
        return np.concatenate(parts)

    def item_of(self, want: int) -> int:
        """Which of the queued items a queue frame belongs to."""
        return max(
            0, min(int(np.searchsorted(self.first, want, side="right")), len(self.queued)) - 1
        )

    def run(self) -> None:
        while self.seen < len(self.values):
            self._equal()
            if self.seen < len(self.values) and not self._fade():
                self._fault()

    def _take(self, n: int) -> None:
        self.owner[self.seen : self.seen + n] = np.arange(self.want, self.want + n)
        self.want += n
        self.seen += n

    def _equal(self) -> None:
        n = min(len(self.values) - self.seen, len(self.expected) - self.want)
        a = self.values[self.seen : self.seen + n]
        b = self.expected[self.want : self.want + n]
        differs = np.flatnonzero(a != b)
        self._take(int(differs[0]) if len(differs) else n)

    def _fade(self) -> bool:
        for back in range(min(EARLIEST, self.seen, self.want) + 1):
            seen, want = self.seen - back, self.want - back
            left = len(self.values) - seen
            if want >= len(self.expected):
                continue
            end = min(int(self.first[self.item_of(want) + 1]), len(self.expected))
            if left > min(len(self.curve), end - want):
                continue
            if back and not np.array_equal(
                self.owner[seen : self.seen], np.arange(want, self.want)
            ):
                return False
            if np.array_equal(
                faded(self.expected[want : want + left], self.curve), self.values[seen:]
            ):
                self.seen, self.want = seen, want
                self._take(left)
                self.faded = left
                return True
        return False

    def _resume(self) -> tuple[int, int] | None:
        """Where sound and queue next agree: offsets into both."""
        at, tags, indices = decoded(self.values[self.seen : self.seen + _SEARCH])
        for offset, tag, index in zip(at, tags, indices, strict=True):
            for k, item in enumerate(self.queued):
                if item.tag == tag and index < item.frames:
                    want, seen = int(self.first[k] + index), self.seen + int(offset)
                    while (
                        seen > self.seen
                        and want > 0
                        and want <= len(self.expected)
                        and self.values[seen - 1] == self.expected[want - 1]
                    ):
                        want, seen = want - 1, seen - 1
                    return want, seen
        return None

    def _gain(self, n: int) -> float | None:
        """The one gain at which the next n values would be right, if there is one."""
        a = self.values[self.seen : self.seen + n].astype(float)
        b = self.expected[self.want : self.want + n].astype(float)
        if n == 0 or len(a) != len(b):
            return None
        gain = float(a @ b / (b @ b))
        return gain if np.abs(a - gain * b).max() <= 2 else None

    def _fault(self) -> None:
        resumed = self._resume()
        seen = resumed[1] if resumed else len(self.values)
        more = seen - self.seen
        skipped = resumed[0] - self.want if resumed else more
        gain = self._gain(more) if skipped == more else None
        if gain is not None:
            self._note(FaultKind.GAIN, more, gain)
            self._take(more)
            return
        if more:
            self._note(FaultKind.ADDED, more)
        if resumed is None:
            self.seen = seen
            return
        if skipped > 0:
            self._note(FaultKind.DROPPED, skipped)
        elif skipped < 0:
            self._note(FaultKind.REPEATED, -skipped)
        self.want, self.seen = resumed

    def _note(self, kind: FaultKind, frames: int, gain: float = 1.0) -> None:
        k = self.item_of(self.want)
        at = int(self.positions[self.seen])
        index = int(self.want - self.first[k])
        self.faults.append(Fault(kind, self.queued[k].tag, index, frames, at, gain))

    # ---- what it comes to ----------------------------------------------------------------------

    def heard(self, k: int) -> Heard:
        mine = (self.owner >= self.first[k]) & (self.owner < self.first[k + 1])
        upto = int(self.owner[mine].max() - self.first[k]) + 1 if mine.any() else 0
        fades = self.faded if mine.any() and mine[-1] else 0
        return Heard(self.queued[k].tag, upto, fades, self.positions[mine])

    def silences(self) -> list[Silence]:
        found = []
        for at in np.flatnonzero(np.diff(self.positions) > 1) + 1:
            k = self.item_of(int(self.owner[at]))
            index = int(self.owner[at] - self.first[k])
            if self.owner[at] >= 0 and index > 0:
                frames = int(self.positions[at] - self.positions[at - 1]) - 1
                found.append(Silence(self.queued[k].tag, index, frames))
        return found


def read(
    samples: Samples, start: int, queued: Sequence[Queued], curve: NDArray[np.int32]
) -> Reading:
    """What of ``queued`` is on the tape ``samples``, whose first frame is ``start``. At most
    one fade, at its end; ``curve`` is its gain, Q15, sample by sample."""
    walk = _Walk(samples, start, queued, curve)
    if queued:
        walk.run()
    last = int(walk.positions[-1]) if len(walk.positions) else None
    return Reading(
        tuple(walk.heard(k) for k in range(len(queued))),
        tuple(walk.faults),
        tuple(walk.silences()),
        last,
    )


def cut_error(heard: Heard, handed: int) -> int:
    """Samples by which a reported cursor is off: below 0 it claims more than sounded."""
    return heard.upto - handed


def shifts(pairs: Sequence[tuple[int, int]]) -> list[int]:
    """Device frame and tape frame of the same sample, pair by pair: by how many frames
    their distance changed since the pair before. All 0 while the stream runs through."""
    distance = [tape - device for device, tape in pairs]
    return [after - before for before, after in pairwise(distance)]
