"""What the edge knows, as JSON: for the bench, for tests, and to be read.

For every item four positions stand side by side, in samples at its rate: ``generated`` by
the provider, ``sent`` on the wire, ``received`` and ``played`` as the handset told. They
differ; only the last one is what history may hold.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import msgspec

from .alerts import OpenAlert
from .desk import Desk
from .history import AssistantItem
from .session import Arrival, Session, TurnRecord


def report(desk: Desk) -> dict[str, Any]:
    """Everything about one handset."""
    owner = desk.owner
    current = owner.session
    return {
        "handset": desk.handset_id,
        "session": None if current is None else current.session_id,
        "sessions": [_session(desk, session) for session in owner.sessions.values()],
        "events": [_arrival(arrival) for arrival in owner.arrivals],
        "acknowledged": [msgspec.to_builtins(ack) for ack in owner.acks()],
        "counters": {**owner.counters, **desk.counters},
        "capture": dict(desk.assembly.counters),
        "pacing": {
            "bundles": desk.pacer.bundles,
            "packets": desk.pacer.sent_packets,
            "buffered_max": desk.pacer.buffered_max,
            "credit_ms": desk.pacer.credit_ms,
        },
    }


def empty() -> dict[str, Any]:
    """The report of an edge that no handset has said hello to."""
    return {"handset": None, "session": None, "sessions": [], "events": [], "acknowledged": []}


def _session(desk: Desk, session: Session) -> dict[str, Any]:
    items = [item for item in session.history.items if isinstance(item, AssistantItem)]
    return {
        "session": session.session_id,
        "epoch": session.epoch,
        "epochs": [hello.epoch for hello in session.hellos],
        "ended": session.ended,
        "turns": [_turn(desk, session, turn) for turn in session.turns.values()],
        "responses": [
            {"response_id": record.response_id, "turn": record.turn, "state": record.state.value}
            for record in session.responses.values()
        ],
        "items": [_item(desk, session, item) for item in items],
        "clears": list(session.clears),
        "require_manual": session.require_manual,
        "manual_next": session.manual_next,
        "require_consent": session.require_consent,
        "policies": [msgspec.to_builtins(each) for each in session.policies],
        "held": [msgspec.to_builtins(each) for each in session.held],
        "alerts": [_alert(alert) for alert in session.alerts.known.values()],
        "consents": [msgspec.to_builtins(each) for each in session.consents],
        "history": [asdict(entry) for entry in session.history.view()],
    }


def _turn(desk: Desk, session: Session, turn: TurnRecord) -> dict[str, Any]:
    span = turn.capture
    missing = [] if span is None else desk.assembly.missing(span)
    return {
        "turn": turn.number,
        "state": turn.state.value,
        "capture": None if span is None else [span.start, span.end],
        "samples": 0 if span is None else span.end - span.start,
        "complete": span is not None and not missing,
        "missing": [[hole.start, hole.end] for hole in missing],
        "asked": turn.asked,
        "committed_by": None if turn.by is None else turn.by.source,
        "evidence": None if turn.by is None else dict(turn.by.evidence),
        "notices": [] if turn.commit is None else msgspec.to_builtins(turn.commit.notices),
        "typed": turn.typed or None,
    }


def _alert(alert: OpenAlert) -> dict[str, Any]:
    return {
        "alert_id": alert.alert_id,
        "attempt": alert.attempt,
        "state": alert.state,
        "withdrawn": alert.withdrawn,
        "delivery": alert.delivery,
        "acknowledge": alert.acknowledge,
        "source": msgspec.to_builtins(alert.source),
        "responses": list(alert.responses),
        "repeats": alert.repeats,
        "plays": alert.plays,
        "evidence": msgspec.to_builtins(alert.evidence),
    }


def _item(desk: Desk, session: Session, item: AssistantItem) -> dict[str, Any]:
    cursor = session.cursors.get(item.item_id)
    receipt = session.receipts.get(item.item_id)
    made, sent = desk.items[item.item_id], desk.paced[item.item_id]
    return {
        "item_id": item.item_id,
        "response_id": item.response_id,
        "turn": item.turn,
        "clip": made.clip.name,
        "rate": item.rate,
        "samples": made.clip.samples,
        "generated": made.samples,
        "sent": sent.sent_samples,
        "received": None if cursor is None else cursor.received,
        "handed_at_least": desk.owner.progress.get(item.item_id, 0),
        "played": None if cursor is None else cursor.played,
        "exact": None if cursor is None else cursor.exact,
        "receipt": None if receipt is None else receipt.state,
        "truncated_at": item.cursor,
        "removed": item.removed,
    }


def _arrival(arrival: Arrival) -> dict[str, Any]:
    event = arrival.event
    refusal = arrival.refusal
    return {
        "at_ns": arrival.at_ns,
        "connection": arrival.connection,
        "type": event.TYPE,  # type: ignore[attr-defined]
        "outcome": arrival.outcome,
        "refused": None if refusal is None else asdict(refusal),
        "event": msgspec.to_builtins(event),
    }
