"""A signal that says, sample by sample, which sample of which item it is.

Three consecutive samples form a group: the low bits of the group's number, its high bits
with the item's tag, and a check of both. Each kind has a range of magnitudes of its own,
so a single sample already says its place in the group.

Every sample is negative and at least ``FLOOR`` in size. The fade multiplies and shifts
right, which rounds towards minus infinity: a sample of this signal is never 0 on the
tape, whatever its gain. So on the tape 0 is silence, and everything else sounded.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Samples = NDArray[np.int16]
Indices = NDArray[np.int64]

FLOOR = 8192
TAGS = 512
LONGEST = 3 << 17
"""Samples of one item at most: 8.2 s at 48 kHz."""
_BITS = 13
_MASK = (1 << _BITS) - 1
_HIGH = 4


def _check(low: NDArray[np.int32], high: NDArray[np.int32]) -> NDArray[np.int32]:
    return (low * 5 + high * 11 + 1) & _MASK


def coded(tag: int, start: int, count: int) -> Samples:
    """Samples ``[start, start + count)`` of the item with that tag."""
    if not (0 <= tag < TAGS and start >= 0 and start + count <= LONGEST):
        raise ValueError(
            f"tag {tag}, samples [{start}, {start + count}): tags are below {TAGS}, "
            f"samples below {LONGEST}"
        )
    first = start // 3
    group = np.arange(first, (start + count + 2) // 3, dtype=np.int32)
    low = group & _MASK
    high = (group >> _BITS) | (tag << _HIGH)
    rows = np.empty((len(group), 3), np.int32)
    rows[:, 0] = low
    rows[:, 1] = high + FLOOR
    rows[:, 2] = _check(low, high) + 2 * FLOOR
    flat = -(rows.reshape(-1) + FLOOR)
    return flat[start - 3 * first :][:count].astype(np.int16)


def decoded(samples: Samples) -> tuple[Indices, Indices, Indices]:
    """Every whole group in ``samples``, wherever it begins: its offset, the item's tag, and
    the index in the item of its first sample."""
    value = -samples.astype(np.int32) - FLOOR
    kind, payload = value >> _BITS, value & _MASK
    if len(samples) < 3:
        empty = np.empty(0, np.int64)
        return empty, empty, empty
    low, high, check = payload[:-2], payload[1:-1], payload[2:]
    whole = (kind[:-2] == 0) & (kind[1:-1] == 1) & (kind[2:] == 2) & (check == _check(low, high))
    at = np.flatnonzero(whole)
    group = low[at].astype(np.int64) | ((high[at].astype(np.int64) & ((1 << _HIGH) - 1)) << _BITS)
    return at.astype(np.int64), (high[at] >> _HIGH).astype(np.int64), 3 * group


def faded(samples: Samples, curve: NDArray[np.int32]) -> Samples:
    """What a fade-out makes of them: sample i at gain ``curve[i]``, Q15."""
    return ((samples.astype(np.int64) * curve[: len(samples)]) >> 15).astype(np.int16)
