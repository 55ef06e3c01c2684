"""Two clocks: the reference of a microphone's frame is what left the converter then."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handset.audio.echo import FRAME
from handset.audio.reference import Line, Reference, Tracker
from handset.core.facts import Anchor

SECOND = 1_000_000_000


@pytest.mark.parametrize("rate", [16_000, 44_100, 48_000])
@pytest.mark.parametrize("ppm", [-200.0, 0.0, 200.0])
def test_a_drift_is_learned(rate: int, ppm: float) -> None:
    """The anchors step like an envelope does: by up to 640 ms of drift, three times a second."""
    tracker = Tracker(rate)
    step = rate / 100 * (1 + ppm * 1e-6)
    errors = []
    for frame in range(4_000):
        behind = (frame % 32 + 32) * rate / 100 * max(-ppm, 0) * 1e-6
        positions = tracker.next(frame * step + behind)
        assert len(positions) == FRAME
        errors.append(positions[0] - frame * step)
    assert tracker.drift_ppm == pytest.approx(ppm, abs=6)
    assert tracker.jumps == 0
    settled = np.array(errors[2_500:])
    assert np.ptp(settled) < 0.6, "it moves with the envelope"
    assert abs(settled.mean()) < rate / 1_000


def test_positions_go_on_from_frame_to_frame() -> None:
    tracker = Tracker(48_000)
    rng = np.random.default_rng(1)
    last = None
    for frame in range(2_000):
        positions = tracker.next(frame * 480.05 + rng.uniform(0, 20))
        if last is not None and frame > 300:
            assert positions[0] - last == pytest.approx(3, abs=0.02)
        last = positions[-1]


def test_a_device_that_starts_anew_is_a_jump() -> None:
    tracker = Tracker(48_000)
    for frame in range(400):
        tracker.next(frame * 480.0)
    assert tracker.next(400 * 480.0 + 2_000)[0] == 400 * 480 + 2_000
    assert tracker.jumps == 1
    assert tracker.next(431 * 480.0 + 2_000, 31)[0] == pytest.approx(431 * 480 + 2_000)
    assert tracker.jumps == 1, "frames that were skipped are no jump"


def test_a_line_takes_the_newest_anchor_and_none_before_the_first_block() -> None:
    line = Line(48_000)
    line.anchor(Anchor(0, 0, 0, 0, 0))
    assert not line.known
    line.anchor(Anchor(480, SECOND, 0, 0, 1))
    assert line.frame_at(2 * SECOND) == 48_480
    assert line.ns_of(48_480) == 2 * SECOND
    line.anchor(Anchor(960, SECOND, 0, 0, 2))
    assert line.frame_at(SECOND) == 960


@given(
    st.lists(st.tuples(st.integers(1, 900), st.sampled_from([0, 0, 0, 7, 500])), max_size=40),
    st.integers(0, 30_000),
)
@settings(max_examples=100, deadline=None)
def test_the_ring_is_the_stream_with_zeros_in_its_gaps(
    parts: list[tuple[int, int]], asked: int
) -> None:
    reference = Reference(16_000)
    whole = np.zeros(60_000, np.float32)
    at = 0
    rng = np.random.default_rng(1)
    for length, gap in parts:
        at += gap
        piece = rng.integers(-9_000, 9_000, length).astype(np.int16)
        reference.feed(at, piece)
        whole[at : at + length] = piece
        at += length
    first = reference.end - len(reference._samples)
    positions = asked + np.arange(FRAME, dtype=np.float64)
    half = reference._kernel.half
    if first + half <= asked and asked + FRAME + half < reference.end:
        got = reference.at(positions)
        np.testing.assert_allclose(got, reference._kernel.at(whole, positions), atol=0.01)
        assert reference.missing == 0
    elif parts and (asked > reference.end or asked + FRAME < first):
        missed = reference.missing
        reference.at(positions)
        assert reference.missing > missed


def test_another_stream_begins_anew() -> None:
    reference = Reference(16_000)
    reference.feed(5_000, np.ones(1_000, np.int16))
    reference.feed(0, np.full(1_000, 5, np.int16))
    assert reference.end == 1_000
    got = reference.at(300 + np.arange(FRAME, dtype=np.float64))
    np.testing.assert_allclose(got, 5, atol=0.01)
