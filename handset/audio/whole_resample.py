"""Change the rate of a whole piece of audio, without delay and with an exact length.

For making, checking and loading clips: all at once, in double precision, not for streams.
"""

from __future__ import annotations

from math import ceil, gcd

import numpy as np
from numpy.typing import NDArray

_LOBES = 24  # zero crossings of the sinc on either side
_BETA = 9.0  # Kaiser window: about 90 dB of stop band
_PASS = 0.94  # cut-off, as a part of the lower of the two Nyquist frequencies


def resample(x: NDArray[np.float64], rate_in: int, rate_out: int) -> NDArray[np.float64]:
    """`x`, shape (n,), at another rate; the result has `scale(n, rate_in, rate_out)` samples.

    Output k is the sound at k / rate_out seconds; before and after `x` there is silence.
    """
    common = gcd(rate_in, rate_out)
    up, down = rate_out // common, rate_in // common
    cutoff = _PASS * min(1.0, up / down)  # in units of the input's Nyquist frequency
    half = ceil(_LOBES / cutoff)
    length = scale(len(x), rate_in, rate_out)
    padded = np.concatenate([np.zeros(half), x, np.zeros(half + down)])
    windows = np.lib.stride_tricks.sliding_window_view(padded, 2 * half)
    y = np.empty(length)
    for phase in range(min(up, length)):
        # Outputs phase, phase + up, ... all lie equally far behind an input sample, so they share
        # their taps.
        first, behind = divmod(phase * down, up)
        distance = np.arange(1 - half, half + 1) - behind / up
        taps = cutoff * np.sinc(cutoff * distance)
        taps *= np.i0(_BETA * np.sqrt(np.clip(1 - (distance / half) ** 2, 0, None))) / np.i0(_BETA)
        outputs = y[phase::up]
        outputs[:] = windows[first + 1 :: down][: len(outputs)] @ (taps / taps.sum())
    return y


def scale(position: int, rate_in: int, rate_out: int) -> int:
    """A position or a length at another rate: the nearest sample, halves up."""
    return (2 * position * rate_out + rate_in) // (2 * rate_in)
