"""Messages about sessions, connections, clocks and delivery. See :mod:`.wire`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

from handset.core.wire import Durable, Versions


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


@dataclass(frozen=True, slots=True)
class Disclosure:
    """What the person has to be told before the first reply. ``text`` is the edge's own and
    is voiced by the edge, as the response ``response_id`` on ``aud``; without one the
    handset plays its own prompt."""

    id: str
    text: str = ""
    response_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Welcome:
    """The session is open, on this connection. ``turn_detection``: ``none``, the handset
    decides, or ``server``, which this handset refuses where it detects turns itself.
    ``require_manual``: a commit that silence decided is not wanted. ``require_consent``:
    nothing is captured before the wearer has agreed by a gesture."""

    TYPE: ClassVar[str] = "session.welcome"
    session: str
    epoch: int
    protocol: int
    resume_token: str = ""
    resumed: bool = False
    connection_ms_left: int | None = None
    session_ms_left: int | None = None
    resume_valid_ms: int | None = None
    turn_detection: Literal["none", "server"] = "none"
    require_manual: bool = False
    require_consent: bool = False
    disclosure: Disclosure | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """``scope``: for the rest of the session, or for the next turn that is committed."""

    TYPE: ClassVar[str] = "session.policy"
    require_manual: bool
    scope: Literal["session", "next_turn"] = "session"


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
class WearerConsent(Durable):
    """Who wears the headset is told, and agrees, once per wearer's session. ``capture``: the
    microphone may be used; ``recording``: audio may be kept, which is never assumed;
    ``disclosed``: the person was played, to its end, that the counterpart is an AI system.
    ``disclosure``: whose text it was, the edge's id or ``shipped``."""

    TYPE: ClassVar[str] = "wearer.consent"
    wearer: str
    capture: bool
    recording: bool
    disclosed: bool
    disclosure: str
    by: Literal["talk", "acknowledge", "disclosure", "new_wearer", "policy"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shutdown(Durable):
    """The handset ends the session of its own will; last cursors went before."""

    TYPE: ClassVar[str] = "shutdown"
    cause: str


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
class ClockPing:
    TYPE: ClassVar[str] = "clock.ping"
    id: int
    sent_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockPong:
    TYPE: ClassVar[str] = "clock.pong"
    id: int
    sent_ns: int
    edge_received_ns: int
    edge_sent_ns: int
