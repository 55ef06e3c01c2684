"""Samples between samples: any rate to another, at positions that need not be whole.

A windowed sinc, cut off below the lower of the two Nyquist frequencies. Nothing is delayed:
output at position p is the sound at p, so a stream needs ``half`` samples of what follows.
"""

from __future__ import annotations

from math import ceil

import numpy as np
from numpy.typing import NDArray

from handset.audio.playout import Frames

_LOBES = 8
"""Zero crossings of the sinc on either side: pass band flat to 0.1 dB up to 0.8 of the cut-off."""
_BETA = 7.0
"""Kaiser window: about 70 dB of stop band, below what a headset's microphone hums."""
_PASS = 0.9
"""Cut-off, as a part of the lower Nyquist frequency."""
_PHASES = 256
"""Taps are kept for so many places between two samples; the nearest is taken: -60 dB."""

Samples = NDArray[np.float32]


class Kernel:
    """``rate_in`` and ``rate_out``, Hz: only their ratio matters, for the cut-off."""

    def __init__(self, rate_in: int, rate_out: int) -> None:
        cutoff = _PASS * min(1.0, rate_out / rate_in)
        self.half = ceil(_LOBES / cutoff)
        """Samples that are needed on either side of a position."""
        distance = (
            np.arange(1 - self.half, self.half + 1)[np.newaxis]
            - np.arange(_PHASES + 1)[:, np.newaxis] / _PHASES
        )
        inside = np.sqrt(np.clip(1 - (distance / self.half) ** 2, 0, None))
        taps = np.sinc(cutoff * distance) * np.i0(_BETA * inside)
        taps /= taps.sum(axis=1, keepdims=True)
        self._taps = taps.astype(np.float32)
        self._reach = np.arange(1 - self.half, self.half + 1)

    def at(self, samples: Samples, positions: NDArray[np.float64]) -> Samples:
        """The sound at ``positions``, in samples of ``samples``; each needs ``half`` samples
        before and after it."""
        whole = np.floor(positions).astype(np.int64)
        phase = np.rint((positions - whole) * _PHASES).astype(np.int64)
        windows = samples[whole[:, np.newaxis] + self._reach]
        found: Samples = np.einsum("ij,ij->i", windows, self._taps[phase])
        return found

    def every(self, samples: Samples, step: int, n: int) -> Samples:
        """The sound at ``half - 1``, and at each ``step``-th sample after it, n of them."""
        windows = np.lib.stride_tricks.sliding_window_view(samples, 2 * self.half)[::step][:n]
        found: Samples = windows @ self._taps[0]
        return found


def to_int16(samples: Samples) -> Frames:
    return np.clip(np.rint(samples), -32_768, 32_767).astype(np.int16)


class Decimator:
    """A stream at one ``step``-th of its rate. Output k is the sound at input ``step * k``,
    counted from the first sample; what a block can't decide yet comes with the next one."""

    def __init__(self, rate: int, step: int) -> None:
        self.step = step
        self._kernel = Kernel(rate, rate // step)
        self._held = np.zeros(self._kernel.half - 1, np.float32)

    def feed(self, frames: Frames) -> Frames:
        held = np.concatenate((self._held, frames.astype(np.float32)))
        n = max(0, (len(held) - 2 * self._kernel.half) // self.step + 1)
        out = to_int16(self._kernel.every(held, self.step, n)) if n else np.zeros(0, np.int16)
        self._held = held[n * self.step :]
        return out
