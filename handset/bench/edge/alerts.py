"""Alerts: offered until they are delivered, and acknowledged where asked for.

Rules.

1. An edge that has something a person must hear keeps it open until the handset has said,
   with evidence, that it was played. It is offered again, as another attempt, on every new
   connection, and in the next session when the one it was made in is over.
2. ``expires_in_ms`` counts from the first offer. One that has expired is not offered again,
   and what becomes of it is still the handset's to say; so it is with one that is withdrawn.
3. An older attempt's delivery counts: it was played. What another attempt says of an alert
   that has its end already changes nothing, and is counted.
4. What a handset could not deliver is still owed: ``undelivered`` says so to whoever made it.
5. A report that can't be true is refused: another source, an attempt that was never made,
   shown though it has a voice, an acknowledgement that was not asked for or came before the
   delivery, one attempt with two ends.

A handset plays a cut alert again by itself, under names of its own (``item~2``): they are
receipts of the same words (:func:`original`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal, get_args

from handset.core.messages import (
    Alert,
    AlertAcknowledged,
    AlertDelivered,
    AlertSource,
    AlertUndelivered,
    ItemCursor,
)

from .outboxes import Refusal

_REPLAY = re.compile(r"~([2-9]|[1-9]\d{1,5})$")
Delivery = Literal["interrupt", "when_idle", "silent"]
Report = AlertDelivered | AlertAcknowledged | AlertUndelivered
OWED = "undelivered: session_end"


def original(name: str) -> str:
    """The item, or response, that a replay is a replay of; else the name itself."""
    return _REPLAY.sub("", name)


def is_replay(name: str) -> bool:
    return _REPLAY.search(name) is not None


@dataclass(slots=True)
class OpenAlert:
    """``clips`` voice it; a silent one has none. ``ValueError`` when the fields don't agree.

    ``state`` is ``offered``, ``delivered``, ``acknowledged`` or ``undelivered: <reason>``."""

    alert_id: str
    clips: tuple[str, ...]
    delivery: Delivery
    acknowledge: bool
    expires_in_ms: int | None
    source: AlertSource
    attempt: int = 0
    state: str = "offered"
    withdrawn: bool = False
    plays: int = 0
    evidence: list[ItemCursor] = field(default_factory=list)
    responses: list[str] = field(default_factory=list)
    """What voices it, by attempt."""
    repeats: int = 0
    """Reports that changed nothing."""
    _first_ns: int | None = None
    _delivered: set[int] = field(default_factory=set)
    _over: set[int] = field(default_factory=set)
    """Attempts that were delivered, and that have their end."""

    def __post_init__(self) -> None:
        if self.delivery not in get_args(Delivery):
            raise ValueError(f"delivery {self.delivery!r} is none of {get_args(Delivery)}")
        if (self.delivery == "silent") == bool(self.clips):
            raise ValueError(f"alert {self.alert_id}: a silent one has no clips, any other has")
        if self.expires_in_ms is not None and self.expires_in_ms <= 0:
            raise ValueError(f"alert {self.alert_id}: expires_in_ms is {self.expires_in_ms}")

    @property
    def is_open(self) -> bool:
        """Something is missing that an offer could bring."""
        return self.state in ("offered", OWED) or (self.state == "delivered" and self.acknowledge)

    def left_ms(self, now_ns: int) -> int | None:
        """Of its life, 0 when it is over; null for one without an end."""
        if self.expires_in_ms is None or self._first_ns is None:
            return self.expires_in_ms
        return max(0, self.expires_in_ms - (now_ns - self._first_ns) // 1_000_000)

    def offer(self, response_id: str | None, now_ns: int) -> Alert:
        """The next attempt."""
        left_ms = self.left_ms(now_ns)
        if self._first_ns is None:
            self._first_ns = now_ns
        if response_id is not None:
            self.responses.append(response_id)
        if self.state == OWED:
            self.state = "offered"
        self.attempt += 1
        return Alert(
            alert_id=self.alert_id,
            attempt=self.attempt,
            delivery=self.delivery,
            source=self.source,
            response_id=response_id,
            acknowledge=self.acknowledge,
            expires_in_ms=left_ms,
        )

    # ---- what the handset says; null, or why it can't be so (nothing was changed then) -------

    def delivered(self, event: AlertDelivered) -> Refusal | None:
        if event.attempt in self._delivered | self._over:
            return self._refused(event, "has its end already")
        if (event.how == "shown") == bool(self.clips):
            return self._refused(event, f"can't have been {event.how}")
        self._delivered.add(event.attempt)
        if not self.acknowledge:
            self._over.add(event.attempt)
        if self.state in ("delivered", "acknowledged"):
            self.repeats += 1
            return None
        self.state, self.plays, self.evidence = "delivered", event.plays, list(event.items)
        return None

    def acknowledged(self, event: AlertAcknowledged) -> Refusal | None:
        if not self.acknowledge:
            return self._refused(event, "was not to be acknowledged")
        if self.state not in ("delivered", "acknowledged"):
            return self._refused(event, f"was not delivered; it is {self.state}")
        if event.attempt in self._over:
            return self._refused(event, "has its end already")
        self._over.add(event.attempt)
        self.repeats += self.state == "acknowledged"
        self.state = "acknowledged"
        return None

    def undelivered(self, event: AlertUndelivered) -> Refusal | None:
        if event.attempt in self._over:
            return self._refused(event, "has its end already")
        if event.delivered and not self._delivered:
            return self._refused(event, "was never said to be delivered")
        if not event.delivered and event.attempt in self._delivered:
            return self._refused(event, "was said to be delivered")
        self._over.add(event.attempt)
        if self.is_open:
            self.state = f"undelivered: {event.reason}"
        else:
            self.repeats += 1
        return None

    def _refused(self, event: Report, why: str) -> Refusal:
        return Refusal("alert_state", f"alert {self.alert_id}, attempt {event.attempt}: {why}")


@dataclass(slots=True)
class Alerts:
    """By id, in the order in which they were made."""

    known: dict[str, OpenAlert] = field(default_factory=dict)

    def open(self) -> list[OpenAlert]:
        return [alert for alert in self.known.values() if alert.is_open]

    def find(self, event: Report) -> OpenAlert | Refusal:
        """The alert that a report is about, where that can be."""
        alert = self.known.get(event.alert_id)
        if alert is None:
            return Refusal("unknown_alert", f"there is no alert {event.alert_id}")
        if not 1 <= event.attempt <= alert.attempt:
            return Refusal("unknown_alert", f"{event.alert_id} has no attempt {event.attempt}")
        if event.source != alert.source:
            return Refusal("inconsistent", f"alert {event.alert_id} is not of {event.source}")
        return alert

    def delivered(self, event: AlertDelivered) -> Refusal | None:
        alert = self.find(event)
        return alert if isinstance(alert, Refusal) else alert.delivered(event)

    def acknowledged(self, event: AlertAcknowledged) -> Refusal | None:
        alert = self.find(event)
        return alert if isinstance(alert, Refusal) else alert.acknowledged(event)

    def undelivered(self, event: AlertUndelivered) -> Refusal | None:
        alert = self.find(event)
        return alert if isinstance(alert, Refusal) else alert.undelivered(event)
