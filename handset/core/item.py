"""One assistant audio item, and how much of it went where.

Frames are queue frames (the device's rate). The cursor that leaves this module is in
item samples. One cumulative, monotone map per item joins the two: ``samples(frames) =
min(frames * rate // device_rate, received)``; the decoder puts out exactly
``ceil(samples * device_rate / rate)`` frames, so the whole item maps to all of its
samples, at any pair of rates.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from handset.core.messages import Estimate, ItemCursor, Output


class ItemState(StrEnum):
    OPEN = "open"
    DRAINING = "draining"
    PLAYED = "played"
    CLEARED = "cleared"
    UNFINISHED = "unfinished"


FINAL = frozenset({ItemState.PLAYED, ItemState.CLEARED, ItemState.UNFINISHED})


@dataclass(slots=True)
class Run:
    """``length`` consecutive queue frames of one item, from ``start``."""

    start: int
    length: int

    def below(self, queue_frame: int) -> int:
        """How many of its frames lie below ``queue_frame``."""
        return min(max(queue_frame - self.start, 0), self.length)


@dataclass(slots=True)
class Item:
    item_id: str
    response_id: str
    content_index: int
    turn: int
    rate: int
    device_rate: int
    session: str = ""
    """In which it was announced; its events are of that session, whenever they are made."""
    state: ItemState = ItemState.OPEN
    received: int = 0
    """Samples accepted, those inside the resampler included."""
    total: int | None = None
    """Samples of the whole item, once its end is known."""
    frames: int = 0
    handed: int = 0
    dropped: int = 0
    faded: int = 0
    ducked: int = 0
    fades: int = 0
    """Frames in any fade to silence: of the clear (``faded``), or of a pause that ended."""
    synthesized: int = 0
    lost: int = 0
    """Handed frames at the end that may not have sounded: the device was lost."""
    hole: tuple[int, int] | None = None
    """Item frames ``[from, until)`` that may not have sounded: the device restarted with
    them in its buffer. ``until`` may lie beyond what was handed."""
    fenced: int = 0
    runs: list[Run] = field(default_factory=list)
    stopped_by: int | None = None
    """Number of the first clear that was asked for while the item was alive."""
    cut: bool = False
    """That clear was answered: the cursor is fixed, and what is handed will sound."""
    at_request: Estimate | None = None
    silent_at: Estimate | None = None
    output: Output | None = None
    reason: str | None = None

    def samples(self, frames: int) -> int:
        return min(frames * self.rate // self.device_rate, self.received)

    def append(self, start: int, frames: int, samples: int) -> None:
        self.received += samples
        self.frames += frames
        if frames == 0:
            return
        self.silent_at = None  # what was thought to be its last frame is not
        if self.runs and self.runs[-1].start + self.runs[-1].length == start:
            self.runs[-1].length += frames
        else:
            self.runs.append(Run(start, frames))

    def frames_below(self, queue_frame: int) -> int:
        """Its frames in the queue below ``queue_frame``, in order of the item."""
        return sum(run.below(queue_frame) for run in self.runs)

    @property
    def last_handed(self) -> int | None:
        """Queue frame of its newest frame handed, None when none was."""
        left = self.handed
        for run in self.runs:
            if left <= run.length:
                return run.start + left - 1 if left else None
            left -= run.length
        return None

    @property
    def complete(self) -> bool:
        """Its end is known and all of it was handed."""
        return self.total is not None and self.handed == self.frames and not self.cut

    def make_hole(self, start: int, until: int) -> bool:
        """Widens the hole; False when it is no wider than before, or has no frame."""
        if self.hole is not None:
            start, until = min(start, self.hole[0]), max(until, self.hole[1])
        if start >= until or self.hole == (start, until):
            return False
        self.hole = (start, until)
        return True

    @property
    def whole(self) -> bool:
        """Everything that was handed sounded, as far as can be known."""
        return self.lost == 0 and not self._hole_frames()

    def _hole_frames(self) -> int:
        if self.hole is None:
            return 0
        return max(min(self.hole[1], self.handed) - self.hole[0], 0)

    def _played_frames(self) -> int:
        """Up to the first frame that may not have sounded."""
        upto = self.handed - self.lost
        return min(upto, self.hole[0]) if self.hole is not None and self._hole_frames() else upto

    def cursor(self) -> ItemCursor:
        handed = self.samples(self.handed)
        if self.complete:
            handed = self.received
        closed = self.cut or self.state in FINAL
        dropped = self.received - handed if closed else 0
        played = handed if self.whole else self.samples(self._played_frames())
        certain = self.samples(max(self.handed - self.lost - self._hole_frames(), 0))
        return ItemCursor(
            item_id=self.item_id,
            response_id=self.response_id,
            content_index=self.content_index,
            rate=self.rate,
            state=self.state.value,
            received=self.received,
            handed=handed,
            dropped=dropped,
            queued=self.received - handed - dropped,
            played=played,
            exact=self.whole,
            lost_max=0 if self.whole else handed - min(certain, handed),
            faded=self._length(self.faded),
            ducked=self._length(self.ducked + max(self.fades - self.faded, 0)),
            synthesized=self._length(self.synthesized),
            fenced=self.fenced,
            audio_end_ms=played * 1000 // self.rate,
            at_request=self.at_request,
            silent_at_ns=self.silent_at,
            output=self.output,
        )

    def _length(self, frames: int) -> int:
        return frames * self.rate // self.device_rate
