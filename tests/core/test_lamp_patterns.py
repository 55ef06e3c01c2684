"""The lamp: one state for every combination of facts, patterns that can be told apart with one
colour, and none that flashes too fast."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from dataclasses import replace
from itertools import combinations, product
from typing import Any

import pytest

from handset.core import lamp
from handset.core.lamp import (
    LIVE,
    PATTERNS,
    PRECEDENCE,
    LampFacts,
    LampState,
    LinkLight,
    Pattern,
    Phase,
    PlaybackLight,
    TaskLight,
    TurnLight,
    choose,
    lamp_table,
)
from handset.core.lamp_drawing import COLOURS, spans, svg

STEP_MS = 50
"""All steps are multiples of it."""
WINDOW = 24_000 // STEP_MS
MUTED = {LampState.MUTED, LampState.MUTED_ATTENTION, LampState.TALKING_MUTED}
ONE_FLASH = 150 / 4_000
"""Two patterns differ at least by a short flash in four seconds, however they are shifted."""
SAME_SHAPE = 0.2
"""Two that are of one shape differ for at least this part of the time."""

every_state = pytest.mark.parametrize("state", LampState)


def test_every_state_has_a_row_and_a_pattern() -> None:
    assert sorted(state for state, _ in PRECEDENCE) == sorted(LampState)
    assert set(PATTERNS) == set(LampState)
    assert {PATTERNS[state].name for state in LampState} == set(LampState)


# ---- one state for every combination --------------------------------------------------------


def all_facts() -> list[LampFacts]:
    kinds: list[Any] = [Phase, TurnLight, PlaybackLight, LinkLight, TaskLight]
    return [LampFacts(*row) for row in product(*kinds, *[(False, True)] * 8)]


def wrong_choices(select: Callable[[LampFacts], LampState]) -> set[str]:
    """Walks every combination: 368,640 of them."""
    wrong: set[str] = set()
    seen: set[LampState] = set()
    for facts in all_facts():
        state = select(facts)
        seen.add(state)
        talking = facts.turn is not TurnLight.NONE
        if facts.phase is Phase.OFF:
            if state is not LampState.OFF:
                wrong.add("lit though it is off")
        elif facts.muted:
            if state not in MUTED:
                wrong.add("a mute is not seen")
            if talking != (state is LampState.TALKING_MUTED):
                wrong.add("talking into a mute is not seen")
        elif talking != (state in LIVE):
            wrong.add("a live microphone is not seen, or one is that is not live")
        elif state is LampState.READY and (facts.needs_attention or not facts.linked):
            wrong.add("ready though something is wrong")
    if seen != set(LampState):
        wrong.add("a state is never shown")
    return wrong


def test_each_combination_shows_a_mute_and_a_live_microphone() -> None:
    assert wrong_choices(choose) == set()


@pytest.mark.parametrize("moved", [LampState.MUTED_ATTENTION, LampState.TALKING, LampState.MUTED])
def test_another_order_is_found(moved: LampState) -> None:
    rows = [row for row in PRECEDENCE if row[0] is not moved]
    rows.insert(-1, next(row for row in PRECEDENCE if row[0] is moved))

    assert wrong_choices(lambda facts: next(state for state, holds in rows if holds(facts)))


@pytest.mark.parametrize(
    ("facts", "state"),
    [
        (LampFacts(), LampState.READY),
        (LampFacts(link=LinkLight.CONNECTING), LampState.READY_OFFLINE),
        (LampFacts(link=LinkLight.CONNECTING, keeps=False), LampState.CONNECTING),
        (LampFacts(link=LinkLight.DOWN, keeps=False), LampState.NO_LINK),
        (LampFacts(turn=TurnLight.TALKING, control=False), LampState.TALKING_CONTROL_LOST),
        (LampFacts(turn=TurnLight.TAIL, control=False), LampState.TAIL),
        (LampFacts(muted=True, alert_waiting=True), LampState.MUTED_ATTENTION),
        (LampFacts(playback=PlaybackLight.ALERT, alert_waiting=True), LampState.ALERT_PLAYING),
        (LampFacts(playback=PlaybackLight.PLAYING, low_power=True), LampState.PLAYING),
        (LampFacts(task=TaskLight.PAIRING, card=False), LampState.PAIRING),
    ],
)
def test_who_wins(facts: LampFacts, state: LampState) -> None:
    assert choose(facts) is state


# ---- patterns -------------------------------------------------------------------------------


def samples(pattern: Pattern) -> list[bool]:
    return [pattern.lit(i * STEP_MS) for i in range(WINDOW)]


def difference(a: Pattern, b: Pattern) -> float:
    """The part of the time in which one is lit and the other not, at the best of all shifts:
    nobody sees where a pattern begins. Colours do not count."""
    x = samples(a)
    period = max(sum(ms for _, ms in b.steps) // STEP_MS, 1)
    return min(
        sum(p != b.lit((i + shift) * STEP_MS) for i, p in enumerate(x)) / WINDOW
        for shift in range(period)
    )


def most_flashes(pattern: Pattern) -> int:
    """The most flashes that begin in a second."""
    lit = samples(pattern)
    begins = [i for i in range(1, WINDOW) if lit[i] and not lit[i - 1]]
    second = 1_000 // STEP_MS
    return max((sum(at <= i < at + second for i in begins) for at in begins), default=0)


def shape(pattern: Pattern) -> tuple[object, ...]:
    """What the eye can tell without measuring: how long each flash of a group is (short, middle,
    long), and how long the dark between two groups is."""
    lengths = [ms for lit, ms in pattern.steps if lit]
    darks = [ms for lit, ms in pattern.steps if not lit]
    classes = tuple("short" if ms < 350 else "long" if ms > 550 else "middle" for ms in lengths)
    longest = max(darks, default=0)
    return classes, "blink" if longest < 800 else "pause" if longest < 3_000 else "rare"


def alike(a: Pattern, b: Pattern) -> bool:
    limit = ONE_FLASH if shape(a) != shape(b) else SAME_SHAPE
    return difference(a, b) < limit


@every_state
def test_steps_are_whole_and_take_turns(state: LampState) -> None:
    steps = PATTERNS[state].steps

    assert all(ms % STEP_MS == 0 for _, ms in steps)
    assert len(steps) == 1 or all(ms > 0 for _, ms in steps)
    assert all(a[0] != b[0] for a, b in zip(steps, [*steps[1:], steps[0]], strict=True)) or (
        len(steps) == 1
    )
    assert sum(ms for _, ms in steps) <= 5_000, "read within five seconds"
    assert PATTERNS[state].colour in COLOURS


@every_state
def test_no_pattern_flashes_more_than_three_times_a_second(state: LampState) -> None:
    assert most_flashes(PATTERNS[state]) <= 3


@every_state
def test_a_live_microphone_is_lit_most_of_the_time_and_nothing_else_is(state: LampState) -> None:
    lit = sum(samples(PATTERNS[state])) / WINDOW

    assert lit > 0.65 if state in LIVE else lit <= 0.5


@pytest.mark.parametrize(("a", "b"), list(combinations(LampState, 2)))
def test_two_patterns_can_be_told_apart_without_colour(a: LampState, b: LampState) -> None:
    assert not alike(PATTERNS[a], PATTERNS[b])


def test_what_is_too_fast_or_too_alike_is_found() -> None:
    ready, waiting = PATTERNS[LampState.READY], PATTERNS[LampState.ALERT_WAITING]

    assert most_flashes(replace(waiting, steps=((True, 100), (False, 200)))) > 3
    slower = replace(ready, steps=((True, 200), (False, 3_700)))
    assert alike(ready, slower) and not alike(ready, PATTERNS[LampState.READY_OFFLINE])
    shifted = replace(waiting, steps=(*waiting.steps[1:], waiting.steps[0]))
    assert alike(waiting, shifted) and difference(waiting, shifted) == 0


# ---- for people -----------------------------------------------------------------------------


def test_the_table_has_each_state_once() -> None:
    rows = lamp_table().splitlines()[2:]

    assert [row.split("`")[1] for row in rows] == [state for state, _ in PRECEDENCE]
    assert all(row.count("|") == 5 for row in rows)


@every_state
def test_the_picture_shows_when_a_pattern_is_lit(state: LampState) -> None:
    pattern = PATTERNS[state]
    drawn = spans(pattern, 4_000)

    for ms in range(0, 4_000, STEP_MS):
        assert pattern.lit(ms) == any(start <= ms < end for start, end in drawn)


def test_the_picture_is_svg_with_every_pattern() -> None:
    root = ElementTree.fromstring(svg())
    texts = [each.text for each in root.iter("{http://www.w3.org/2000/svg}text")]

    assert {state.replace("_", " ") for state in LampState} <= set(texts)
    assert lamp.PATTERNS[LampState.TALKING].steps == ((True, 0),)
