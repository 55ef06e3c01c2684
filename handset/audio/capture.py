"""The native microphone ring, for one control thread.

Positions are frames of the capture timeline at the device's rate, gaps included.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from handset._native import ffi, lib
from handset.audio.playout import Frames
from handset.core.facts import Anchor
from handset.core.messages import Estimate
from handset.core.segments import DeviceTiming, frame_at
from handset.errors import UsageError

_READ = 4096


@dataclass(frozen=True, slots=True)
class CaptureConfig:
    rate: int
    channels: int = 1
    seconds: float = 5.0
    restart_frames: int = 960
    first_frame: int = 0
    wake_fd: int = -1
    wake_ms: int = 20


@dataclass(frozen=True, slots=True)
class Gap:
    """``kind``: ``reader`` (the ring was full) or ``device`` (the device dropped input)."""

    position: int
    length: int
    kind: str


@dataclass(frozen=True, slots=True)
class CaptureCounts:
    block: int
    position: int
    stored: int
    dropped: int
    missing: int
    overflows: int
    muted: int
    frame: int
    adc_ns: int
    now_ns: int
    anchor: Anchor


class Capture:
    def __init__(self, config: CaptureConfig) -> None:
        self.config = config
        capacity = 1 << int(np.ceil(np.log2(config.seconds * config.rate)))
        self._ring = ffi.new("int16_t[]", capacity)
        c = ffi.new("kh_capture_config *")
        c.rate, c.channels, c.capacity = config.rate, config.channels, capacity
        c.wake_fd = config.wake_fd
        c.wake_every = config.rate * config.wake_ms // 1000
        c.restart_frames = config.restart_frames
        c.first_frame = config.first_frame
        result = ffi.new("int32_t *")
        self._c = lib.kh_capture_open(self._ring, c, result)
        if self._c == ffi.NULL:
            raise UsageError(f"capture ring refused ({result[0]}): {config}")
        self._counts = ffi.new("kh_capture_snapshot *")
        self._gaps = ffi.new("kh_gap[]", lib.KH_GAPS)
        self._position = ffi.new("uint64_t *")

    @property
    def handle(self) -> Any:
        return self._c

    def lock_memory(self) -> int:
        return int(lib.kh_lock_memory(self._ring, ffi.sizeof(self._ring)))

    def mute(self, muted: bool) -> None:
        """From the next block on the ring gets zeros, or the microphone again."""
        lib.kh_capture_mute(self._c, muted)

    def read(self) -> list[tuple[int, Frames]]:
        """Everything captured since the last read, as stretches without a gap inside."""
        stretches: list[tuple[int, Frames]] = []
        while True:
            out = np.empty(_READ, np.int16)
            data = ffi.from_buffer("int16_t[]", out, require_writable=True)
            n = int(lib.kh_capture_read(self._c, data, _READ, self._position))
            if n == 0:
                return stretches
            stretches.append((int(self._position[0]), out[:n]))

    def gaps(self) -> list[Gap]:
        """Gaps that reads have passed since the last call."""
        n = lib.kh_capture_gaps(self._c, self._gaps, lib.KH_GAPS)
        kinds = {lib.KH_GAP_READER: "reader", lib.KH_GAP_DEVICE: "device"}
        return [
            Gap(int(g.position), int(g.length), kinds[g.kind])
            for g in (self._gaps[i] for i in range(n))
        ]

    def counts(self) -> CaptureCounts | None:
        """Counters of the newest block, None before the first."""
        if lib.kh_capture_snapshot_get(self._c, self._counts) != lib.KH_OK:
            return None
        s = self._counts
        a = s.anchor
        return CaptureCounts(
            s.block,
            s.position,
            s.stored,
            s.dropped,
            s.missing,
            s.overflows,
            s.muted,
            s.frame,
            s.adc_ns,
            s.now_ns,
            Anchor(a.frame, a.ns, a.since, a.since_ns, a.blocks),
        )

    def sample_at(self, at_ns: int, timing: DeviceTiming) -> Estimate | None:
        """Capture frame that passed the converter at ``at_ns``, with bounds."""
        counts = self.counts()
        if counts is None or counts.anchor.blocks == 0:
            return None
        found = frame_at(counts.anchor, timing, at_ns)
        return Estimate(max(found.est, 0), max(found.lo, 0), max(found.hi, 0))

    def process(self, frames: Frames | None, n: int, adc_ns: int, now_ns: int, flags: int) -> None:
        """One block as the device's callback would give it; for the fake card."""
        data = ffi.NULL if frames is None else ffi.from_buffer("int16_t[]", frames)
        lib.kh_capture_process(self._c, data, n, adc_ns, now_ns, flags)

    def close(self) -> None:
        if self._c is not None:
            lib.kh_capture_close(self._c)
            self._c = None
