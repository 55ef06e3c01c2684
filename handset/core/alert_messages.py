"""Messages about alerts: what must reach the person. See :mod:`.wire`.

An alert is the edge's; the handset says whether it reached the ear, with evidence, and
whether the person acknowledged it. What it is about, only the edge knows.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

from handset.core.playout_messages import ItemCursor, Output
from handset.core.wire import Durable


@dataclass(frozen=True, slots=True)
class AlertSource:
    """Which plane says it, and the receipt that it goes by. Echoed, never interpreted."""

    plane: str
    receipt: str | None = None
    commitment: str | None = None
    command: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """``response_id``: the response on ``aud`` that voices it; none for a silent one, which
    the lamp and a tone show. The same (id, attempt) again changes nothing; a higher attempt
    replaces a lower one. ``expires_in_ms`` counts from its arrival."""

    TYPE: ClassVar[str] = "alert"
    alert_id: str
    attempt: int
    delivery: Literal["interrupt", "when_idle", "silent"]
    source: AlertSource
    response_id: str | None = None
    acknowledge: bool = False
    expires_in_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertWithdraw:
    TYPE: ClassVar[str] = "alert.withdraw"
    alert_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertDelivered(Durable):
    """Every item of it was played to its end where it could be heard (``played``), or a
    silent one was shown (``shown``). ``plays``: how often it was begun; each time has
    receipts of its own."""

    TYPE: ClassVar[str] = "alert.delivered"
    alert_id: str
    attempt: int
    source: AlertSource
    how: Literal["played", "shown"]
    plays: int
    items: list[ItemCursor] = field(default_factory=list)
    output: Output | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertAcknowledged(Durable):
    """The person pressed the button for it, after it was delivered."""

    TYPE: ClassVar[str] = "alert.acknowledged"
    alert_id: str
    attempt: int
    source: AlertSource
    by: str
    at_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertUndelivered(Durable):
    """It ended without what it asked for: the edge still owes it to somebody.
    ``delivered``: it was played, and only the acknowledgement is missing."""

    TYPE: ClassVar[str] = "alert.undelivered"
    alert_id: str
    attempt: int
    source: AlertSource
    reason: Literal["expired", "withdrawn", "session_end", "incomplete"]
    plays: int
    delivered: bool
