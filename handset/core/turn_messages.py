"""Messages about the person's turns and what was captured of them. See :mod:`.wire`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

from handset.core.wire import CommitSource, Durable, Estimate, Span

AbandonReason = Literal[
    "too_short", "cancelled", "control_lost", "stuck_key", "expired", "no_speech", "restart"
]
"""``expired``: held back or kept, and no gesture came. ``no_speech``: an automatic turn in
which nothing was said."""


@dataclass(frozen=True, slots=True)
class CommitBy:
    """What committed a turn. ``evidence`` is small facts, e.g. how long a key was held."""

    source: CommitSource
    evidence: dict[str, int | str | bool] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NoticeMark:
    """One of the handset's own tones or prompts, and where it lies in the capture: never
    outside ``span``. An edge subtracts it, or looks away from it."""

    name: str
    span: Span


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
    the turn had not been answered yet. ``notices``: what of the handset's own voice may be
    in the captured range."""

    TYPE: ClassVar[str] = "input_audio_buffer.commit"
    commit: CommitBy
    capture: Span
    cursor: Literal["known", "pending"] = "known"
    notices: list[NoticeMark] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnAbandoned(Durable):
    """The turn ended without a commit. ``stopped``: responses its start had stopped."""

    TYPE: ClassVar[str] = "turn.abandoned"
    reason: AbandonReason
    stopped: list[str] = field(default_factory=list)
    live: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class InputText:
    text: str
    type: Literal["input_text"] = "input_text"


@dataclass(frozen=True, slots=True)
class UserMessage:
    """As in the realtime APIs."""

    id: str
    content: list[InputText]
    type: Literal["message"] = "message"
    role: Literal["user"] = "user"


@dataclass(frozen=True, slots=True, kw_only=True)
class TypedTurn(Durable):
    """A turn that was typed: start and commit in one, with the authority of a button."""

    TYPE: ClassVar[str] = "conversation.item.create"
    item: UserMessage
    commit: CommitBy
    cursor: Literal["known", "pending"] = "known"


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnHeld:
    """Silence ended an automatic turn where the edge wants a manual commit: it is held
    back, and the person was told. A gesture commits or discards it."""

    TYPE: ClassVar[str] = "turn.held"
    turn: int
    capture: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureLost(Durable):
    """Parts of a committed turn that can never be delivered: act on nothing of it."""

    TYPE: ClassVar[str] = "capture.lost"
    ranges: list[Span]


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
