"""What the native playout reports, as plain data. The fields are those of ``kelter.h``.

Frames are counts at the device's rate; times are ns of CLOCK_MONOTONIC.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class SegmentKind(IntEnum):
    REAL = 1
    STARVED = 2
    PAUSED = 3
    IDLE = 4
    DRY = 5


UNDERFLOW = 1
NOMINAL_TIME = 4
"""Bits of ``Answer.flags``."""


@dataclass(frozen=True, slots=True)
class Anchor:
    """Device frame ``frame`` leaves the converter at ``ns``, by the lower envelope of the
    device's own times over ``blocks`` blocks. The mapping holds from frame ``since`` on,
    which by the mapping before it would have been due at ``since_ns``."""

    frame: int
    ns: int
    since: int
    since_ns: int
    blocks: int


@dataclass(frozen=True, slots=True)
class Answer:
    request: int
    fence: int
    cursor: int
    faded: int
    discarded: int
    handed: int
    device_frame: int
    dac_ns: int
    now_ns: int
    flags: int
    anchor: Anchor


@dataclass(frozen=True, slots=True)
class Segment:
    device_frame: int
    queue_frame: int
    length: int
    ducked: int
    faded: int
    kind: SegmentKind


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The counters of one block that the core needs; consistent with each other."""

    block: int
    read: int
    handed: int
    discarded: int
    answered: int
    fading: int
    silent: bool
    underflows: int
    device_frames: int
    now_ns: int
    anchor: Anchor
    open: Segment
    notice_handed: int = 0
    """Notice frames mixed in so far."""
    notice_device: int = 0
    """Device frame just after the newest of them."""
    volume: int = 32_768
    """Q15, at the end of the block."""
    notice_flushed: int = 0
    """Notice frames dropped by flushes. What was written is handed, flushed or queued."""
    notice_frame: int = 0
    """Notice frame just after the newest one mixed in: frame ``n`` of one stretch with it
    lay at device frame ``notice_device - (notice_frame - n)``."""
