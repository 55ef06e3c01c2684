"""One table: every state and gesture has one cell, and this is what is in it."""

from __future__ import annotations

from itertools import product

import pytest

from handset.core.gestures import GESTURES, Beside
from handset.core.keys import Gesture
from handset.core.turn import GESTURES as ENDING
from handset.core.turn import TABLE, TurnInput, TurnState

G, S, B = Gesture, TurnState, Beside

HOLD, CLEAR, ACK = B.HOLD_PLAYBACK, B.CLEAR_PLAYBACK, B.ACKNOWLEDGE_ALERT
# Each cell in which something happens: what the turn does, where it goes, and what is done
# beside it. Written out, so that a change of any cell is seen here.
START = ("start", S.HOLDING, HOLD)
LATCH_ON = ("start", S.LATCHED, CLEAR)
TAKE = ("take_over", S.HOLDING, HOLD)
RELEASE = ("release", S.TAILING, B.NOTHING)
CANCEL = ("cancel", S.IDLE, B.NOTHING)
NEXT = ("cut_tail commit start", S.HOLDING, HOLD)
NEXT_LATCH = ("cut_tail commit start", S.LATCHED, CLEAR)
SETTLE = ("resolve start", S.HOLDING, HOLD)
SETTLE_LATCH = ("resolve start", S.LATCHED, CLEAR)
CONFIRM = ("confirm commit", S.IDLE, B.NOTHING)
Row = dict[Gesture, tuple[str, TurnState, Beside]]
MATRIX: dict[TurnState, Row] = {
    S.IDLE: {
        G.TALK: START,
        G.TOGGLE: LATCH_ON,
        G.CANCEL: ("", S.IDLE, B.SILENCE),
        G.ACKNOWLEDGE: ("", S.IDLE, ACK),
        G.PAIR: ("", S.IDLE, B.PAIR),
        G.SELF_TEST: ("", S.IDLE, B.SELF_TEST),
    },
    S.HOLDING: {
        G.LET_GO: RELEASE,
        G.LATCH: ("latch", S.LATCHED, B.NOTHING),
        G.TOGGLE: RELEASE,
        G.CANCEL: CANCEL,
    },
    S.LATCHED: {G.TALK: RELEASE, G.TOGGLE: RELEASE, G.CANCEL: CANCEL},
    S.TAILING: {G.TALK: NEXT, G.TOGGLE: NEXT_LATCH, G.CANCEL: CANCEL},
    S.LOST: {
        G.TALK: ("regain", S.HOLDING, B.NOTHING),
        G.TOGGLE: RELEASE,
        G.CANCEL: CANCEL,
        G.ACKNOWLEDGE: ("", S.LOST, ACK),
    },
    S.LATCHED_LOST: {
        G.TALK: RELEASE,
        G.TOGGLE: RELEASE,
        G.CANCEL: CANCEL,
        G.ACKNOWLEDGE: ("", S.LATCHED_LOST, ACK),
    },
    S.STUCK: {
        G.TALK: SETTLE,
        G.LET_GO: ("", S.KEPT, B.NOTHING),
        G.TOGGLE: SETTLE_LATCH,
        G.CANCEL: CANCEL,
        G.ACKNOWLEDGE: CONFIRM,
    },
    S.KEPT: {
        G.TALK: SETTLE,
        G.TOGGLE: SETTLE_LATCH,
        G.CANCEL: CANCEL,
        G.ACKNOWLEDGE: CONFIRM,
    },
    S.SPEAKING: {
        G.TALK: TAKE,
        G.TOGGLE: ("take_over", S.LATCHED, CLEAR),
        G.CANCEL: CANCEL,
    },
    S.HELD_BACK: {
        G.TALK: TAKE,
        G.TOGGLE: CONFIRM,
        G.CANCEL: CANCEL,
        G.ACKNOWLEDGE: CONFIRM,
    },
}
ALWAYS = {G.LOUDER: B.LOUDER, G.SOFTER: B.SOFTER, G.MUTE: B.MUTE}
"""In every state, and never the turn's."""


