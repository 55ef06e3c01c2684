"""The lives of a turn and of a response, as tables.

Who wins. A turn that the handset has called lost stays refused, also when its packets turn
up afterwards: it was told that nothing acts on it. A turn that is admitted stays admitted:
the edge had all of it. A committed turn can't be abandoned. Between two events for one
turn the one that is applied first wins, and the other is refused. A typed turn is whole
when it comes: there is no capture to wait for.

A response that was cleared is dead; nothing revives it. Cancelling stops generation and
says nothing of what is in the handset's queue; clearing is about that queue. What is no
answer to a turn (an alert, a disclosure) is worth nothing in part: it is dropped, without
an end to its items, so that no handset takes the half that was sent for all of it.
"""

from __future__ import annotations

from enum import Enum


class Turn(Enum):
    UNKNOWN = "unknown"
    OPEN = "open"
    WAITING = "waiting"  # committed; not all of its capture has arrived
    ADMITTED = "admitted"  # committed and complete: the edge may act on it
    ABANDONED = "abandoned"
    LOST = "lost"  # committed, and can never be complete: nothing acts on it


class TurnEvent(Enum):
    STARTED = "started"
    COMMITTED = "committed"
    TYPED = "typed"
    COMPLETE = "complete"
    ABANDONED = "abandoned"
    LOST = "lost"


TURN: dict[tuple[Turn, TurnEvent], Turn] = {
    (Turn.UNKNOWN, TurnEvent.STARTED): Turn.OPEN,
    # The start may have gone with a lost store; a commit has all that is needed by itself.
    (Turn.UNKNOWN, TurnEvent.COMMITTED): Turn.WAITING,
    (Turn.UNKNOWN, TurnEvent.TYPED): Turn.ADMITTED,
    (Turn.OPEN, TurnEvent.TYPED): Turn.ADMITTED,
    (Turn.UNKNOWN, TurnEvent.ABANDONED): Turn.ABANDONED,
    (Turn.OPEN, TurnEvent.COMMITTED): Turn.WAITING,
    (Turn.OPEN, TurnEvent.ABANDONED): Turn.ABANDONED,
    (Turn.WAITING, TurnEvent.COMPLETE): Turn.ADMITTED,
    (Turn.WAITING, TurnEvent.LOST): Turn.LOST,
}
"""A pair that is not here is refused and changes nothing."""


class Response(Enum):
    LIVE = "live"
    SENT = "sent"  # all of it is sent; it may still be playing
    CANCELLED = "cancelled"  # no more is generated or sent; what was sent may be playing
    CLEARING = "clearing"  # the edge asked the handset to stop playing it
    CLEARED = "cleared"  # the handset has reported the cut


class ResponseEvent(Enum):
    ALL_SENT = "all_sent"
    CANCEL = "cancel"
    DROP = "drop"
    ASK_CLEAR = "ask_clear"
    CLEARED = "cleared"


class Act(Enum):
    NOTHING = "nothing"
    SAY_DONE = "say_done"
    END = "end"  # stop generating; end what was sent where it is
    STOP = "stop"  # stop generating and sending, at once


_R, _E = Response, ResponseEvent
RESPONSE: dict[tuple[Response, ResponseEvent], tuple[Response, Act]] = {
    (_R.LIVE, _E.ALL_SENT): (_R.SENT, Act.SAY_DONE),
    (_R.LIVE, _E.CANCEL): (_R.CANCELLED, Act.END),
    (_R.LIVE, _E.DROP): (_R.CANCELLED, Act.STOP),
    (_R.LIVE, _E.ASK_CLEAR): (_R.CLEARING, Act.STOP),
    (_R.LIVE, _E.CLEARED): (_R.CLEARED, Act.STOP),
    (_R.SENT, _E.CANCEL): (_R.SENT, Act.NOTHING),
    (_R.SENT, _E.DROP): (_R.SENT, Act.STOP),
    (_R.SENT, _E.ASK_CLEAR): (_R.CLEARING, Act.STOP),
    (_R.SENT, _E.CLEARED): (_R.CLEARED, Act.STOP),
    (_R.CANCELLED, _E.ASK_CLEAR): (_R.CLEARING, Act.STOP),
    (_R.CANCELLED, _E.CLEARED): (_R.CLEARED, Act.STOP),
    (_R.CLEARING, _E.CLEARED): (_R.CLEARED, Act.NOTHING),
}
"""A pair that is not here leaves the state and does nothing: the two sides may cross."""
