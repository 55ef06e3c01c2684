"""What the handset's reports about alerts do to a session: checked first, then done."""

from __future__ import annotations

from handset.core import messages as m

from .alerts import OpenAlert, original
from .cursors import contradiction
from .outboxes import Refusal
from .session import Session


def delivered(session: Session, event: m.AlertDelivered) -> Refusal | None:
    """A voiced one has to come with the cursor of every item of one time it was played."""
    alert = session.alerts.find(event)
    if isinstance(alert, Refusal):
        return alert
    if event.how == "played" and (refusal := _not_whole(session, alert, event)):
        return refusal
    if refusal := alert.delivered(event):
        return refusal
    for cursor in event.items:
        session.history.heard(original(cursor.item_id))
    return None


def acknowledged(session: Session, event: m.AlertAcknowledged) -> Refusal | None:
    return session.alerts.acknowledged(event)


def undelivered(session: Session, event: m.AlertUndelivered) -> Refusal | None:
    return session.alerts.undelivered(event)


def _not_whole(session: Session, alert: OpenAlert, event: m.AlertDelivered) -> Refusal | None:
    if event.plays < 1 or (event.output is not None and event.output.muted):
        return Refusal("not_all", f"alert {alert.alert_id}: played {event.plays} times, or muted")
    told = {original(cursor.item_id) for cursor in event.items}
    voiced = [
        {item.item_id for item in session.history.of_response(response_id)}
        for response_id in alert.responses
    ]
    if not told or told not in voiced:
        return Refusal("not_all", f"alert {alert.alert_id} was not all in {sorted(told)}")
    for cursor in event.items:
        if refusal := contradiction(cursor):
            return refusal
        item = session.history.find(original(cursor.item_id))
        assert item is not None
        if cursor.state != "played" or not item.ended or cursor.played != item.length:
            return Refusal(
                "not_all",
                f"alert {alert.alert_id}: played {cursor.played} of {item.length} samples of "
                f"item {cursor.item_id}, {cursor.state}",
            )
    return None