def written(state: TurnState, gesture: Gesture) -> tuple[str, TurnState, Beside]:
    if gesture in ALWAYS:
        return "", state, ALWAYS[gesture]
    if gesture is G.NEW_WEARER:
        return "" if state is S.IDLE else "cancel", S.IDLE, B.NEW_WEARER
    return MATRIX[state].get(gesture, ("", state, B.NOTHING))


@pytest.mark.parametrize(("state", "gesture"), list(product(TurnState, Gesture)))
def test_each_cell(state: TurnState, gesture: Gesture) -> None:
    check_cell(state, gesture)


def check_cell(state: TurnState, gesture: Gesture) -> None:
    cell = GESTURES[state, gesture]
    following, actions = state, ()
    if cell.turn is not None:
        assert cell.turn in ENDING  # a gesture is never told to the turn as time or a fault
        following, actions = TABLE[state, cell.turn]
    assert (" ".join(actions), following, cell.beside) == written(state, gesture)


def test_there_is_one_cell_for_each_pair() -> None:
    assert set(GESTURES) == set(product(TurnState, Gesture))
    assert set(B) == {cell.beside for cell in GESTURES.values()}


# With the same authority: hold, latch and toggle each end in TAILING by their own hand.
WAYS = {
    "hold": (G.TALK, G.LET_GO),
    "tap_latch": (G.TALK, G.LATCH, G.TALK),
    "tap_latch, held": (G.TALK, G.LET_GO),
    "tap_latch, held to end": (G.TALK, G.LATCH, G.TALK, G.LET_GO),
    "toggle": (G.TOGGLE, G.TOGGLE),
}


def after(way: tuple[Gesture, ...], state: TurnState) -> tuple[TurnState, list[str]]:
    done: list[str] = []
    for gesture in way:
        what = GESTURES[state, gesture].turn
        if what is not None:
            state, actions = TABLE[state, what]
            done += actions
    return state, done


@pytest.mark.parametrize("begun", [S.IDLE, S.TAILING, S.STUCK, S.KEPT, S.SPEAKING])
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_each_way_to_talk_reaches_a_commit(way: tuple[Gesture, ...], begun: TurnState) -> None:
    state, done = after(way, begun)
    assert state is S.TAILING and done[-1] == "release"
    assert done.count("start") + done.count("take_over") == 1
    assert TABLE[state, TurnInput.TAIL_CAPTURED] == (S.IDLE, ("commit",))


@pytest.mark.parametrize("state", TurnState)
@pytest.mark.parametrize("gesture", Gesture)
def test_no_gesture_does_two_things_to_one_turn(state: TurnState, gesture: Gesture) -> None:
    """It ends the turn before and begins the next, or does one thing; and what ends a turn
    without a commit begins none."""
    what = GESTURES[state, gesture].turn
    actions = TABLE[state, what][1] if what is not None else ()
    ends = [a for a in actions if a in ("commit", "resolve", "cancel", "drop", "expire")]
    begins = [a for a in actions if a in ("start", "take_over", "regain", "latch")]
    assert len(ends) <= 1 and len(begins) <= 1
    if begins and ends:
        assert actions.index(ends[0]) < actions.index(begins[0])
        assert ends[0] in ("commit", "resolve")


@pytest.mark.parametrize("state", [S.HOLDING, S.LATCHED, S.LOST, S.LATCHED_LOST])
def test_who_holds_the_floor_is_not_stopped_by_another_key(state: TurnState) -> None:
    for gesture in set(Gesture) - {G.TALK, G.LET_GO, G.LATCH, G.TOGGLE, G.CANCEL, G.NEW_WEARER}:
        assert GESTURES[state, gesture].turn is None


def test_another_wearer_ends_whatever_turn_there_is() -> None:
    for state in set(TurnState) - {S.IDLE}:
        assert GESTURES[state, G.NEW_WEARER].turn is TurnInput.CANCEL
        assert TABLE[state, TurnInput.CANCEL] == (S.IDLE, ("cancel",))
