"""The messages between handset and edge, protocol version 1.

Names and fields follow the OpenAI Realtime events wherever there is one, so that an
edge can forward them; ours sit beside them. Every class here is one JSON object on
the ``ctl`` or ``tick`` channel: ``{"type": TYPE, ...fields}``. The binary messages of
the ``aud`` channel are in :mod:`handset.core.packets`.

Units. Item positions are samples at the item's own rate. Capture positions are
samples at 48 kHz at the encoder's input, one timeline across connections, gaps
included. ``*_ns`` are nanoseconds of the handset's CLOCK_MONOTONIC unless the name
says edge. ``*_ms`` are milliseconds.

Every acknowledgement and every event of the handset speaks of one domain, and only
of it: ``playout`` (output stopped reaching the ear), ``turn`` (the person's floor),
``session``. It never says anything about a tool or an effect.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

PROTOCOL_MIN = 1
PROTOCOL_MAX = 1

Domain = Literal["playout", "turn", "session"]
CommitSource = Literal["ptt", "toggle", "latch", "typed", "vad"]
ReceiptState = Literal["queued", "played", "cleared", "unfinished"]


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


# ---- durable events of the handset -------------------------------------------------


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


@dataclass(frozen=True, slots=True)
class CommitBy:
    """What committed a turn. ``evidence`` is small facts, e.g. how long a key was held."""

    source: CommitSource
    evidence: dict[str, int | str | bool] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnStarted(Durable):
    """The person has the floor. ``capture_start`` includes ``pre_roll`` samples."""

    TYPE: ClassVar[str] = "turn.started"
    source: CommitSource
    capture_start: int
    pre_roll: int
    gesture: Estimate | None = None
    """Capture position of the gesture itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit(Durable):
    """The turn is the person's word. ``cursor`` is ``pending`` when the clear that opened
    the turn had not been answered yet."""

    TYPE: ClassVar[str] = "input_audio_buffer.commit"
    commit: CommitBy
    capture: Span
    cursor: Literal["known", "pending"] = "known"


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnAbandoned(Durable):
    """The turn ended without a commit. ``stopped``: responses its start had stopped."""

    TYPE: ClassVar[str] = "turn.abandoned"
    reason: Literal["too_short", "cancelled", "control_lost", "stuck_key", "restart"]
    stopped: list[str] = field(default_factory=list)
    live: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Output:
    """Where the item went while it was handed to the device."""

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
        "gesture", "remote", "device_lost", "device_restarted", "session_end", "shutdown", "restart"
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
class CaptureLost(Durable):
    """Parts of a committed turn that can never be delivered: act on nothing of it."""

    TYPE: ClassVar[str] = "capture.lost"
    ranges: list[Span]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shutdown(Durable):
    """The handset ends the session of its own will; last cursors went before."""

    TYPE: ClassVar[str] = "shutdown"
    cause: str


# ---- other messages of the handset ---------------------------------------------------


@dataclass(frozen=True, slots=True)
class ResumeItem:
    item_id: str
    next_packet: int


