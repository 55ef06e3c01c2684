"""What the headset is told, and what it asks for. Nouns of fact, and verbs.

``Headset.handle(event, now) -> list[Effect]``. Effects are carried out in order, each
before the next event is given; ``Decode`` and ``EndItem`` are answered with
``AudioQueued`` at once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from handset.core.facts import Answer, Segment, Snapshot
from handset.core.keys import Key
from handset.core.lamp import Pattern
from handset.core.messages import (
    Durable,
    Estimate,
    FromEdge,
    FromHandset,
    Resume,
    Span,
)
from handset.core.notices import Notice, Part
from handset.core.packets import Packet
from handset.core.segments import DeviceTiming

Task = Literal["pair", "self_test"]

# ---- events -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class KeyLevel:
    """A contact of a control changed. ``sample``: its capture position, with bounds; None
    without a microphone."""

    control: str
    key: Key
    down: bool
    at_ns: int
    sample: Estimate | None = None


@dataclass(frozen=True, slots=True)
class ControlGone:
    """A control is gone (unplugged, dead). It commits nothing."""

    control: str
    at_ns: int
    reason: str


@dataclass(frozen=True, slots=True)
class ControlThere:
    """A control is there, for the first time or again, with these keys down."""

    control: str
    at_ns: int
    down: frozenset[Key] = frozenset()


@dataclass(frozen=True, slots=True)
class ControlTold:
    """Anything else a control says of itself: ``battery``, ``docked``, ``problem``."""

    control: str
    name: str
    value: int | str


@dataclass(frozen=True, slots=True)
class Typed:
    """The person typed a turn."""

    text: str


@dataclass(frozen=True, slots=True)
class VoiceSuspected:
    """It may be speech. ``sample``: where the suspicion arose."""

    at_ns: int


@dataclass(frozen=True, slots=True)
class VoiceConfirmed:
    """It is speech; ``onset``: where it began, never later than its first sound."""

    at_ns: int
    onset: Estimate


@dataclass(frozen=True, slots=True)
class VoiceDismissed:
    at_ns: int


@dataclass(frozen=True, slots=True)
class VoiceEnded:
    """Silence, for as long as the settings say; ``last``: the last sample of speech."""

    at_ns: int
    last: Estimate


@dataclass(frozen=True, slots=True)
class Listened:
    """The detector looked at what was captured of the open turn."""

    at_ns: int
    spoken: bool


@dataclass(frozen=True, slots=True)
class NoticePlayed:
    """A part of a notice was played; in the capture it lies within ``span``."""

    name: str
    span: Span


@dataclass(frozen=True, slots=True)
class NoticeDone:
    """All that was played of notices has left the lane; not told after a flush."""


@dataclass(frozen=True, slots=True)
class TaskDone:
    task: Task
    well: bool


@dataclass(frozen=True, slots=True)
class Condition:
    """The machine's own state: ``low_battery``, ``undervoltage``, ``too_hot``."""

    name: str
    present: bool


@dataclass(frozen=True, slots=True)
class CaptureReached:
    """The microphone's timeline is known up to ``position`` (48 kHz samples)."""

    position: int


@dataclass(frozen=True, slots=True)
class PlayoutSeen:
    """One look at the queue: see :meth:`handset.core.ledger.Ledger.update`."""

    snapshot: Snapshot
    answers: tuple[Answer, ...] = ()
    segments: tuple[Segment, ...] = ()


@dataclass(frozen=True, slots=True)
class AudioQueued:
    """``frames`` of the item were written to the queue; ``samples`` stand for them."""

    item_id: str
    frames: int
    samples: int


@dataclass(frozen=True, slots=True)
class ItemQueued:
    """Everything of the item has been written: it is ``samples`` long."""

    item_id: str
    samples: int


@dataclass(frozen=True, slots=True)
class AudioFenced:
    """Decoded audio of a stopped item was thrown away before the queue took it."""

    item_id: str
    samples: int


@dataclass(frozen=True, slots=True)
class DeviceLost:
    """The output device is gone; ``frames`` handed frames may not have sounded."""

    frames: int
    reason: str


@dataclass(frozen=True, slots=True)
class DeviceReady:
    """An output device is open. ``first_frame``: where its queue's counts begin."""

    timing: DeviceTiming
    route: str
    first_frame: int = 0


@dataclass(frozen=True, slots=True)
class LinkOpened:
    epoch: int


@dataclass(frozen=True, slots=True)
class LinkClosed:
    epoch: int
    reason: str
    permanent: bool = False
    """Trying again with the same settings can't help (credential, fingerprint)."""


@dataclass(frozen=True, slots=True)
class EdgeSaid:
    epoch: int
    message: FromEdge


@dataclass(frozen=True, slots=True)
class EdgeAudio:
    epoch: int
    packet: Packet


@dataclass(frozen=True, slots=True)
class EdgeNonsense:
    """Something arrived that is no message. Counted and answered, and no more."""

    epoch: int
    what: str
    kind: str = "malformed"


