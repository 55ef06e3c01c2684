"""What the loudspeaker played while the microphone heard: two clocks brought together.

The playout reports which device frame leaves the converter when, the microphone which
frame entered when; each by its own crystal, and some 200 ppm apart when they are two cards.
Their anchors are lower envelopes of what the devices say, redrawn every few hundred ms: good
to a block, but with steps of a few frames that an echo canceller would take for a moving
room. So a loop of second order follows them: positions glide, the ratio of the clocks is
learned, and only an error above ``JUMP_S`` (a device started anew) is a jump.

Times are ns of CLOCK_MONOTONIC. Reference positions are device frames, and not whole.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from handset.audio.echo import FRAME
from handset.audio.echo import RATE as ECHO_RATE
from handset.audio.playout import Frames
from handset.audio.resample import Kernel, Samples
from handset.core.facts import Anchor

SECOND = 1_000_000_000
KEEP_S = 1.0
"""More than a device buffers, and than the microphone is read late."""
LEAD_S = 0.008
"""The reference is given so much early: a canceller finds an echo that comes after it, not
one that came before, and a device tells the time of a block late, by up to a period."""
JUMP_S = 0.005
SETTLED = 150
"""Frames (of 10 ms) that the loop averages over: the envelope's steps, three a second, are
damped to a twentieth, a drift is learned to a frame within 15 s."""
MOST_PPM = 500


class Line:
    """One device's frames in time. ``rate`` is nominal; a newer anchor has the last word."""

    def __init__(self, rate: int) -> None:
        self.rate = rate
        self._anchor: Anchor | None = None

    @property
    def known(self) -> bool:
        return self._anchor is not None

    def anchor(self, anchor: Anchor) -> None:
        if anchor.blocks > 0:
            self._anchor = anchor

    def ns_of(self, frame: float) -> float:
        assert self._anchor is not None
        return self._anchor.ns + (frame - self._anchor.frame) * SECOND / self.rate

    def frame_at(self, ns: float) -> float:
        assert self._anchor is not None
        return self._anchor.frame + (ns - self._anchor.ns) * self.rate / SECOND


class Tracker:
    """Where in the reference each frame of the microphone lies. ``rate``: the reference's."""

    def __init__(self, rate: int) -> None:
        self._jump = JUMP_S * rate
        self._nominal = rate * FRAME / ECHO_RATE
        self._step = self._nominal
        self._at = 0.0
        self._frames = 0
        """Since the last jump."""
        self.jumps = 0
        self._steps = np.arange(FRAME) / FRAME

    @property
    def drift_ppm(self) -> float:
        """How much faster the reference runs than the microphone, as learned so far."""
        return (self._step / self._nominal - 1) * 1e6

    def next(self, measured: float, frames: int = 1) -> NDArray[np.float64]:
        """Positions of the next frame's ``FRAME`` samples. ``measured``: where the anchors
        put its first one. ``frames``: how many frames it lies after the last one."""
        self._at += (frames - 1) * self._step
        error = measured - self._at
        if self._frames == 0 or abs(error) > self._jump:
            self.jumps += self._frames > 0
            self._at, self._frames, error = measured, 0, 0.0
        self._frames += 1
        gain = max(1 / self._frames, 1 / SETTLED)
        if self._frames > SETTLED:
            most = self._nominal * MOST_PPM * 1e-6
            step = self._step + gain * gain / 4 * error
            self._step = min(max(step, self._nominal - most), self._nominal + most)
        advance = self._step + gain * error
        positions = self._at + self._steps * advance
        self._at += advance
        return positions


class Reference:
    """The newest second of what was given to the loudspeaker, by device frame."""

    def __init__(self, rate: int) -> None:
        self.rate = rate
        self._kernel = Kernel(rate, ECHO_RATE)
        self._keep = int(KEEP_S * rate)
        self._samples: Samples = np.zeros(0, np.float32)
        self._start = 0
        self.missing = 0
        """Samples that were asked for before they came, or after they were let go."""

    @property
    def end(self) -> int:
        """Known up to here."""
        return self._start + len(self._samples)

    def feed(self, position: int, frames: Frames) -> None:
        """Frames in order; what lies between two stretches is silence."""
        gap = position - self.end
        if gap < 0 or gap > self._keep:  # another stream, or its first frame
            self._samples, self._start, gap = np.zeros(0, np.float32), position, 0
        parts = (self._samples, np.zeros(gap, np.float32), frames.astype(np.float32))
        whole = np.concatenate(parts)
        self._start += max(len(whole) - self._keep, 0)
        self._samples = whole[-self._keep :]

    def at(self, positions: NDArray[np.float64]) -> Samples:
        """The sound at these device frames, for ``ECHO_RATE``; zeros where nothing is known."""
        half = self._kernel.half
        first = int(np.floor(positions[0])) - half
        last = int(np.floor(positions[-1])) + half + 1
        piece = self._piece(first, last)
        return self._kernel.at(piece, positions - first)

    def _piece(self, first: int, last: int) -> Samples:
        low, high = max(first, self._start), min(last, self.end)
        if low == first and high == last:
            return self._samples[first - self._start : last - self._start]
        piece = np.zeros(last - first, np.float32)
        if low < high:
            piece[low - first : high - first] = self._samples[
                low - self._start : high - self._start
            ]
        self.missing += last - first - max(high - low, 0)
        return piece
