"""One table: every state and gesture has one cell, and this is what is in it."""

from __future__ import annotations

from itertools import product

import pytest

from handset.core.gestures import GESTURES, Beside
from handset.core.keys import Gesture
from handset.core.turn import GESTURES as ENDING
from handset.core.turn import TABLE, TurnInput, TurnState

G, S, B = Gesture, TurnState, Beside

# What a gesture does beside the turn, where that is not nothing. Written out, so that a
# change of any cell is seen here.
HOLDS = {(S.IDLE, G.TALK), (S.TAILING, G.TALK), (S.STUCK, G.TALK), (S.KEPT, G.TALK),
         (S.SPEAKING, G.TALK), (S.HELD_BACK, G.TALK)}  # fmt: skip
CLEARS = {(S.IDLE, G.TOGGLE), (S.TAILING, G.TOGGLE), (S.STUCK, G.TOGGLE), (S.KEPT, G.TOGGLE),
          (S.SPEAKING, G.TOGGLE)}  # fmt: skip
SILENCES = {(S.IDLE, G.CANCEL)}
ACKNOWLEDGES = {(S.IDLE, G.ACKNOWLEDGE), (S.LOST, G.ACKNOWLEDGE),
                (S.LATCHED_LOST, G.ACKNOWLEDGE)}  # fmt: skip
ALWAYS = {G.LOUDER: B.LOUDER, G.SOFTER: B.SOFTER, G.MUTE: B.MUTE, G.NEW_WEARER: B.NEW_WEARER}
IDLE_ONLY = {G.PAIR: B.PAIR, G.SELF_TEST: B.SELF_TEST}


def beside(state: TurnState, gesture: Gesture) -> Beside:
    for cells, what in ((HOLDS, B.HOLD_PLAYBACK), (CLEARS, B.CLEAR_PLAYBACK),
                        (SILENCES, B.SILENCE), (ACKNOWLEDGES, B.ACKNOWLEDGE_ALERT)):  # fmt: skip
        if (state, gesture) in cells:
            return what
    if state is S.IDLE and gesture in IDLE_ONLY:
        return IDLE_ONLY[gesture]
    return ALWAYS.get(gesture, B.NOTHING)


@pytest.mark.parametrize(("state", "gesture"), list(product(TurnState, Gesture)))
def test_each_cell(state: TurnState, gesture: Gesture) -> None:
    cell = GESTURES[state, gesture]
    assert cell.beside is beside(state, gesture)
    if cell.turn is not None:
        assert cell.turn in ENDING  # a gesture is never told to the turn as time or a fault
        assert (state, cell.turn) in TABLE


def test_there_is_one_cell_for_each_pair() -> None:
    assert set(GESTURES) == set(product(TurnState, Gesture))
    assert set(B) == {cell.beside for cell in GESTURES.values()}


def test_each_way_to_talk_reaches_a_commit() -> None:
    """With the same authority: hold, latch and toggle each end in TAILING by their own hand."""
    ways = [(G.TALK, G.LET_GO), (G.TALK, G.LATCH, G.TALK), (G.TOGGLE, G.TOGGLE)]
    for way in ways:
        state = S.IDLE
        for gesture in way:
            what = GESTURES[state, gesture].turn
            assert what is not None
            state, actions = TABLE[state, what]
        assert state is S.TAILING and actions == ("release",)
        assert TABLE[state, TurnInput.TAIL_CAPTURED] == (S.IDLE, ("commit",))


def test_another_wearer_ends_whatever_turn_there_is() -> None:
    for state in set(TurnState) - {S.IDLE}:
        assert GESTURES[state, G.NEW_WEARER].turn is TurnInput.CANCEL
        assert TABLE[state, TurnInput.CANCEL] == (S.IDLE, ("cancel",))
