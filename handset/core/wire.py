"""What the messages of both directions are made of.

Units. Item positions are samples at the item's own rate. Capture positions are samples at
48 kHz at the encoder's input, one timeline across connections, gaps included. ``*_ns`` are
nanoseconds of the handset's CLOCK_MONOTONIC unless the name says edge. ``*_ms`` are
milliseconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

PROTOCOL_MIN = 1
PROTOCOL_MAX = 1

Domain = Literal["playout", "turn", "session", "alert"]
CommitSource = Literal["ptt", "toggle", "latch", "typed", "vad"]


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value with its bounds, ``lo <= est <= hi``, in the unit of the field it is in."""

    est: int
    lo: int
    hi: int


@dataclass(frozen=True, slots=True)
class Instant:
    """When something happened, on the handset's monotonic clock.

    ``edge_ns`` is the same instant on the edge's clock and ``bound_ns`` how far off it
    may be; both are null until the clocks have been compared.
    """

    mono_ns: int
    boot_id: str
    edge_ns: int | None = None
    bound_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Span:
    """Half-open range ``[start, end)`` of capture positions."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Versions:
    """Protocol versions spoken, both ends included."""

    min: int
    max: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Durable:
    """Envelope of an event that is kept until the edge has acknowledged it.

    ``event_id`` is derived from (session, item or turn, kind), so that the same fact,
    found again after a crash, is the same event. ``seq`` counts from 1 without holes
    within one ``outbox_id``. ``origin_epoch`` is the connection during which it
    happened, null when there was none; it is evidence, never a reason to drop it.
    """

    event_id: str
    session: str
    origin_epoch: int | None
    at: Instant
    domain: Domain
    turn: int | None = None
    response_id: str | None = None
    item_id: str | None = None
    outbox_id: str = ""
    seq: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Answer to a message that could not be used; it cost nothing else."""

    TYPE: ClassVar[str] = "error"
    code: str
    message: str
