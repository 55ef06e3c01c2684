"""Samples between samples: exact counts, nothing delayed, no alias in the voice's band."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handset.audio.playout import Frames
from handset.audio.resample import Decimator, Kernel

RATE = 48_000


def tone(hz: float, rate: int, n: int) -> Frames:
    return np.rint(8_000 * np.sin(2 * np.pi * hz * np.arange(n) / rate)).astype(np.int16)


def db(error: np.ndarray) -> float:
    return float(20 * np.log10(np.std(error) / (8_000 / np.sqrt(2)) + 1e-9))


@pytest.mark.parametrize("hz", [100, 440, 1_000, 3_000, 5_000])
def test_the_decimator_delays_nothing(hz: int) -> None:
    out = Decimator(RATE, 3).feed(tone(hz, RATE, RATE))
    assert len(out) == pytest.approx(RATE / 3, abs=10)
    assert db(out[50:].astype(float) - tone(hz, RATE // 3, len(out))[50:]) < -50


@pytest.mark.parametrize("hz", [9_500, 12_000, 15_900, 20_000])
def test_what_would_fold_is_gone(hz: int) -> None:
    assert db(Decimator(RATE, 3).feed(tone(hz, RATE, RATE))[50:].astype(float)) < -45


@given(st.lists(st.integers(0, 1_000), min_size=1, max_size=20))
@settings(max_examples=60, deadline=None)
def test_blocks_of_any_size_make_the_same_stream(sizes: list[int]) -> None:
    whole = np.random.default_rng(1).integers(-9_000, 9_000, sum(sizes)).astype(np.int16)
    one, parts = Decimator(RATE, 3), Decimator(RATE, 3)
    cut = np.split(whole, np.cumsum(sizes)[:-1])
    joined = np.concatenate([parts.feed(each) for each in cut])
    expected = one.feed(whole)
    assert len(joined) == len(expected) >= (sum(sizes) - 40) // 3
    np.testing.assert_allclose(joined, expected, atol=1)


@pytest.mark.parametrize("rate", [16_000, 44_100, 48_000])
@pytest.mark.parametrize("hz", [200, 1_000, 4_000])
def test_any_position_of_any_rate(rate: int, hz: int) -> None:
    samples = tone(hz, rate, rate).astype(np.float32)
    positions = 200 + np.arange(5_000) * rate / 16_000 * 1.0002
    expected = 8_000 * np.sin(2 * np.pi * hz * positions / rate)
    assert db(Kernel(rate, 16_000).at(samples, positions) - expected) < -50
