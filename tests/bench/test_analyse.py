"""The analyser, on tapes with known faults: each is found, with the right number.

It comes before everything that relies on it: a loopback is only worth what its analyser sees.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from handset.audio.playout import fade_gain
from handset.bench.analyse import Fault, FaultKind, Queued, Reading, cut_error, read, shifts
from handset.bench.signals import LONGEST, Samples, coded, decoded, faded

FADE = 240
CURVE = np.array([fade_gain(i, FADE) for i in range(FADE)], np.int32)
START = 1000
A, B = Queued(7, 5000), Queued(400, 3000)


def tape(*parts: Samples, before: int = 300, after: int = 500) -> Samples:
    quiet = [np.zeros(n, np.int16) for n in (before, after)]
    return np.concatenate([quiet[0], *parts, quiet[1]])


def reading(samples: Samples, *queued: Queued) -> Reading:
    return read(samples, START, queued or (A, B), CURVE)


def cut(item: Queued, handed: int, fade: int = FADE) -> Samples:
    """What sounds of an item whose cursor is ``handed``."""
    loud = coded(item.tag, 0, handed - fade)
    return np.concatenate([loud, faded(coded(item.tag, handed - fade, fade), CURVE)])


# ---- the signal --------------------------------------------------------------------------------


def test_no_sample_is_ever_silence() -> None:
    samples = coded(0, 0, LONGEST)
    assert samples.max() < 0
    assert faded(samples, np.full(len(samples), 1, np.int32)).max() < 0


@given(st.integers(0, 511), st.integers(0, LONGEST - 100), st.integers(0, 100))
def test_every_group_names_its_item_and_index(tag: int, start: int, count: int) -> None:
    at, tags, indices = decoded(coded(tag, start, count))
    assert np.array_equal(indices - at, np.full(len(at), start))
    assert set(tags) <= {tag}
    assert len(at) >= (count - 2) // 3


def test_an_item_that_is_too_long_is_refused() -> None:
    with pytest.raises(ValueError, match="samples below"):
        coded(0, LONGEST - 1, 2)


# ---- tapes without a fault ---------------------------------------------------------------------


def test_whole_items_and_a_cut_with_its_fade() -> None:
    heard = reading(tape(coded(7, 0, 5000), cut(B, 1234)))
    assert heard.faults == () and heard.silences == ()
    first, second = heard.heard
    assert (first.upto, first.faded, len(first.positions)) == (5000, 0, 5000)
    assert (second.upto, second.faded) == (1234, FADE)
    assert first.positions[0] == START + 300
    assert heard.last == START + 300 + 6234 - 1


@given(st.integers(0, 5000), st.integers(0, FADE))
def test_any_cut_is_read_exactly(handed: int, fade: int) -> None:
    fade = min(fade, handed)
    heard = reading(tape(cut(A, handed, fade)))
    assert heard.faults == ()
    assert heard.heard[0].upto == handed
    # The first gains leave small samples as they are: a fade that short looks like none.
    assert heard.heard[0].faded == fade or fade <= 2
    assert heard.heard[1].upto == 0


def test_a_fade_that_the_end_of_its_item_cuts_short() -> None:
    heard = reading(tape(cut(A, 5000, 100)))
    assert (heard.heard[0].upto, heard.heard[0].faded, heard.faults) == (5000, 100, ())


def test_one_loud_sample_before_the_fade() -> None:
    heard = reading(tape(coded(7, 0, 5000), cut(B, FADE + 1)))
    assert (heard.heard[1].upto, heard.heard[1].faded, heard.faults) == (FADE + 1, FADE, ())


def test_an_empty_tape() -> None:
    heard = reading(tape())
    assert [item.upto for item in heard.heard] == [0, 0]
    assert heard.last is None


def test_silence_inside_an_item_is_counted_and_moves_nothing() -> None:
    quiet = np.zeros(480, np.int16)
    heard = reading(tape(coded(7, 0, 960), quiet, coded(7, 960, 4040), quiet, cut(B, 900)))
    assert [(s.tag, s.index, s.frames) for s in heard.silences] == [(7, 960, 480)]
    assert [item.upto for item in heard.heard] == [5000, 900]
    assert heard.faults == ()


def test_how_much_had_sounded_at_a_moment() -> None:
    item = reading(tape(cut(A, 1000))).heard[0]
    assert [item.until(START + 300 + n) for n in (-1, 0, 499, 5000)] == [0, 1, 500, 1000]


# ---- planted faults ----------------------------------------------------------------------------


def one(heard: Reading) -> Fault:
    assert len(heard.faults) == 1, heard.faults
    return heard.faults[0]


@pytest.mark.parametrize("frames", [1, 2, 3, 4, 100, 960])
@pytest.mark.parametrize("at", [700, 701, 702])
def test_dropped_frames(at: int, frames: int) -> None:
    gone = np.delete(cut(A, 3000), slice(at, at + frames))
    fault = one(reading(tape(gone)))
    assert (fault.kind, fault.frames) == (FaultKind.DROPPED, frames)
    # A dropped group leaves its neighbour's middle in its place: equal, so seen one later.
    assert at <= fault.index <= at + 1
    assert reading(tape(gone)).heard[0].upto == 3000


@pytest.mark.parametrize("frames", [1, 2, 3, 100])
def test_the_first_frames_dropped(frames: int) -> None:
    fault = one(reading(tape(coded(7, frames, 2000))))
    assert (fault.kind, fault.index, fault.frames) == (FaultKind.DROPPED, 0, frames)


def test_a_whole_item_dropped() -> None:
    fault = one(reading(tape(cut(B, 2000))))
    assert (fault.kind, fault.tag, fault.frames) == (FaultKind.DROPPED, 7, 5000)


@pytest.mark.parametrize("frames", [1, 2, 3, 480])
@pytest.mark.parametrize("at", [900, 901, 902])
def test_frames_heard_again(at: int, frames: int) -> None:
    whole = cut(A, 3000)
    again = np.concatenate([whole[:at], whole[at - frames : at], whole[at:]])
    fault = one(reading(tape(again)))
    assert (fault.kind, fault.frames) == (FaultKind.REPEATED, frames)
    assert reading(tape(again)).heard[0].upto == 3000


@pytest.mark.parametrize("frames", [1, 2, 7, 480])
def test_added_frames(frames: int) -> None:
    whole = cut(A, 3000)
    strange = (np.arange(frames) % 5 + 3).astype(np.int16)
    fault = one(reading(tape(np.concatenate([whole[:1111], strange, whole[1111:]]))))
    assert (fault.kind, fault.index, fault.frames) == (FaultKind.ADDED, 1111, frames)


def test_frames_after_the_cut() -> None:
    late = np.concatenate([cut(A, 3000), coded(7, 3000, 90)])
    heard = reading(tape(late))
    assert heard.faults and cut_error(heard.heard[0], 3000) == 90


@pytest.mark.parametrize("gain", [0.5, 0.98, 0.1])
def test_a_stretch_at_the_wrong_gain(gain: float) -> None:
    whole = coded(7, 0, 3000)
    whole[600:1100] = np.floor(whole[600:1100] * gain)
    fault = one(reading(tape(whole)))
    assert (fault.kind, fault.index, fault.frames) == (FaultKind.GAIN, 600, 500)
    assert fault.gain == pytest.approx(gain, abs=0.001)


def test_the_wrong_gain_to_the_end() -> None:
    whole = coded(7, 0, 3000)
    whole[600:] //= 4
    fault = one(reading(tape(whole)))
    assert (fault.kind, fault.frames) == (FaultKind.GAIN, 2400)
    assert fault.gain == pytest.approx(0.25, abs=0.001)


def test_a_fade_along_another_curve() -> None:
    straight = ((32767 * np.arange(FADE, 0, -1)) // (FADE + 1)).astype(np.int32)
    wrong = np.concatenate([coded(7, 0, 1000), faded(coded(7, 1000, FADE), straight)])
    heard = reading(tape(wrong))
    assert heard.faults and heard.heard[0].faded == 0


@pytest.mark.parametrize("error", [-480, -1, 1, 480])
def test_a_cut_that_is_early_or_late(error: int) -> None:
    heard = reading(tape(cut(A, 2000 + error)))
    assert heard.faults == ()
    assert cut_error(heard.heard[0], 2000) == error


def test_a_missing_fade() -> None:
    heard = reading(tape(coded(7, 0, 2000)))
    assert (heard.heard[0].upto, heard.heard[0].faded) == (2000, 0)


def test_a_fade_into_the_next_item() -> None:
    into = np.concatenate([coded(7, 0, 5000), coded(400, 0, 3000)])
    into = np.concatenate([into[:4900], faded(into[4900:5140], CURVE)])
    assert reading(tape(into)).faults


def test_a_shift_against_the_device() -> None:
    assert shifts([(0, 100), (480, 580), (960, 1061), (1440, 1060)]) == [0, 1, -481]
