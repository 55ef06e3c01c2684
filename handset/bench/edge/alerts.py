"""Alerts of a session: offered until they are delivered, and acknowledged where asked for.

An edge that has something a person must hear keeps it open until the handset has said that
it was played, with evidence. It offers it again, as another attempt, on every connection; a
handset that has it already answers with what it knows. What a handset could not deliver is
still owed: ``undelivered`` says so to whoever made it.

A handset plays a cut alert again by itself, under names of its own (``item~2``): they are
receipts of the same words (:func:`original`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal

from handset.core.messages import (
    Alert,
    AlertAcknowledged,
    AlertDelivered,
    AlertSource,
    AlertUndelivered,
    ItemCursor,
)

_REPLAY = re.compile(r"~\d+$")
Delivery = Literal["interrupt", "when_idle", "silent"]


def original(name: str) -> str:
    """The item, or response, that a replay is a replay of; else the name itself."""
    return _REPLAY.sub("", name)


def is_replay(name: str) -> bool:
    return _REPLAY.search(name) is not None


@dataclass(slots=True)
class OpenAlert:
    alert_id: str
    clips: tuple[str, ...]
    delivery: Delivery
    acknowledge: bool
    expires_in_ms: int | None
    source: AlertSource
    attempt: int = 0
    state: str = "offered"
    plays: int = 0
    evidence: list[ItemCursor] = field(default_factory=list)

    @property
    def is_open(self) -> bool:
        waits = self.state == "delivered" and self.acknowledge
        return self.state == "offered" or waits

    def offer(self, response_id: str | None) -> Alert:
        """The next attempt."""
        self.attempt += 1
        return Alert(
            alert_id=self.alert_id,
            attempt=self.attempt,
            delivery=self.delivery,
            source=self.source,
            response_id=response_id,
            acknowledge=self.acknowledge,
            expires_in_ms=self.expires_in_ms,
        )


@dataclass(slots=True)
class Alerts:
    """By id, in the order in which they were made."""

    known: dict[str, OpenAlert] = field(default_factory=dict)

    def open(self) -> list[OpenAlert]:
        return [alert for alert in self.known.values() if alert.is_open]

    def delivered(self, event: AlertDelivered) -> str | None:
        """Null, or why it makes no sense. An older attempt counts as well: it was heard."""
        alert = self.known.get(event.alert_id)
        if alert is None:
            return f"there is no alert {event.alert_id}"
        if not 1 <= event.attempt <= alert.attempt:
            return f"alert {event.alert_id} has no attempt {event.attempt}"
        if event.how == "played" and any(cursor.state != "played" for cursor in event.items):
            return f"alert {event.alert_id}: an item of it was not played to its end"
        if alert.state == "offered":
            alert.state, alert.plays, alert.evidence = "delivered", event.plays, list(event.items)
        return None

    def acknowledged(self, event: AlertAcknowledged) -> str | None:
        alert = self.known.get(event.alert_id)
        if alert is None or alert.state not in ("delivered", "acknowledged"):
            return f"alert {event.alert_id} was not delivered"
        alert.state = "acknowledged"
        return None

    def undelivered(self, event: AlertUndelivered) -> str | None:
        alert = self.known.get(event.alert_id)
        if alert is None:
            return f"there is no alert {event.alert_id}"
        if alert.is_open:
            alert.state = f"undelivered: {event.reason}"
        return None
