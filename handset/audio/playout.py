"""The native playout queue, for one control thread.

Positions are queue frames at the device's rate; see ``native/kelter.h`` for what each
call guarantees. Nothing here blocks.
"""

from __future__ import annotations

import mmap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from handset._native import ffi, lib
from handset.core.facts import Anchor, Answer, Segment, SegmentKind, Snapshot
from handset.errors import UsageError

Frames = NDArray[np.int16]

STALE = int(lib.KH_STALE)
_SEGMENTS_AT_ONCE = 256


@dataclass(frozen=True, slots=True)
class PlayoutConfig:
    """``fade`` in ms. ``seconds``: how much speech the lane holds, rounded up to a power
    of two of frames (87 s at 48 kHz: 8 MB)."""

    rate: int
    channels: int = 1
    seconds: float = 87.0
    notice_seconds: float = 5.0
    fade_ms: float = 5.0
    duck_gain: int = 8231
    """Q15; -12 dB."""
    restart_frames: int = 960
    first_frame: int = 0
    first_clear: int = 0
    boot_id: tuple[int, int] = (0, 0)
    wake_fd: int = -1


def _power_of_two(frames: float) -> int:
    return 1 << max(8, int(np.ceil(np.log2(frames))))


def _anchor(a: Any) -> Anchor:
    return Anchor(a.frame, a.ns, a.since, a.since_ns, a.blocks)


def answer_from(a: Any) -> Answer:
    return Answer(
        a.request,
        a.fence,
        a.cursor,
        a.faded,
        a.discarded,
        a.handed,
        a.device_frame,
        a.dac_ns,
        a.now_ns,
        a.flags,
        _anchor(a.anchor),
    )


def _segment(s: Any) -> Segment:
    kind = SegmentKind(s.kind) if s.kind else SegmentKind.IDLE
    return Segment(s.device_frame, s.queue_frame, s.length, s.ducked, s.faded, kind)


def snapshot_from(s: Any) -> Snapshot:
    return Snapshot(
        s.block,
        s.read,
        s.handed,
        s.discarded,
        s.answered,
        s.fading,
        bool(s.silent),
        s.underflows,
        s.device_frames,
        s.now_ns,
        _anchor(s.anchor),
        _segment(s.open),
        s.notice_handed,
        s.notice_device,
        s.volume,
        s.notice_flushed,
        s.notice_frame,
    )


