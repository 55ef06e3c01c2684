"""Messages about what the person was played. See :mod:`.wire`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from handset.core.wire import Durable, Estimate

ReceiptState = Literal["queued", "played", "cleared", "unfinished"]


@dataclass(frozen=True, slots=True)
class Output:
    """Where the item went while it was handed to the device. ``gain``: the lowest volume, of
    1.0; ``muted``: it was turned to nothing at some time, and nothing was handed then."""

    gain: float
    muted: bool
    route: str
    changed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemCursor:
    """How much of one item the person was played. All positions in item samples.

    ``received = handed + dropped + queued`` at every consistent snapshot. ``played`` is
    the truncation point: exact, or a lower bound when ``exact`` is false. Played is not
    perceived: it says that the samples left, or will leave, the converter.
    """

    item_id: str
    response_id: str
    content_index: int
    rate: int
    state: Literal["open", "draining", "played", "cleared", "unfinished"]
    received: int
    handed: int
    dropped: int
    queued: int
    played: int
    exact: bool
    lost_max: int = 0
    faded: int = 0
    ducked: int = 0
    synthesized: int = 0
    fenced: int = 0
    """Samples that arrived after the item was closed; outside the identity."""
    audio_end_ms: int = 0
    """``played * 1000 // rate``."""
    at_request: Estimate | None = None
    silent_at_ns: Estimate | None = None
    output: Output | None = None


@dataclass(frozen=True, slots=True)
class Cause:
    """Why playout was cleared, and when that was asked for."""

    kind: Literal[
        "gesture",
        "typed",
        "voice",
        "alert",
        "remote",
        "device_lost",
        "device_restarted",
        "session_end",
        "shutdown",
        "restart",
    ]
    at_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayoutCleared(Durable):
    """One answered clear: the authority that its truncates and receipts refer to.

    It proves one thing: that from the cut on, output of these items stopped reaching
    the ear. It lists every response that was stopped and every item that was affected,
    also announced ones without audio.
    """

    TYPE: ClassVar[str] = "playout.cleared"
    request: int
    causes: list[Cause]
    responses: list[str]
    items: list[ItemCursor]
    cut_ns: int
    """When the first frame after the cut leaves the converter."""
    repeats: str | None = None
    """Event id of the clear that had stopped the response already."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Truncate(Durable):
    """History must hold no more of the item than this. Sent only for items of which
    something was received and not all was played. 0: remove the item."""

    TYPE: ClassVar[str] = "conversation.item.truncate"
    content_index: int
    audio_end_ms: int
    played: int
    exact: bool
    cleared: str
    supersedes: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayoutReceipt(Durable):
    """``queued`` once the first sample is accepted; then exactly one final state."""

    TYPE: ClassVar[str] = "playout.receipt"
    state: ReceiptState
    cursor: ItemCursor
    cleared: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayoutProgress:
    """On ``tick``: a bound for the edge when the handset vanishes, and its credit."""

    TYPE: ClassVar[str] = "playout.progress"
    item_id: str | None
    handed: int
    queued_ms: int
    room_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AudioWanted:
    """A hole in an item's packets, or an item that must go on after a reconnect."""

    TYPE: ClassVar[str] = "output_audio.wanted"
    item_id: str
    next_packet: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseCreated:
    """``turn``: the turn it answers. A speculative one is queued, never handed, until its
    turn is committed."""

    TYPE: ClassVar[str] = "response.created"
    response_id: str
    turn: int
    speculative: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseDone:
    TYPE: ClassVar[str] = "response.done"
    response_id: str
    status: str = "completed"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseCancel:
    TYPE: ClassVar[str] = "response.cancel"
    response_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputClear:
    """Remote clear of one response."""

    TYPE: ClassVar[str] = "output_audio_buffer.clear"
    response_id: str
