"""Conversions between device frames, queue frames and time.

Rules:

- The callback's segment log is the only way between device frames and queue frames:
  silence in between counts for the device and not for the queue.
- The anchor (lower envelope of the device's own times) is the only way between device
  frames and time. Before the last restart of the device the older line is used.

The error of a time. The envelope can only be late, by a pointer that moves in steps
and by late wake-ups: ``EARLY_NS``, or a whole host period while only few blocks
support it. It can be early by the drift of the two clocks over the window (64 blocks,
200 ppm: 0.13 ms at 10 ms blocks) and by rounding: ``LATE_NS``. On top comes what the
driver does not report, the constant K with its own bounds.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from handset.core.facts import Anchor, Segment, SegmentKind
from handset.core.messages import Estimate

EARLY_NS = 1_000_000
LATE_NS = 500_000
TRUSTED_BLOCKS = 16
SECOND = 1_000_000_000
NO_DELAY = Estimate(0, 0, 0)


@dataclass(frozen=True, slots=True)
class DeviceTiming:
    """What is known of the output device. ``k`` is the delay beyond what the driver
    reports, ns; ``quality`` says where it comes from. ``period`` and ``buffer`` are
    frames as granted."""

    rate: int
    period: int
    buffer: int
    block: int
    k: Estimate = NO_DELAY
    quality: str = "nominal"


class SegmentLog:
    """The newest segments, enough to look back over a device buffer and a pause.

    ``tail`` is the segment that was still growing at the last snapshot.
    """

    def __init__(self, keep: int = 256) -> None:
        self._segments: deque[Segment] = deque(maxlen=keep)
        self.tail: Segment | None = None

    def add(self, segment: Segment) -> None:
        self._segments.append(segment)

    def grow(self, segment: Segment) -> None:
        """Sets the tail, unless a finished segment already covers it."""
        last = self._segments[-1] if self._segments else None
        newer = last is None or segment.device_frame >= last.device_frame + last.length
        self.tail = segment if segment.length and newer else None

    def _newest_first(self) -> Iterator[Segment]:
        if self.tail is not None:
            yield self.tail
        yield from reversed(self._segments)

    def queue_at(self, device_frame: int) -> int | None:
        """Queue frames handed in device frames below ``device_frame``: the first queue
        frame that had not been handed by then. None when that is too long ago."""
        for segment in self._newest_first():
            if device_frame < segment.device_frame:
                continue
            if segment.kind is not SegmentKind.REAL:
                return segment.queue_frame
            return segment.queue_frame + min(device_frame - segment.device_frame, segment.length)
        return None

    def device_of(self, queue_frame: int) -> int | None:
        """Device frame that carried ``queue_frame``, None when it is not in the log."""
        for segment in self._newest_first():
            offset = queue_frame - segment.queue_frame
            if segment.kind is SegmentKind.REAL and 0 <= offset < segment.length:
                return segment.device_frame + offset
        return None


def _slack(anchor: Anchor, timing: DeviceTiming) -> tuple[int, int]:
    """How much earlier and later than the envelope a frame may really sound, ns."""
    if anchor.blocks == 0:  # nothing but a nominal latency: anywhere in the buffer
        return (timing.buffer * SECOND // timing.rate,) * 2
    early = EARLY_NS
    if anchor.blocks < TRUSTED_BLOCKS:
        early += timing.period * SECOND // timing.rate
    return early, LATE_NS


def frame_at(anchor: Anchor, timing: DeviceTiming, at_ns: int) -> Estimate:
    """First device frame that has not left the converter at ``at_ns``."""
    early, late = _slack(anchor, timing)

    def frame(ns: int) -> int:
        ahead = anchor.frame + (ns - anchor.ns) * timing.rate // SECOND
        if ahead >= anchor.since:
            return ahead
        # Before the restart the older line holds; in the gap nothing sounded.
        return min(anchor.since, anchor.since + (ns - anchor.since_ns) * timing.rate // SECOND)

    return Estimate(
        frame(at_ns - timing.k.est) + 1,
        frame(at_ns - timing.k.hi - late),
        frame(at_ns - timing.k.lo + early) + 2,
    )


def time_of(anchor: Anchor, timing: DeviceTiming, device_frame: int) -> Estimate:
    """When ``device_frame`` leaves the converter, ns."""
    early, late = _slack(anchor, timing)
    ns = anchor.ns + (device_frame - anchor.frame) * SECOND // timing.rate
    if device_frame < anchor.since:
        ns = anchor.since_ns + (device_frame - anchor.since) * SECOND // timing.rate
    return Estimate(ns + timing.k.est, ns + timing.k.lo - early, ns + timing.k.hi + late)


def restart_loss(anchor: Anchor, timing: DeviceTiming) -> int:
    """How many of the frames handed before the device restarted may never have sounded.

    A device that ran dry had played everything: its next frame was due before it started
    anew. One that was started anew while frames were due had them in its buffer, and what
    became of them nobody says. The first frame after a start leaves a buffer later, because
    PortAudio fills the buffer with silence first.
    """
    first_ns = anchor.ns + (anchor.since - anchor.frame) * SECOND // timing.rate
    started_ns = first_ns - timing.buffer * SECOND // timing.rate
    if anchor.since_ns - started_ns <= EARLY_NS:
        return 0
    return timing.buffer + max(timing.block, timing.period)
