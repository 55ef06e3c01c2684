"""A sound card in memory: deterministic, sample by sample, around the real native queue.

Time is a number. The card asks for a block as soon as its buffer has room for it, and
every sample leaves the converter at a time that follows from its place on the tape. What
was handed over and has not left yet is in the device: :meth:`FakeCard.kill` takes that
with it, :meth:`FakeCard.hang` lets it run dry.

Frames are device frames, times are ns of the card's own CLOCK_MONOTONIC.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import repeat

import numpy as np

from handset.audio.capture import Capture
from handset.audio.playout import Frames, Playout
from handset.core.segments import DeviceTiming

SECOND = 1_000_000_000
UNDERFLOW, OVERFLOW = 1, 2
"""What the driver flags, by the bits of ``kelter.h``."""

Voice = Callable[[int, int], Frames]
"""``(position, n)`` -> what the microphone hears in those capture frames."""


def silence(position: int, n: int) -> Frames:
    return np.zeros(n, np.int16)


class FakeCard:
    """``blocks``: frames of one callback, or a sequence of sizes. ``buffer``: frames that
    the device holds. ``drift_ppm``: how much faster than nominal its crystal is.
    ``step_ns``: grid on which the device reports times, always rounded up: a coarse
    pointer only makes a block look later than it is. ``reference``: gets every block that
    the device gets, with as many channels as the playout."""

    def __init__(
        self,
        playout: Playout,
        capture: Capture | None = None,
        *,
        blocks: int | Iterable[int] = 480,
        buffer: int = 1_440,
        start_ns: int = 10 * SECOND,
        drift_ppm: float = 0.0,
        step_ns: int = 1,
        voice: Voice = silence,
        reference: Capture | None = None,
    ) -> None:
        self.reference = reference
        self.playout = playout
        self.capture = capture
        self.buffer = buffer
        self.now_ns = start_ns
        self.voice = voice
        self.blocks = 0
        """Callbacks made."""
        self._sizes: Iterator[int] = repeat(blocks) if isinstance(blocks, int) else iter(blocks)
        self._frame_ns = SECOND / (playout.config.rate * (1 + drift_ppm * 1e-6))
        self._step_ns = step_ns
        self._lines = [(0, start_ns + buffer * self._frame_ns)]
        self._parts: list[Frames] = []
        self._tape = np.zeros(0, np.int16)
        self._handed = 0
        self._captured = self._listened = self._deaf = 0
        self._gone_ns: int | None = None

    def timing(self, period: int = 480) -> DeviceTiming:
        """What a driver would have granted."""
        return DeviceTiming(self.playout.config.rate, period, self.buffer, period)

    # ---- what the card does -----------------------------------------------------------------

    def block(self) -> None:
        """The next callback, when the device has room for it."""
        if self._gone_ns is not None:
            raise ValueError("the card is gone; no callback runs any more")
        n = next(self._sizes)
        first = self._handed
        self.now_ns = max(self.now_ns, self.time_of(first - max(self.buffer - n, 0)))
        flags = 0
        ahead = max(self.buffer - n, 0) * self._frame_ns
        if first == 0:  # the device starts with its first block, whenever that comes
            self._lines[0] = (0, self.now_ns + ahead)
        elif self.now_ns > self.time_of(first):
            # It starts anew once it is dry, on a buffer of silence, and asks for a block
            # when there is room for one.
            flags = UNDERFLOW
            dry_ns = self.time_of(first)
            self.now_ns = max(self.now_ns, round(dry_ns + n * self._frame_ns))
            self._lines.append((first, self.now_ns + ahead))
        out = self.playout.render(n, self._reported(self.time_of(first)), self.now_ns, flags)
        if self.reference is not None:
            self.reference.process(out, n, self._reported(self.time_of(first)), self.now_ns, flags)
        self._parts.append(out[:: self.playout.config.channels])
        self._handed += n
        self.blocks += 1
        self._listen(n)

    def run(self, frames: int) -> None:
        """Callbacks until ``frames`` more have been handed over."""
        until = self._handed + frames
        while self._handed < until:
            self.block()

    def hang(self, ns: int) -> None:
        """Time passes without a callback. Longer than the buffer, and the device runs dry:
        the next block then is late and flagged, and all after it lies later in time."""
        self.now_ns += ns

    def xrun(self, gap_ns: int = 5_000_000) -> None:
        """The device runs dry and stays so for ``gap_ns``."""
        self.now_ns = max(self.now_ns, self.time_of(self._handed) + gap_ns)

    def kill(self) -> None:
        """Unplugged, or its owner died: what has not left the converter never will."""
        if self._gone_ns is None:
            self._gone_ns = self.now_ns

    def overflow(self, frames: int) -> None:
        """The device drops at least ``frames`` of input from now on, in whole blocks;
        playout is not touched."""
        self._deaf = frames

    # ---- the truth -----------------------------------------------------------------------------

    @property
    def handed(self) -> int:
        """Frames that callbacks have filled."""
        return self._handed

    @property
    def tape(self) -> Frames:
        """Every sample that was handed over, first channel, by device frame."""
        if self._parts:
            self._tape = np.concatenate((self._tape, *self._parts))
            self._parts.clear()
        return self._tape

    @property
    def heard(self) -> Frames:
        """Those of them that have left the converter by now."""
        return self.tape[: self.left(self.now_ns)]

    def time_of(self, frame: int) -> int:
        """When ``frame`` leaves the converter, if nothing comes in between."""
        at, ns = next(line for line in reversed(self._lines) if line[0] <= frame or line[0] == 0)
        return round(ns + (frame - at) * self._frame_ns)

    def left(self, at_ns: int) -> int:
        """Frames that have left the converter at ``at_ns``."""
        if self._gone_ns is not None:
            at_ns = min(at_ns, self._gone_ns)
        low, high = 0, self._handed
        while low < high:
            middle = (low + high) // 2
            if self.time_of(middle) <= at_ns:
                low = middle + 1
            else:
                high = middle
        return low

    def in_device(self, at_ns: int) -> int:
        """Frames handed over that have not left at ``at_ns``."""
        return self._handed - self.left(at_ns)

    # ---- inside ----------------------------------------------------------------------------------

    def _reported(self, ns: int) -> int:
        return -(-ns // self._step_ns) * self._step_ns

    def _listen(self, n: int) -> None:
        """The microphone's side of a callback."""
        if self.capture is None:
            return
        first = self._captured
        self._captured += n
        if self._deaf > 0:
            self._deaf -= n
            return
        flags = 0 if first == self._listened else OVERFLOW
        self._listened = self._captured
        heard = np.ascontiguousarray(np.repeat(self.voice(first, n), self.capture.config.channels))
        adc_ns = self._reported(round(self.now_ns - n * self._frame_ns))
        self.capture.process(heard, n, adc_ns, self.now_ns, flags)
