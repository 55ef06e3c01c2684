"""One table: what each gesture does in each state of the turn.

Every pair of a state and a gesture has a cell, also where nothing happens, so that nothing
happens by oversight. The turn's part is a row of :data:`handset.core.turn.TABLE`; here is
which one, and what a gesture does beside it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from handset.core.keys import Gesture
from handset.core.turn import TABLE, TurnInput, TurnState


class Beside(StrEnum):
    """What a gesture does that is not the turn's."""

    NOTHING = ""
    HOLD_PLAYBACK = "pause playback; clear it after the grace, or when the tap counts"
    CLEAR_PLAYBACK = "clear playback"
    SILENCE = "stop what plays"
    ACKNOWLEDGE_ALERT = "acknowledge the alert, or agree"
    LOUDER = "one step louder"
    SOFTER = "one step softer"
    MUTE = "microphone off, or on again"
    PAIR = "pair a headset"
    SELF_TEST = "self-test"
    NEW_WEARER = "another person: disclosure and consent anew"


@dataclass(frozen=True, slots=True)
class Cell:
    turn: TurnInput | None
    beside: Beside = Beside.NOTHING


_TURN: dict[Gesture, TurnInput] = {
    Gesture.TALK: TurnInput.TALK,
    Gesture.LET_GO: TurnInput.LET_GO,
    Gesture.LATCH: TurnInput.LATCH,
    Gesture.TOGGLE: TurnInput.TOGGLE,
    Gesture.CANCEL: TurnInput.CANCEL,
    Gesture.ACKNOWLEDGE: TurnInput.ACKNOWLEDGE,
    Gesture.NEW_WEARER: TurnInput.CANCEL,
}

_BESIDE: dict[Gesture, Beside] = {
    Gesture.LOUDER: Beside.LOUDER,
    Gesture.SOFTER: Beside.SOFTER,
    Gesture.MUTE: Beside.MUTE,
    Gesture.PAIR: Beside.PAIR,
    Gesture.SELF_TEST: Beside.SELF_TEST,
    Gesture.NEW_WEARER: Beside.NEW_WEARER,
}

_STARTS = ("start", "take_over")
_IN_A_TURN = frozenset(
    {TurnState.HOLDING, TurnState.LATCHED, TurnState.TAILING, TurnState.SPEAKING}
)


def _cell(state: TurnState, gesture: Gesture) -> Cell:
    what = _TURN.get(gesture)
    row = TABLE.get((state, what)) if what is not None else None
    turn = what if row is not None else None
    beside = _BESIDE.get(gesture, Beside.NOTHING)
    if row is not None and any(action in _STARTS for action in row[1]):
        beside = Beside.HOLD_PLAYBACK if gesture is Gesture.TALK else Beside.CLEAR_PLAYBACK
    elif gesture is Gesture.CANCEL and row is None:
        beside = Beside.SILENCE  # no turn to cancel: what is playing is
    elif gesture is Gesture.ACKNOWLEDGE and row is None and state not in _IN_A_TURN:
        beside = Beside.ACKNOWLEDGE_ALERT
    elif gesture in (Gesture.PAIR, Gesture.SELF_TEST) and state is not TurnState.IDLE:
        beside = Beside.NOTHING  # not while somebody is speaking
    return Cell(turn, beside)


GESTURES: dict[tuple[TurnState, Gesture], Cell] = {
    (state, gesture): _cell(state, gesture) for state in TurnState for gesture in Gesture
}
