"""The bench's judge, on tapes with planted faults."""

from __future__ import annotations

import numpy as np
import pytest

from handset.audio.playout import Frames, fade_gain
from handset.bench.verdict import expected_on_tape, find_on_tape


@pytest.fixture
def sound() -> Frames:
    return np.random.default_rng(1).integers(-20_000, 20_000, 4_800).astype(np.int16)


def on_tape(*parts: Frames | int) -> Frames:
    """Sounds, and lengths of silence."""
    return np.concatenate(
        [np.zeros(p, np.int16) if isinstance(p, int) else p for p in parts]
    ).astype(np.int16)


def test_a_whole_sound_is_found_where_it_is(sound: Frames) -> None:
    assert find_on_tape(on_tape(700, sound, 300), sound) == (700, 5_500)


def test_starvation_is_followed_and_must_be_as_long_as_was_said(sound: Frames) -> None:
    tape = on_tape(100, sound[:2_000], 960, sound[2_000:3_000], 480, sound[3_000:], 50)
    assert find_on_tape(tape, sound, 1_440) == (100, 100 + 4_800 + 1_440)
    for wrong in (0, 960, 1_439, 1_441):
        assert find_on_tape(tape, sound, wrong) is None


@pytest.mark.parametrize("at", [70, 2_400, 4_700])
def test_a_wrong_a_missing_and_a_repeated_frame_are_found(sound: Frames, at: int) -> None:
    changed = sound.copy()
    changed[at] += 1
    assert find_on_tape(on_tape(10, changed, 10), sound) is None
    assert find_on_tape(on_tape(10, np.delete(sound, at), 10), sound) is None
    assert find_on_tape(on_tape(10, np.insert(sound, at, sound[at]), 10), sound[: at + 2]) is None


def test_a_cut_one_frame_early_or_late_is_found(sound: Frames) -> None:
    handed, faded, fade = 2_000, 240, 240
    heard = expected_on_tape(sound, handed, faded, fade)
    tape = on_tape(50, heard, 500)
    assert find_on_tape(tape, heard) == (50, 2_050)
    for wrong in (handed - 1, handed + 1):
        assert find_on_tape(tape, expected_on_tape(sound, wrong, faded, fade)) is None


def test_the_fade_is_the_known_curve(sound: Frames) -> None:
    heard = expected_on_tape(sound, 1_000, 240, 240)
    assert np.array_equal(heard[:760], sound[:760])
    for i in (0, 100, 239):
        assert heard[760 + i] == (int(sound[760 + i]) * 32_768 * fade_gain(i, 240)) >> 30


def test_a_card_that_ran_dry_leaves_silence_and_nothing_else(sound: Frames) -> None:
    tape = on_tape(10, sound[:1_500], 777, sound[1_500:], 10)
    assert find_on_tape(tape, sound) is None
    assert find_on_tape(tape, sound, 0, 4_800) == (10, 10 + 777 + 4_800)
    assert find_on_tape(tape, sound, 0, 776) is None
    tape[1_600] = 1
    assert find_on_tape(tape, sound, 0, 4_800) is None


def test_starvation_in_the_quiet_before_the_first_loud_frame(sound: Frames) -> None:
    quiet = np.random.default_rng(2).integers(-3, 4, 3_000).astype(np.int16)
    item = on_tape(quiet, sound)
    tape = on_tape(20, item[:1_000], 480, item[1_000:], 20)
    assert find_on_tape(tape, item, 480) == (20, 20 + 480 + 7_800)
    assert find_on_tape(tape, item) is None


@pytest.mark.parametrize("handed", [0, 1, 480, 2_400])
@pytest.mark.parametrize("silence", [0, 480])
def test_an_item_that_was_cut_in_its_quiet_beginning(
    sound: Frames, handed: int, silence: int
) -> None:
    quiet = np.random.default_rng(2).integers(-3, 4, 3_000).astype(np.int16)
    item, inside = quiet[:handed], silence if handed > 1 else 0
    tape = on_tape(sound, 70, item[: handed // 2], inside, item[handed // 2 :], 900)
    assert find_on_tape(tape, item, inside) is not None
    if handed > 1:
        wrong = item.copy()
        wrong[-1] += 5
        assert find_on_tape(tape, wrong, inside) is None


def test_digital_silence_is_anywhere(sound: Frames) -> None:
    nothing = np.zeros(400, np.int16)
    assert find_on_tape(on_tape(sound, 500), nothing) == (0, 400)
    assert find_on_tape(sound, nothing) is None