@dataclass(frozen=True, slots=True)
class Resume:
    session: str
    token: str
    items: list[ResumeItem] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    """First message on ``ctl``. What a crash left behind is in the outbox already;
    ``unacknowledged`` says how many durable events follow before audio is accepted."""

    TYPE: ClassVar[str] = "session.hello"
    handset_id: str
    label: str
    software: str
    protocol: Versions
    boot_id: str
    epoch: int
    outbox_id: str
    unacknowledged: int
    capabilities: list[str]
    output_route: str
    output_rate: int
    resume: Resume | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseCancel:
    TYPE: ClassVar[str] = "response.cancel"
    response_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureMap:
    """How RTP timestamps lie on the capture timeline in this epoch: RTP time ``rtp_ts``
    is capture sample ``capture_sample``. ``lookahead``: samples that the decoder puts out
    before the first of a turn."""

    TYPE: ClassVar[str] = "capture.map"
    epoch: int
    ssrc: int
    rtp_ts: int
    capture_sample: int
    lookahead: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayoutProgress:
    """On ``tick``: a bound for the edge when the handset vanishes, and its credit."""

    TYPE: ClassVar[str] = "playout.progress"
    item_id: str | None
    handed: int
    queued_ms: int
    room_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockPing:
    TYPE: ClassVar[str] = "clock.ping"
    id: int
    sent_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AudioWanted:
    """A hole in an item's packets, or an item that must go on after a reconnect."""

    TYPE: ClassVar[str] = "output_audio.wanted"
    item_id: str
    next_packet: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Answer to a message that could not be used; it cost nothing else."""

    TYPE: ClassVar[str] = "error"
    code: str
    message: str


# ---- messages of the edge --------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Welcome:
    """The session is open, on this connection."""

    TYPE: ClassVar[str] = "session.welcome"
    session: str
    epoch: int
    protocol: int
    resume_token: str = ""
    resumed: bool = False
    connection_ms_left: int | None = None
    session_ms_left: int | None = None
    resume_valid_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """No session: ``reason`` in words, and the versions the edge speaks."""

    TYPE: ClassVar[str] = "session.refused"
    code: Literal["protocol", "full", "audio_path", "forgotten", "policy"]
    reason: str
    protocol: Versions | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GoAway:
    TYPE: ClassVar[str] = "session.go_away"
    time_left_ms: int
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    TYPE: ClassVar[str] = "session.ended"
    reason: str


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
class OutputClear:
    """Remote clear of one response."""

    TYPE: ClassVar[str] = "output_audio_buffer.clear"
    response_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EventAck:
    """``seq``: the highest contiguous one settled of ``outbox_id``; ``applied``: events
    above it that have taken effect already."""

    TYPE: ClassVar[str] = "event.ack"
    outbox_id: str
    seq: int
    applied: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRejected:
    """Settles the event without effect. ``limit_ms``: the length the edge has, when that
    is why a truncate was refused."""

    TYPE: ClassVar[str] = "event.rejected"
    outbox_id: str
    seq: int
    event_id: str
    code: str
    message: str = ""
    limit_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureMissing:
    TYPE: ClassVar[str] = "capture.missing"
    turn: int
    ranges: list[Span]


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureReceived:
    """The edge has all of the turn, by sample count."""

    TYPE: ClassVar[str] = "capture.received"
    turn: int
    samples: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockPong:
    TYPE: ClassVar[str] = "clock.pong"
    id: int
    sent_ns: int
    edge_received_ns: int
    edge_sent_ns: int


DURABLE: tuple[type[Durable], ...] = (
    TurnStarted,
    Commit,
    TurnAbandoned,
    PlayoutCleared,
    Truncate,
    PlayoutReceipt,
    CaptureLost,
    Shutdown,
)

FromHandset = (
    Durable
    | Hello
    | ResponseCancel
    | CaptureMap
    | PlayoutProgress
    | ClockPing
    | AudioWanted
    | Fault
)

FromEdge = (
    Welcome
    | Refused
    | GoAway
    | Ended
    | ResponseCreated
    | ResponseDone
    | OutputClear
    | EventAck
    | EventRejected
    | CaptureMissing
    | CaptureReceived
    | ClockPong
    | Fault
)

FROM_HANDSET: tuple[type, ...] = (
    *DURABLE,
    Hello,
    ResponseCancel,
    CaptureMap,
    PlayoutProgress,
    ClockPing,
    AudioWanted,
    Fault,
)

FROM_EDGE: tuple[type, ...] = (
    Welcome,
    Refused,
    GoAway,
    Ended,
    ResponseCreated,
    ResponseDone,
    OutputClear,
    EventAck,
    EventRejected,
    CaptureMissing,
    CaptureReceived,
    ClockPong,
    Fault,
)
