"""What each durable event does to a session: checked first, then done.

A function here either refuses and has changed nothing, or does all of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from handset.core import messages as m

from . import alert_events
from .alerts import is_replay
from .cursors import contradiction
from .lives import TURN, TurnEvent
from .outboxes import Refusal
from .session import Session, TurnRecord

TURN_SAMPLES_MAX = 10 * 60 * 48_000
"""A longer capture range than ten minutes is a mistake."""
FINAL = ("played", "cleared", "unfinished")


@dataclass(slots=True)
class Follows:
    """What the owner has to see to after an event took effect."""

    cleared: list[str] = field(default_factory=list)
    final: list[str] = field(default_factory=list)
    committed: int | None = None
    typed: int | None = None
    ended: str | None = None


def apply(session: Session, event: m.Durable) -> tuple[Refusal | None, Follows]:
    """Carry out one event."""
    follows = Follows()
    return _EVENTS[type(event)](session, event, follows), follows


def _refused(turn: TurnRecord, event: TurnEvent) -> Refusal | None:
    if (turn.state, event) in TURN:
        return None
    return Refusal("turn_state", f"turn {turn.number} is {turn.state.value}: not {event.value}")


def _turn(session: Session, event: m.Durable) -> TurnRecord | Refusal:
    if event.turn is None or event.turn < 1:
        return Refusal("malformed", f"turn {event.turn}")
    return session.turns.get(event.turn, TurnRecord(event.turn))


def _started(session: Session, event: m.TurnStarted, follows: Follows) -> Refusal | None:
    turn = _turn(session, event)
    if isinstance(turn, Refusal):
        return turn
    if refusal := _refused(turn, TurnEvent.STARTED):
        return refusal
    session.turn(turn.number).step(TurnEvent.STARTED)
    return None


def _committed(session: Session, event: m.Commit, follows: Follows) -> Refusal | None:
    turn = _turn(session, event)
    if isinstance(turn, Refusal):
        return turn
    length = event.capture.end - event.capture.start
    if event.capture.start < 0 or not 0 <= length <= TURN_SAMPLES_MAX:
        return Refusal("malformed", f"capture range {event.capture.start}..{event.capture.end}")
    if event.commit.source == "typed":
        return Refusal("malformed", f"turn {turn.number} was spoken, and committed as typed")
    if refusal := _refused(turn, TurnEvent.COMMITTED):
        return refusal
    if session.wants_manual and event.commit.source == "vad":
        return Refusal("manual_required", f"turn {turn.number}: silence commits nothing here")
    if not session.may_capture:
        return Refusal("no_consent", f"turn {turn.number}: its speaker did not agree to capture")
    turn = session.turn(turn.number)
    turn.step(TurnEvent.COMMITTED)
    turn.capture, turn.commit, turn.by = event.capture, event, event.commit
    session.manual_next = False
    follows.committed = turn.number
    return None


def _abandoned(session: Session, event: m.TurnAbandoned, follows: Follows) -> Refusal | None:
    turn = _turn(session, event)
    if isinstance(turn, Refusal):
        return turn
    if refusal := _refused(turn, TurnEvent.ABANDONED):
        return refusal
    session.turn(turn.number).step(TurnEvent.ABANDONED)
    return None


def _lost(session: Session, event: m.CaptureLost, follows: Follows) -> Refusal | None:
    turn = _turn(session, event)
    if isinstance(turn, Refusal):
        return turn
    if refusal := _refused(turn, TurnEvent.LOST):
        return refusal
    turn.step(TurnEvent.LOST)
    turn.missing = list(event.ranges)
    return None


def _cleared(session: Session, event: m.PlayoutCleared, follows: Follows) -> Refusal | None:
    for cursor in event.items:
        if refusal := contradiction(cursor):
            return refusal
    reported = {cursor.item_id for cursor in event.items}
    for cursor in event.items:
        session.cursors[cursor.item_id] = cursor
    for response_id in event.responses:
        if response_id not in session.responses:
            continue
        follows.cleared.append(response_id)
        for item in session.history.of_response(response_id):
            if item.item_id not in reported and item.item_id not in session.receipts:
                session.history.presume_unplayed(item.item_id)
    for cursor in event.items:
        if cursor.received == 0 and session.history.find(cursor.item_id) is not None:
            session.history.truncate(cursor.item_id, 0, 0)
    session.clears.append(event.event_id)
    return None


def _truncate(session: Session, event: m.Truncate, follows: Follows) -> Refusal | None:
    if event.item_id is None:
        return Refusal("malformed", "a truncate that names no item")
    if is_replay(event.item_id):  # the conversation holds an alert once, and not by this
        take = session.take(event.item_id)
        if take is None:
            return Refusal("unknown_item", f"there is no item {event.item_id}")
        return take.truncate(event.audio_end_ms, event.played, event.exact)
    return session.history.truncate(event.item_id, event.audio_end_ms, event.played, event.exact)


def _receipt(session: Session, event: m.PlayoutReceipt, follows: Follows) -> Refusal | None:
    cursor = event.cursor
    if event.item_id is not None and event.item_id != cursor.item_id:
        return Refusal("malformed", f"receipt of {event.item_id}, cursor of {cursor.item_id}")
    if refusal := contradiction(cursor):
        return refusal
    replay = is_replay(cursor.item_id)
    item = session.take(cursor.item_id) if replay else session.history.find(cursor.item_id)
    if item is None:
        return Refusal("unknown_item", f"there is no item {cursor.item_id}")
    if event.state not in FINAL:
        session.cursors.setdefault(cursor.item_id, cursor)
        return None
    if cursor.item_id in session.receipts:
        was = session.receipts[cursor.item_id].state
        return Refusal("second_final", f"item {cursor.item_id} was {was} already")
    refusal = None
    if event.state == "played":
        if cursor.played != cursor.received or (item.ended and cursor.played < item.length):
            return Refusal("not_all", f"played {cursor.played} of {item.length} samples")
        refusal = item.played()
    elif cursor.received == 0:
        refusal = item.truncate(0, 0)
    elif event.state == "unfinished":
        # All that came was played, so no truncate follows; but not all that was generated came.
        refusal = item.truncate(cursor.audio_end_ms, cursor.played, cursor.exact)
    if refusal is None:
        session.cursors[cursor.item_id] = cursor
        session.receipts[cursor.item_id] = event
        follows.final.append(cursor.item_id)
    return refusal


def _typed(session: Session, event: m.TypedTurn, follows: Follows) -> Refusal | None:
    turn = _turn(session, event)
    if isinstance(turn, Refusal):
        return turn
    text = " ".join(part.text for part in event.item.content).strip()
    if not text or event.commit.source != "typed":
        return Refusal(
            "malformed", f"turn {turn.number}, typed: {len(text)} characters, {event.commit.source}"
        )
    if refusal := _refused(turn, TurnEvent.TYPED):
        return refusal
    turn = session.turn(turn.number)
    turn.step(TurnEvent.TYPED)
    turn.typed, turn.by = text, event.commit
    session.manual_next = False
    follows.typed = turn.number
    return None


def _consent(session: Session, event: m.WearerConsent, follows: Follows) -> Refusal | None:
    session.consents.append(event)
    return None


def _shutdown(session: Session, event: m.Shutdown, follows: Follows) -> Refusal | None:
    if session.ended is not None:
        return Refusal("ended", f"the session had ended: {session.ended}")
    follows.ended = event.cause
    return None


_EVENTS: dict[type[m.Durable], Callable[[Session, Any, Follows], Refusal | None]] = {
    m.TurnStarted: _started,
    m.Commit: _committed,
    m.TurnAbandoned: _abandoned,
    m.CaptureLost: _lost,
    m.PlayoutCleared: _cleared,
    m.Truncate: _truncate,
    m.PlayoutReceipt: _receipt,
    m.TypedTurn: _typed,
    m.WearerConsent: _consent,
    m.AlertDelivered: lambda session, event, _: alert_events.delivered(session, event),
    m.AlertAcknowledged: lambda session, event, _: alert_events.acknowledged(session, event),
    m.AlertUndelivered: lambda session, event, _: alert_events.undelivered(session, event),
    m.Shutdown: _shutdown,
}
