"""The fake card keeps to its physics."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from handset.audio.capture import Capture, CaptureConfig
from handset.audio.playout import Frames, Playout, PlayoutConfig
from handset.fakes.card import SECOND, FakeCard

MS = 1_000_000


def ramp(n: int) -> Frames:
    return np.arange(1, n + 1, dtype=np.int16)


def card_with(n: int, **settings: object) -> FakeCard:
    playout = Playout(PlayoutConfig(48_000, seconds=2))
    assert playout.write(0, ramp(n), True) == n
    return FakeCard(playout, **settings)  # type: ignore[arg-type]


@pytest.mark.parametrize("blocks", [480, 1, 7, [480, 1, 256, 1_023, 64] * 40])
def test_the_tape_holds_what_was_queued_at_any_block_sizes(blocks: object) -> None:
    card = card_with(900, blocks=blocks)
    card.run(1_200)
    assert np.array_equal(card.tape[:900], ramp(900))
    assert not card.tape[900:].any()
    assert card.handed == len(card.tape) >= 1_200


def test_two_runs_are_the_same() -> None:
    def run() -> tuple[int, bytes, object]:
        card = card_with(900, drift_ppm=120.0, step_ns=100_000)
        card.run(2_000)
        return card.now_ns, card.tape.tobytes(), card.playout.look()

    assert run() == run()


def test_a_block_is_asked_for_when_the_device_has_room() -> None:
    card = card_with(4_800)
    for _ in range(9):
        card.block()
        assert card.in_device(card.now_ns) <= card.buffer
        assert card.in_device(card.now_ns) >= min(card.handed, card.buffer) - 1
    assert card.now_ns == 10 * SECOND + 9 * 10 * MS


def test_samples_leave_one_by_one() -> None:
    card = card_with(4_800)
    card.run(2_400)
    at = card.time_of(1_000)
    assert (card.left(at - 1), card.left(at)) == (1_000, 1_001)
    assert len(card.heard) == card.left(card.now_ns)


def test_what_is_in_the_device_when_it_dies_never_leaves() -> None:
    card = card_with(4_800)
    card.run(2_400)
    left = card.left(card.now_ns)
    card.kill()
    card.hang(SECOND)
    assert card.left(card.now_ns) == left == len(card.heard)
    assert card.in_device(card.now_ns) == 2_400 - left
    with pytest.raises(ValueError, match="gone"):
        card.block()


@pytest.mark.parametrize("starve", [lambda c: c.hang(60 * MS), lambda c: c.xrun(30 * MS)])
def test_a_device_that_runs_dry_is_late_from_then_on(starve: Callable[[FakeCard], None]) -> None:
    card = card_with(9_600)
    card.run(2_400)
    due = card.time_of(2_400)
    starve(card)
    card.run(2_400)
    assert card.time_of(2_400) - due >= 20 * MS
    snapshot = card.playout.snapshot()
    assert snapshot is not None
    assert snapshot.underflows == 1
    assert snapshot.anchor.since == 2_400
    assert np.array_equal(card.tape, ramp(4_800))


@pytest.mark.parametrize("ppm", [-200.0, 200.0])
def test_a_crystal_drifts(ppm: float) -> None:
    card = card_with(4_800, drift_ppm=ppm)
    seconds = 20
    passed = card.time_of(48_000 * seconds) - card.time_of(0)
    assert passed == pytest.approx(seconds * SECOND / (1 + ppm * 1e-6), abs=2)


def test_coarse_times_are_only_ever_late() -> None:
    card = card_with(9_600, step_ns=3 * MS)
    card.run(4_800)
    snapshot = card.playout.snapshot()
    assert snapshot is not None
    late = snapshot.anchor.ns - card.time_of(snapshot.anchor.frame)
    assert 0 <= late < 3 * MS


def test_the_microphone_hears_on_its_own_timeline() -> None:
    capture = Capture(CaptureConfig(48_000))
    card = card_with(10, capture=capture, voice=lambda at, n: np.arange(at, at + n, dtype=np.int16))
    card.run(4_800)
    stretches = capture.read()
    heard = np.concatenate([frames for _, frames in stretches])
    assert stretches[0][0] == 0
    assert capture.gaps() == []
    assert np.array_equal(heard, np.arange(4_800))


def test_input_that_the_device_drops_is_a_gap_of_its_length() -> None:
    capture = Capture(CaptureConfig(48_000))
    card = card_with(10, capture=capture)
    card.run(2_400)
    card.overflow(1_440)
    card.run(4_800)
    stretches = capture.read()
    (gap,) = capture.gaps()
    assert (gap.position, gap.length, gap.kind) == (2_400, 1_440, "device")
    assert sum(len(frames) for _, frames in stretches) == 2_400 + 4_800 - 1_440
