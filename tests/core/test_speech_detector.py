"""Suspicion, proof, dismissal and end: every input in every state, and any sequence of frames."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handset.core.speech import (
    FLOOR_KNOWN,
    TABLE,
    Confirmed,
    Dismissed,
    Ended,
    SpeechDetector,
    SpeechFact,
    SpeechInput,
    SpeechSettings,
    SpeechState,
    Suspected,
    Window,
)

FRAME = 960
SETTINGS = SpeechSettings(above_floor_db=0)
SMALL = SpeechSettings(
    suspect=Window(2, 3),
    confirm=Window(4, 6),
    dismiss=2,
    doubt=7,
    keep=Window(2, 3),
    end=3,
    margin=FRAME,
    reach=6 * FRAME,
    rejoin=3 * FRAME,
    above_floor_db=0,
)
START = 100 * FRAME


def run(
    flags: Sequence[bool], settings: SpeechSettings = SETTINGS, start: int = START
) -> list[SpeechFact]:
    detector = SpeechDetector(settings)
    facts: list[SpeechFact] = []
    for index, voiced in enumerate(flags):
        facts += detector.frame(start + index * FRAME, voiced)
    return facts


def kinds(facts: Sequence[SpeechFact]) -> list[type]:
    return [type(fact) for fact in facts]


def voiced(ms: int) -> list[bool]:
    return [True] * (ms // 20)


def quiet(ms: int) -> list[bool]:
    return [False] * (ms // 20)


# ---- what it is for -------------------------------------------------------------------------


def test_a_sentence_is_suspected_confirmed_and_ended() -> None:
    facts = run(quiet(400) + voiced(1500) + quiet(1200))
    assert kinds(facts) == [Suspected, Confirmed, Ended]
    begin, end = START + 20 * FRAME, START + 95 * FRAME
    suspected, confirmed, ended = facts
    assert isinstance(suspected, Suspected) and isinstance(confirmed, Confirmed)
    assert isinstance(ended, Ended)
    assert suspected.onset_sample == confirmed.onset_sample == begin - SETTINGS.margin
    assert suspected.at_sample == begin + SETTINGS.suspect.k * FRAME
    assert confirmed.at_sample == begin + SETTINGS.confirm.k * FRAME
    assert ended == Ended(end + SETTINGS.end * FRAME, end)


def test_a_cough_is_dismissed() -> None:
    assert kinds(run(quiet(400) + voiced(300) + quiet(600))) == [Suspected, Dismissed]


def test_a_click_is_nothing() -> None:
    assert run(quiet(400) + voiced(60) + quiet(600)) == []


def test_closed_lips_are_part_of_the_word() -> None:
    flags = quiet(400) + voiced(300) + quiet(160) + voiced(400) + quiet(200)
    assert kinds(run(flags)) == [Suspected, Confirmed]


def test_flicker_for_longer_than_the_doubt_is_dismissed() -> None:
    flags = quiet(400) + voiced(200) + ([True] + [False] * 3) * 20
    assert kinds(run(flags))[:2] == [Suspected, Dismissed]


def test_a_pause_shorter_than_the_end_does_not_end() -> None:
    flags = voiced(1000) + quiet(900) + voiced(800) + quiet(1100)
    assert kinds(run(flags)) == [Suspected, Confirmed, Ended]


def test_a_single_voiced_frame_does_not_hold_the_floor() -> None:
    flags = voiced(1000) + quiet(600) + voiced(20) + quiet(500)
    assert kinds(run(flags)) == [Suspected, Confirmed, Ended]


def test_words_of_a_dismissed_suspicion_belong_to_the_next_one() -> None:
    flags = quiet(400) + voiced(300) + quiet(400) + voiced(800)
    first, dismissed, second, confirmed = run(flags)
    assert isinstance(dismissed, Dismissed) and isinstance(confirmed, Confirmed)
    assert isinstance(first, Suspected) and isinstance(second, Suspected)
    assert second.onset_sample == confirmed.onset_sample == first.onset_sample
    apart = quiet(400) + voiced(300) + quiet(1600) + voiced(800)
    later = run(apart)[2]
    assert isinstance(later, Suspected)
    assert later.onset_sample == START + len(quiet(400) + voiced(300) + quiet(1600)) * FRAME - (
        SETTINGS.margin
    )


def test_a_gap_is_neither_speech_nor_silence() -> None:
    detector = SpeechDetector(SETTINGS)
    facts: list[SpeechFact] = []
    for index in range(60):
        facts += detector.frame(index * FRAME, True)
    late = 60 * FRAME + 10 * 48_000
    assert detector.frame(late, False) == []
    assert detector.state is SpeechState.SPEAKING
    for index in range(1, SETTINGS.end):
        facts += detector.frame(late + index * FRAME, False)
    assert facts[-1] == Ended(late + SETTINGS.end * FRAME, 60 * FRAME)


def test_stop_ends_what_is_open() -> None:
    for flags, last in ((voiced(140), Dismissed), (voiced(900), Ended)):
        detector = SpeechDetector(SETTINGS)
        for index, flag in enumerate(flags):
            detector.frame(index * FRAME, flag)
        assert kinds(detector.stop()) == [last]
        assert detector.stop() == []


def test_a_frame_from_the_past_changes_nothing() -> None:
    detector = SpeechDetector(SETTINGS)
    detector.frame(FRAME, True)
    before = (detector.state, detector.position)
    with pytest.raises(ValueError, match="decided already"):
        detector.frame(FRAME + 1, True)
    assert (detector.state, detector.position) == before


# ---- level -----------------------------------------------------------------------------------


def loud(levels: Sequence[float], settings: SpeechSettings | None = None) -> list[SpeechFact]:
    """All frames are voiced, as a compressor's are."""
    detector = SpeechDetector(settings)
    facts: list[SpeechFact] = []
    for index, level in enumerate(levels):
        facts += detector.frame(index * FRAME, True, level)
    return facts


