"""The virtual card's ground truth, as it lies in shared memory.

What the keeper process writes there: the tape (every sample, at the card frame at which it left the
converter), the clock, and the event log. Positions are card frames, times are CLOCK_MONOTONIC
nanoseconds. `native/vcard/vcard.h` describes the layout; its header carries the offsets used here.
"""

from __future__ import annotations

import enum
import mmap
import struct
from bisect import bisect_right
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

_MAGIC = 0x316472614372746B
_VERSION = 1
_DRIVEN = 0x10000
_HEAD = struct.Struct("=QIIQQQQ")
_PIECE = struct.Struct("=qqQQQ")
_EVENT = struct.Struct("=IIqqqqiIII")
_ARENA_FRAMES = 1 << 23


class Direction(enum.IntEnum):
    """Which half of the card."""

    PLAYBACK = 0
    CAPTURE = 1
    CARD = 2


class EventKind(enum.IntEnum):
    """What the card's log records."""

    OPEN = 1
    CLOSE = 2
    START = 3
    STOP = 4
    DRAINED = 5
    XRUN = 6
    OWNER_DIED = 7
    UNPLUG = 8
    REPLUG = 9
    CLOCK = 10


@dataclass(frozen=True, slots=True)
class CardEvent:
    """One entry of the log.

    `frame` is, for a start, the frame at which the first sample leaves the converter (or is the
    first recorded); for the end of a playback stream, the first frame that this stream does not
    drive; else the card's clock. `handed` counts frames handed over (playback) or taken (capture)
    since the stream was prepared: at a start, those handed over before it. The last `voided` of
    them never sound.
    """

    kind: EventKind
    direction: Direction
    frame: int
    time_ns: int
    handed: int
    voided: int
    pid: int
    rate: int
    period: int
    buffer: int

    @property
    def sounded(self) -> int:
        """Frames of an ended playback stream that left, or will leave, the converter."""
        return self.handed - self.voided


@dataclass(frozen=True, slots=True)
class CardRecord:
    """A stretch of tape: int16 samples, and where the converter was driven at all."""

    start: int
    samples: NDArray[np.int16]
    driven: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class ClockPiece:
    """A stretch of constant speed. `step` and `fraction` are frames in 1/2^64."""

    mono_ns: int
    frame: int
    fraction: int
    step: int
    rate: int

    def frame_at(self, mono_ns: int) -> int:
        """The frame that is leaving the converter at `mono_ns`."""
        elapsed = max(0, mono_ns - self.mono_ns)
        return self.frame + ((elapsed * self.step + self.fraction) >> 64)

    def time_ns(self, frame: int) -> int:
        """The first nanosecond at which the clock shows `frame`."""
        advance = ((frame - self.frame) << 64) - self.fraction
        return self.mono_ns + max(0, -(-advance // self.step))


class CardTape:
    """Reads a running card's memory. Counts must come from the keeper's answer to a request (which
    orders memory), so methods that read data take them as arguments."""

    def __init__(self, directory: Path) -> None:
        with (directory / "card").open("r+b") as file:
            self._card = mmap.mmap(file.fileno(), 0)
        with (directory / "tape").open("rb") as file:
            self._tape_map = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
        magic, version, self.frames, *offsets = _HEAD.unpack_from(self._card)
        if (magic, version) != (_MAGIC, _VERSION):
            raise ValueError(
                f"{directory}/card: layout {magic:#x} version {version}, not {_VERSION}: "
                "rebuild native/vcard"
            )
        self._committed_at, self._clock_at, self._events_at, self._arena_at = offsets
        self._tape: NDArray[np.int32] | None = np.frombuffer(self._tape_map, np.int32)
        self._pieces: list[ClockPiece] = []

    def close(self) -> None:
        """Unmaps. Records handed out are copies and stay valid."""
        self._tape = None
        self._tape_map.close()
        self._card.close()

    def _word(self, offset: int) -> int:
        return int.from_bytes(self._card[offset : offset + 8], "little")

    @property
    def committed(self) -> int:
        """The tape was final below this frame when last written; it lags while the card is idle."""
        return self._word(self._committed_at)

    def clock(self) -> list[ClockPiece]:
        """All pieces so far, oldest first."""
        for index in range(len(self._pieces), self._word(self._clock_at)):
            self._pieces.append(
                ClockPiece(
                    *_PIECE.unpack_from(self._card, self._clock_at + 8 + index * _PIECE.size)
                )
            )
        return self._pieces

    def piece_at_time(self, mono_ns: int) -> ClockPiece:
        """The piece in force at that time; before the card existed, the first."""
        pieces = self.clock()
        return pieces[max(0, bisect_right(pieces, mono_ns, key=lambda piece: piece.mono_ns) - 1)]

    def piece_at_frame(self, frame: int) -> ClockPiece:
        """The piece during which that frame began."""
        pieces = self.clock()
        begun = bisect_right(pieces, frame, key=lambda piece: piece.frame + (piece.fraction > 0))
        return pieces[max(0, begun - 1)]

    def events(self, first: int, count: int) -> list[CardEvent]:
        """Log entries [first, count)."""
        base = self._events_at + 16
        result = []
        for index in range(first, count):
            kind, direction, *numbers = _EVENT.unpack_from(self._card, base + index * _EVENT.size)
            result.append(CardEvent(EventKind(kind), Direction(direction), *numbers))
        return result

    def read(self, start: int, stop: int, committed: int) -> CardRecord:
        """Frames [start, stop). ValueError when they are not final yet, or no longer on the
        tape."""
        oldest = max(0, committed - self.frames)
        if not oldest <= start <= stop <= committed:
            raise ValueError(f"frames [{start}, {stop}): the tape holds [{oldest}, {committed})")
        if self._tape is None:
            raise ValueError("the tape is closed")
        first = start % self.frames
        count = stop - start
        words = self._tape[first : first + count]
        if len(words) < count:
            words = np.concatenate((words, self._tape[: count - len(words)]))
        return CardRecord(
            start, (words & 0xFFFF).astype(np.uint16).view(np.int16), (words & _DRIVEN) != 0
        )

    def write_arena(self, position: int, samples: NDArray[np.int16]) -> None:
        """Puts a clip's samples where the keeper reserved room for them."""
        first = position % _ARENA_FRAMES
        head = samples[: _ARENA_FRAMES - first].tobytes()
        tail = samples[_ARENA_FRAMES - first :].tobytes()
        self._card[self._arena_at + 2 * first : self._arena_at + 2 * first + len(head)] = head
        self._card[self._arena_at : self._arena_at + len(tail)] = tail