class Playout:
    """``region``: a file in a tmpfs that outlives the process; it is made anew. Without
    one the counters die with the process."""

    def __init__(self, config: PlayoutConfig, region: Path | None = None) -> None:
        self.config = config
        self.capacity = _power_of_two(config.seconds * config.rate)
        notice = _power_of_two(config.notice_seconds * config.rate)
        size = lib.kh_playout_shared_size()
        self._shared = _map(region, size)
        self._shared_view = ffi.from_buffer(self._shared)
        self._ring = ffi.new("int16_t[]", self.capacity)
        self._notice = ffi.new("int16_t[]", notice)
        c = ffi.new("kh_playout_config *")
        c.rate, c.channels = config.rate, config.channels
        c.capacity, c.notice_capacity = self.capacity, notice
        c.fade = round(config.fade_ms * config.rate / 1000)
        c.duck_gain = config.duck_gain
        c.wake_fd = config.wake_fd
        c.restart_frames = config.restart_frames
        c.first_frame, c.first_clear = config.first_frame, config.first_clear
        c.boot_id = list(config.boot_id)
        self.fade = int(c.fade)
        result = ffi.new("int32_t *")
        self._q = lib.kh_playout_open(self._shared_view, self._ring, self._notice, c, result)
        if self._q == ffi.NULL:
            raise UsageError(
                f"playout queue refused ({result[0]}): {config}; fade is at most "
                f"{lib.KH_FADE_MAX} frames, duck_gain {lib.KH_DUCK_MIN}..32768"
            )
        self._answers: list[Answer] = []
        self._snapshot = ffi.new("kh_snapshot *")
        self._answer = ffi.new("kh_answer *")
        self._segments = ffi.new("kh_segment[]", _SEGMENTS_AT_ONCE)

    @property
    def handle(self) -> Any:
        """The native queue, for the port. The stream must close before the queue does."""
        return self._q

    def lock_memory(self) -> int:
        """Keeps what the callback touches in memory. 0, or an errno value."""
        regions = (
            (self._shared_view, len(self._shared)),
            (self._ring, 2 * self.capacity),
            (self._notice, ffi.sizeof(self._notice)),
        )
        for start, size in regions:
            if error := int(lib.kh_lock_memory(start, size)):
                return error
        return 0

    # ---- control --------------------------------------------------------------------------

    @property
    def space(self) -> int:
        """Frames that a write would take now. None while an answer is taken from the queue
        and not told yet: the queue then counts fewer clears as open than the ledger does."""
        return 0 if self._answers else int(lib.kh_playout_space(self._q))

    @property
    def written(self) -> int:
        return int(lib.kh_playout_written(self._q))

    @property
    def generation(self) -> int:
        return int(lib.kh_playout_generation(self._q))

    def write(self, generation: int, frames: Frames, starts_run: bool) -> int:
        """Frames taken, or ``STALE``. ``frames``: 1-d int16 at the device's rate."""
        data = ffi.from_buffer("int16_t[]", np.ascontiguousarray(frames, dtype=np.int16))
        return int(lib.kh_playout_write(self._q, generation, data, len(frames), starts_run))

    def clear(self) -> int:
        return int(lib.kh_playout_clear(self._q))

    def pause(self) -> int:
        return int(lib.kh_playout_pause(self._q))

    def duck(self) -> int:
        return int(lib.kh_playout_duck(self._q))

    def dismiss(self, number: int) -> bool:
        return bool(lib.kh_playout_dismiss(self._q, number))

    def notice(self, frames: Frames) -> int:
        """Frames taken. ``frames``: 1-d int16 at the device's rate, mixed over the speech."""
        data = ffi.from_buffer("int16_t[]", np.ascontiguousarray(frames, dtype=np.int16))
        return int(lib.kh_notice_write(self._q, data, len(frames)))

    @property
    def notice_written(self) -> int:
        """Notice frames taken so far; the number of the next one."""
        return int(lib.kh_notice_written(self._q))

    @property
    def notice_space(self) -> int:
        """Frames that :meth:`notice` would take now."""
        return int(lib.kh_notice_space(self._q))

    def flush_notices(self) -> None:
        """From the next block on, what is queued is dropped, with a fade of what is sounding.
        How many frames that were: ``notice_flushed`` of the snapshot."""
        lib.kh_notice_flush(self._q)

    def volume(self, gain: int) -> None:
        """Gain of everything that is played, speech and notices, from the next block on, with
        a ramp as long as a fade. Q15, 0 to 32768; ``UsageError`` beyond. Counts do not
        change with it."""
        if not 0 <= gain <= 32_768:
            raise UsageError(f"volume {gain}: a gain in Q15 is 0 to 32768")
        lib.kh_playout_volume(self._q, gain)

    def snapshot(self) -> Snapshot | None:
        """Counters of the newest block, None before the first."""
        if lib.kh_playout_snapshot(self._q, self._snapshot) != lib.KH_OK:
            return None
        return snapshot_from(self._snapshot)

    def look(self) -> tuple[Snapshot, tuple[Answer, ...], tuple[Segment, ...]] | None:
        """A snapshot, the answers up to it, and the segments finished since the last look.
        None before the first block."""
        snapshot = self.snapshot()
        if snapshot is None:
            return None
        while lib.kh_playout_answer(self._q, self._answer):
            self._answers.append(answer_from(self._answer))
        # An answer that is newer than the snapshot waits for the next look.
        upto = sum(answer.request <= snapshot.answered for answer in self._answers)
        answers, self._answers = self._answers[:upto], self._answers[upto:]
        segments: list[Segment] = []
        while True:
            n = lib.kh_playout_segments(self._q, self._segments, _SEGMENTS_AT_ONCE)
            segments += [_segment(self._segments[i]) for i in range(n)]
            if n < _SEGMENTS_AT_ONCE:
                break
        return snapshot, tuple(answers), tuple(segments)

    def settle(self, now_ns: int) -> None:
        """Answers what is outstanding. Only when no callback can run any more."""
        lib.kh_playout_settle(self._q, now_ns)

    # ---- what a card does, for the fake one ---------------------------------------------------

    def render(self, frames: int, dac_ns: int, now_ns: int, flags: int = 0) -> Frames:
        """One block as the device's callback would get it: ``frames * channels`` samples."""
        out = np.empty(frames * self.config.channels, np.int16)
        data = ffi.from_buffer("int16_t[]", out, require_writable=True) if frames else ffi.NULL
        lib.kh_playout_render(self._q, data, frames, dac_ns, now_ns, flags)
        return out

    def native_render(self) -> tuple[int, int]:
        """Addresses of ``kh_playout_render`` and of the queue, for a bench that calls from C."""
        address = ffi.addressof(lib, "kh_playout_render")
        return int(ffi.cast("intptr_t", address)), int(ffi.cast("intptr_t", self._q))

    def close(self) -> None:
        """Frees the queue. Idempotent; the stream must be closed."""
        if self._q is None:
            return
        lib.kh_playout_close(self._q)
        self._q = None
        ffi.release(self._shared_view)
        self._shared.close()


def _map(region: Path | None, size: int) -> mmap.mmap:
    if region is None:
        return mmap.mmap(-1, size)
    region.unlink(missing_ok=True)
    with region.open("w+b") as file:
        file.truncate(size)
        return mmap.mmap(file.fileno(), size)


@dataclass(frozen=True, slots=True)
class Remains:
    """What a dead process left in its region."""

    snapshot: Snapshot
    answers: tuple[Answer, ...]
    generation: int


def read_remains(region: Path, boot_id: tuple[int, int]) -> Remains | None:
    """None when there is nothing of this boot and layout, or no block ever ran."""
    try:
        data = region.read_bytes()
    except FileNotFoundError:
        return None
    # The native code reads atomics, so the copy has to be aligned.
    view = ffi.new("uint64_t[]", len(data) // 8 + 1)
    ffi.memmove(view, data, len(data))
    snapshot = ffi.new("kh_snapshot *")
    boot = ffi.new("uint64_t[2]", list(boot_id))
    if lib.kh_recover_snapshot(view, len(data), boot, snapshot) != lib.KH_OK:
        return None
    answers = ffi.new("kh_answer[]", lib.KH_ANSWERS)
    n = lib.kh_recover_answers(view, answers, lib.KH_ANSWERS)
    return Remains(
        snapshot_from(snapshot),
        tuple(answer_from(answers[i]) for i in range(n)),
        int(lib.kh_recover_generation(view)),
    )


def fade_gain(i: int, fade: int) -> int:
    """Gain, Q15, of frame ``i`` of a fade-out over ``fade`` frames."""
    return int(lib.kh_fade_gain(i, fade))