STROKES = [-40.0, -46.0, -52.0, -46.0] * 100


def test_a_running_machine_is_no_voice() -> None:
    assert loud(STROKES) == []


def test_a_voice_above_the_machine_is_found() -> None:
    assert kinds(loud([*STROKES, *[-25.0] * 60, *STROKES[:100]])) == [Suspected, Confirmed, Ended]


def test_a_machine_that_starts_is_a_voice_until_the_floor_has_learned() -> None:
    facts = loud([-90.0] * 100 + STROKES)
    assert kinds(facts) == [Suspected, Confirmed, Ended]
    ended = facts[-1]
    assert isinstance(ended, Ended)
    settings = SpeechSettings()
    assert ended.at_sample <= (100 + settings.floor_frames + settings.end) * FRAME


def test_the_first_second_is_for_the_floor() -> None:
    assert loud([-20.0] * FLOOR_KNOWN) == []


def test_digital_silence_is_no_floor() -> None:
    assert kinds(loud([-100.0] * 200 + [-60.0] * 40)) == [Suspected, Confirmed]


# ---- the table ------------------------------------------------------------------------------


def brought_to(state: SpeechState) -> SpeechDetector:
    detector = SpeechDetector(SMALL)
    for index in range({"idle": 1, "suspected": 2, "speaking": 4}[state.value]):
        detector.frame(index * FRAME, True)
    assert detector.state is state
    return detector


FACT = {"suspect": Suspected, "confirm": Confirmed, "dismiss": Dismissed, "end": Ended}


@pytest.mark.parametrize(("state", "what"), list(product(SpeechState, SpeechInput)))
def test_every_input_in_every_state(state: SpeechState, what: SpeechInput) -> None:
    detector = brought_to(state)
    facts = detector._run_table(what, detector.position)
    following, action = TABLE.get((state, what), (state, ""))
    assert detector.state is following
    assert kinds(facts) == ([FACT[action]] if action else [])


def test_the_table_names_every_state_and_input() -> None:
    assert {state for state, _ in TABLE} == set(SpeechState)
    assert {what for _, what in TABLE} == set(SpeechInput)
    assert {following for following, _ in TABLE.values()} == set(SpeechState)


# ---- any frames ------------------------------------------------------------------------------


def check(
    frames: Sequence[tuple[int, bool]], facts: Sequence[SpeechFact], settings: SpeechSettings
) -> None:
    """``frames``: position and flag of each. Raises AssertionError."""
    last, state, onset, fresh = 0, SpeechState.IDLE, 0, 0
    for fact in facts:
        assert fact.at_sample >= last, "positions go back"
        last = fact.at_sample
        counted = [at for at, flag in frames if flag and at < fact.at_sample]
        match fact:
            case Suspected():
                assert state is SpeechState.IDLE, "suspected twice"
                window = [each for each in frames if fresh <= each[0] < fact.at_sample]
                needed = [at for at, flag in window[-settings.suspect.n :] if flag]
                assert 0 <= fact.onset_sample <= max(needed[0] - settings.margin, 0)
                reach = min(fact.at_sample - settings.reach, needed[0] - settings.margin)
                assert fact.onset_sample >= min(reach, fact.at_sample), "reaches too far back"
                state, onset = SpeechState.SUSPECTED, fact.onset_sample
            case Confirmed():
                assert state is SpeechState.SUSPECTED, "confirmed without a suspicion"
                assert fact.onset_sample == onset, "another onset"
                assert len(counted) >= settings.confirm.k, "confirmed with too little voice"
                state = SpeechState.SPEAKING
            case Dismissed():
                assert state is SpeechState.SUSPECTED, "dismissed without a suspicion"
                assert fact.onset_sample == onset
                state, fresh = SpeechState.IDLE, fact.at_sample
            case Ended():
                assert state is SpeechState.SPEAKING, "ended without a proof"
                assert onset <= fact.last_voiced_sample <= fact.at_sample
                silent = [at for at, _ in frames if fact.last_voiced_sample <= at < last]
                assert len(silent) >= settings.end or last == frames[-1][0] + FRAME
                state, fresh = SpeechState.IDLE, fact.at_sample
    assert state is SpeechState.IDLE, "left open"


