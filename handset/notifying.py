"""Notices into the ear: tones and prompts into the notice lane, and where they lie in the
capture.

The lane has no items and no cursor. What the core is told is when it has run dry, and, so
that an edge can look away from it, which capture samples a notice may be in: from its first
frame's DAC time to its last one's, as wide as the clocks are uncertain, and ``TAIL_MS`` more
for the room and the headset.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from handset.audio.playout import Frames, Playout
from handset.core.events import Event, NoticeDone, NoticePlayed
from handset.core.facts import Snapshot
from handset.core.messages import Estimate, Span
from handset.core.notices import Notice, Part
from handset.core.segments import DeviceTiming, time_of

TAIL_MS = 60
FLUSH_MS = 40
"""What may still sound after a flush: two blocks and a fade, generously."""
CAPTURE_RATE = 48_000


class Sounds(Protocol):
    def frames(self, notice: Notice, part: Part) -> Frames: ...


@dataclass(slots=True)
class _InLane:
    name: str
    first: int
    end: int


class NoticePlayer:
    """``tell`` is the core; ``sample_at(ns)`` the capture position at a time."""

    def __init__(
        self,
        playout: Playout,
        timing: DeviceTiming,
        sounds: Sounds,
        tell: Callable[[Event], None],
        sample_at: Callable[[int], Estimate | None],
    ) -> None:
        self._playout = playout
        self._timing = timing
        self._sounds = sounds
        self._tell = tell
        self._sample_at = sample_at
        self._backlog: Frames | None = None
        self._lane: _InLane | None = None

    def play(self, notice: Notice, part: Part) -> None:
        frames = self._sounds.frames(notice, part)
        first = self._playout.notice_written
        taken = self._playout.notice(frames)
        self._backlog = frames[taken:] if taken < len(frames) else None
        self._lane = _InLane(f"{notice}/{part}", first, first + len(frames))

    def flush(self) -> None:
        """Drops what is queued. What sounds goes on for a block and a fade at most."""
        self._playout.flush_notices()
        lane, self._lane, self._backlog = self._lane, None, None
        seen = self._playout.snapshot()
        if lane is not None and seen is not None:
            self._mark(lane, max(seen.notice_frame, lane.first), seen, FLUSH_MS)

    def look(self, seen: Snapshot) -> None:
        """After every look at the queue."""
        lane = self._lane
        if lane is None:
            return
        if self._backlog is not None:
            taken = self._playout.notice(self._backlog)
            self._backlog = self._backlog[taken:] if taken < len(self._backlog) else None
        if seen.notice_frame < lane.end:
            return
        self._lane = None
        self._mark(lane, lane.end, seen)
        self._tell(NoticeDone())

    def _mark(self, lane: _InLane, end: int, seen: Snapshot, more_ms: int = 0) -> None:
        # Device frame of notice frame 0, if all had been played on end: the lane never pauses.
        origin = seen.notice_device - seen.notice_frame
        if end == lane.first:  # nothing of it was seen yet: it begins with the next block
            origin = seen.device_frames - lane.first
        begins = time_of(seen.anchor, self._timing, max(origin + lane.first, 0))
        ends = time_of(seen.anchor, self._timing, max(origin + end, 0))
        start, stop = self._sample_at(begins.lo), self._sample_at(ends.hi)
        if start is None or stop is None:
            return
        tail = (TAIL_MS + more_ms) * CAPTURE_RATE // 1000
        self._tell(NoticePlayed(lane.name, Span(max(start.lo, 0), stop.hi + tail)))
