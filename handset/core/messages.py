"""The messages between handset and edge, protocol version 1.

Names and fields follow the OpenAI Realtime events wherever there is one, so that an
edge can forward them; ours sit beside them. Every class in :data:`FROM_HANDSET` and
:data:`FROM_EDGE` is one JSON object on the ``ctl`` or ``tick`` channel:
``{"type": TYPE, ...fields}``. The binary messages of the ``aud`` channel are in
:mod:`handset.core.packets`.

Every acknowledgement and every event of the handset speaks of one domain, and only
of it: ``playout`` (output stopped reaching the ear), ``turn`` (the person's floor),
``alert`` (whether one was played and acknowledged), ``session``. It never says anything
about a tool or an effect.
"""

from __future__ import annotations

from handset.core.alert_messages import (
    Alert,
    AlertAcknowledged,
    AlertDelivered,
    AlertSource,
    AlertUndelivered,
    AlertWithdraw,
)
from handset.core.playout_messages import (
    AudioWanted,
    Cause,
    ItemCursor,
    Output,
    OutputClear,
    PlayoutCleared,
    PlayoutProgress,
    PlayoutReceipt,
    ReceiptState,
    ResponseCancel,
    ResponseCreated,
    ResponseDone,
    Truncate,
)
from handset.core.session_messages import (
    ClockPing,
    ClockPong,
    Disclosure,
    Ended,
    EventAck,
    EventRejected,
    GoAway,
    Hello,
    Policy,
    Refused,
    Resume,
    ResumeItem,
    Shutdown,
    WearerConsent,
    Welcome,
)
from handset.core.turn_messages import (
    AbandonReason,
    CaptureLost,
    CaptureMap,
    CaptureMissing,
    CaptureReceived,
    Commit,
    CommitBy,
    InputText,
    NoticeMark,
    TurnAbandoned,
    TurnHeld,
    TurnStarted,
    TypedTurn,
    UserMessage,
)
from handset.core.wire import (
    PROTOCOL_MAX,
    PROTOCOL_MIN,
    CommitSource,
    Domain,
    Durable,
    Estimate,
    Fault,
    Instant,
    Span,
    Versions,
)

__all__ = [
    "DURABLE",
    "FROM_EDGE",
    "FROM_HANDSET",
    "PROTOCOL_MAX",
    "PROTOCOL_MIN",
    "AbandonReason",
    "Alert",
    "AlertAcknowledged",
    "AlertDelivered",
    "AlertSource",
    "AlertUndelivered",
    "AlertWithdraw",
    "AudioWanted",
    "CaptureLost",
    "CaptureMap",
    "CaptureMissing",
    "CaptureReceived",
    "Cause",
    "ClockPing",
    "ClockPong",
    "Commit",
    "CommitBy",
    "CommitSource",
    "Disclosure",
    "Domain",
    "Durable",
    "Ended",
    "Estimate",
    "EventAck",
    "EventRejected",
    "Fault",
    "FromEdge",
    "FromHandset",
    "GoAway",
    "Hello",
    "InputText",
    "Instant",
    "ItemCursor",
    "NoticeMark",
    "Output",
    "OutputClear",
    "PlayoutCleared",
    "PlayoutProgress",
    "PlayoutReceipt",
    "Policy",
    "ReceiptState",
    "Refused",
    "ResponseCancel",
    "ResponseCreated",
    "ResponseDone",
    "Resume",
    "ResumeItem",
    "Shutdown",
    "Span",
    "Truncate",
    "TurnAbandoned",
    "TurnHeld",
    "TurnStarted",
    "TypedTurn",
    "UserMessage",
    "Versions",
    "WearerConsent",
    "Welcome",
]

DURABLE: tuple[type[Durable], ...] = (
    TurnStarted,
    Commit,
    TurnAbandoned,
    TypedTurn,
    PlayoutCleared,
    Truncate,
    PlayoutReceipt,
    CaptureLost,
    AlertDelivered,
    AlertAcknowledged,
    AlertUndelivered,
    WearerConsent,
    Shutdown,
)

FromHandset = (
    Durable
    | Hello
    | ResponseCancel
    | TurnHeld
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
    | Policy
    | ResponseCreated
    | ResponseDone
    | OutputClear
    | Alert
    | AlertWithdraw
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
    TurnHeld,
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
    Policy,
    ResponseCreated,
    ResponseDone,
    OutputClear,
    Alert,
    AlertWithdraw,
    EventAck,
    EventRejected,
    CaptureMissing,
    CaptureReceived,
    ClockPong,
    Fault,
)