def all_facts(frames: Sequence[tuple[int, bool]], settings: SpeechSettings) -> list[SpeechFact]:
    detector = SpeechDetector(settings)
    facts: list[SpeechFact] = []
    for at, flag in frames:
        found = detector.frame(at, flag)
        assert len(found) <= 1
        facts += found
    facts += detector.stop()
    assert detector.state is SpeechState.IDLE, "goes on after the stop"
    return facts


def test_every_sequence_of_twelve_frames() -> None:
    for flags in product((False, True), repeat=12):
        frames = [(START + index * FRAME, flag) for index, flag in enumerate(flags)]
        check(frames, all_facts(frames, SMALL), SMALL)


RUNS = st.lists(
    st.tuples(st.booleans(), st.integers(1, 40), st.sampled_from([0, 0, 0, 480, 30_000])),
    max_size=30,
)


@given(RUNS, st.sampled_from([SETTINGS, SMALL, replace(SMALL, keep=Window(3, 3))]))
@settings(max_examples=300, deadline=None)
def test_any_runs_and_gaps(runs: list[tuple[bool, int, int]], speech: SpeechSettings) -> None:
    frames, at = [], 0
    for flag, length, gap in runs:
        at += gap
        for _ in range(length):
            frames.append((at, flag))
            at += FRAME
    check(frames, all_facts(frames, speech), speech)


@given(
    st.lists(st.tuples(st.booleans(), st.floats(-110, 0)), max_size=200),
)
@settings(max_examples=100, deadline=None)
def test_levels_only_take_frames_away(frames: list[tuple[bool, float]]) -> None:
    speech = replace(SMALL, above_floor_db=6.0, floor_frames=20, smooth=2)
    detector = SpeechDetector(speech)
    facts: list[SpeechFact] = []
    for index, (flag, level) in enumerate(frames):
        facts += detector.frame(index * FRAME, flag, level)
        assert len(detector._sorted) == len(detector._levels) <= speech.floor_frames
        assert detector._sorted == sorted(detector._levels)
    flags = [(index * FRAME, flag) for index, (flag, _) in enumerate(frames)]
    check(flags, facts + detector.stop(), speech)


WRONG: list[dict[str, Any]] = [
    {"suspect": Window(4, 3)},
    {"suspect": Window(0, 3)},
    {"confirm": Window(5, 50)},
    {"reach": 1_000},
    {"doubt": 59},
    {"end": 0},
    {"margin": -1},
]


@pytest.mark.parametrize("wrong", WRONG)
def test_settings_that_cannot_work_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        replace(SpeechSettings(), **wrong)


# ---- planted faults --------------------------------------------------------------------------


def late_onset(original: Callable[..., int], detector: SpeechDetector, at: int) -> int:
    return at


def far_onset(original: Callable[..., int], detector: SpeechDetector, at: int) -> int:
    return max(original(detector, at) - 90_000, 0) if at > 90_000 else original(detector, at)


def test_a_late_or_far_onset_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    original = SpeechDetector._suspicion
    for wrong in (late_onset, far_onset):
        with monkeypatch.context() as patch:
            patch.setattr(SpeechDetector, "_suspicion", lambda s, at, w=wrong: w(original, s, at))
            with pytest.raises(AssertionError):
                test_every_sequence_of_twelve_frames()


ROWS = [
    ((SpeechState.SUSPECTED, SpeechInput.QUIET), (SpeechState.SPEAKING, "confirm")),
    ((SpeechState.IDLE, SpeechInput.VOICE), (SpeechState.SPEAKING, "confirm")),
    ((SpeechState.SUSPECTED, SpeechInput.PROOF), (SpeechState.IDLE, "end")),
    ((SpeechState.SPEAKING, SpeechInput.STOP), (SpeechState.SPEAKING, "end")),
    ((SpeechState.SUSPECTED, SpeechInput.STOP), (SpeechState.IDLE, "confirm")),
]


@pytest.mark.parametrize(("key", "row"), ROWS)
def test_a_wrong_row_is_found(
    key: tuple[SpeechState, SpeechInput],
    row: tuple[SpeechState, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(TABLE, key, row)
    with pytest.raises(AssertionError):
        test_every_sequence_of_twelve_frames()