@dataclass(frozen=True, slots=True)
class MicMapped:
    """Where this epoch's RTP timestamps lie on the capture timeline."""

    epoch: int
    ssrc: int
    rtp_ts: int
    capture_sample: int
    lookahead: int


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed."""


@dataclass(frozen=True, slots=True)
class Stop:
    """The service is asked to end."""

    cause: str


Event = (
    KeyLevel
    | ControlGone
    | ControlThere
    | ControlTold
    | Typed
    | VoiceSuspected
    | VoiceConfirmed
    | VoiceDismissed
    | VoiceEnded
    | Listened
    | NoticePlayed
    | NoticeDone
    | TaskDone
    | Condition
    | CaptureReached
    | PlayoutSeen
    | AudioQueued
    | ItemQueued
    | AudioFenced
    | DeviceLost
    | DeviceReady
    | LinkOpened
    | LinkClosed
    | EdgeSaid
    | EdgeAudio
    | EdgeNonsense
    | MicMapped
    | Tick
    | Stop
)

# ---- effects ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OpenLink:
    epoch: int
    resume: Resume | None = None


@dataclass(frozen=True, slots=True)
class CloseLink:
    epoch: int
    reason: str


@dataclass(frozen=True, slots=True)
class Send:
    """One message on ``ctl``, or on ``tick``."""

    message: FromHandset
    tick: bool = False


@dataclass(frozen=True, slots=True)
class Keep:
    """Durable events, one transaction: journal, then store. They are sent as well."""

    events: tuple[Durable, ...]


@dataclass(frozen=True, slots=True)
class Settle:
    """Everything of ``outbox_id`` up to ``seq`` is acknowledged, and ``ids`` above it."""

    outbox_id: str
    seq: int
    ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Remember:
    """A small fact for after a restart (the turn counter, the clear counter)."""

    key: str
    value: str


@dataclass(frozen=True, slots=True)
class Log:
    """One journal record: what the ledger was told, for a replay after a crash."""

    record: dict[str, object]


@dataclass(frozen=True, slots=True)
class ResetLog:
    """Nothing in the journal is needed any more, once all that was kept is stored."""


@dataclass(frozen=True, slots=True)
class ClearPlayout:
    """Ask the queue to clear; it must give this number."""

    request: int


@dataclass(frozen=True, slots=True)
class HoldPlayout:
    """Pause the speech lane at the next block, or play it at reduced gain. It replaces an
    earlier hold."""

    duck: bool = False


@dataclass(frozen=True, slots=True)
class ResumePlayout:
    """The speech lane goes on at the next sample."""


@dataclass(frozen=True, slots=True)
class SetVolume:
    """``gain`` 0.0 to 1.0, of everything that is played."""

    gain: float


@dataclass(frozen=True, slots=True)
class MuteMicrophone:
    """From the next block on the capture is zeros, or the microphone again."""

    muted: bool


@dataclass(frozen=True, slots=True)
class PlayNotice:
    """Play one of the closed set of tones and prompts into the lane, which is dry."""

    notice: Notice
    part: Part


@dataclass(frozen=True, slots=True)
class FlushNotices:
    """What is queued of notices is dropped."""


@dataclass(frozen=True, slots=True)
class ShowLamp:
    pattern: Pattern


@dataclass(frozen=True, slots=True)
class RunTask:
    """A person asked for it, by gesture; ``TaskDone`` follows."""

    task: Task


@dataclass(frozen=True, slots=True)
class Park:
    """Durable events without a session yet: journal them; they are kept when there is one."""

    events: tuple[Durable, ...]


@dataclass(frozen=True, slots=True)
class OpenDecoder:
    item_id: str
    rate: int
    pre_skip: int


@dataclass(frozen=True, slots=True)
class Decode:
    item_id: str
    packets: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class EndItem:
    """No more packets: the item is ``samples`` long."""

    item_id: str
    samples: int


@dataclass(frozen=True, slots=True)
class DropDecoders:
    """These items are stopped: forget decoders and what waits for room in the queue."""

    item_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class BeginTurnAudio:
    """Encode and send the microphone from capture sample ``start`` on."""

    turn: int
    start: int


@dataclass(frozen=True, slots=True)
class EndTurnAudio:
    """The turn's audio ends before capture sample ``end``."""

    turn: int
    end: int


@dataclass(frozen=True, slots=True)
class ResendTurnAudio:
    turn: int
    ranges: tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class ForgetTurnAudio:
    turn: int


@dataclass(frozen=True, slots=True)
class Observe:
    """The one event record: what happened, with counts and clocks, for every view."""

    kind: str
    at_ns: int
    facts: dict[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Exit:
    """All is done that can be done."""

    cause: str


Effect = (
    OpenLink
    | CloseLink
    | Send
    | Keep
    | Settle
    | Remember
    | Log
    | ResetLog
    | ClearPlayout
    | HoldPlayout
    | ResumePlayout
    | SetVolume
    | MuteMicrophone
    | PlayNotice
    | FlushNotices
    | ShowLamp
    | RunTask
    | Park
    | OpenDecoder
    | Decode
    | EndItem
    | DropDecoders
    | BeginTurnAudio
    | EndTurnAudio
    | ResendTurnAudio
    | ForgetTurnAudio
    | Observe
    | Exit
)
