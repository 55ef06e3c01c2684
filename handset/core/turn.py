"""The person's turn.

Rules:

1. A gesture takes the floor at once. The capture range begins ``pre_roll`` before it and
   ends ``post_roll`` after the gesture that ends it; no two turns share a sample.
2. Only a gesture commits a turn that a gesture began, or one that is held back. Time,
   faults and the edge never do: they warn, keep, and in the end abandon.
3. Under ``shortest`` of audio there is no commit: ``too_short``.
4. A lost control keeps the turn open and capturing. A new gesture takes it over; after
   ``lost_after`` without one it is abandoned (``control_lost``).
5. A key that is down without speech for ``no_speech``, or longer than ``longest``, is
   stuck: capture ends, the audio is kept, and the next gesture decides; after ``keep`` it
   is abandoned (``stuck_key``). Letting go of a stuck key is no gesture: it may have come
   loose. A new press commits what is kept if somebody spoke in it, and begins a turn.
6. An automatic turn is begun by confirmed speech and ended by silence. Where a manual
   commit is wanted the end is held back until a gesture, or ``keep`` has passed. A talk
   gesture makes any automatic turn a manual one.
7. Numbers rise by one per accepted start and are never used twice.

Who wins. A press during the post-roll commits the turn before it at the press and then
starts its own. A cancel during the post-roll wins over the commit. Whoever lets go at the
moment of ``longest`` is stuck only if the machine saw the time first.

Units: capture samples at 48 kHz. The table below is the machine; diagrams and the
exhaustive test are made from it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from handset.core.messages import AbandonReason, CommitBy, CommitSource, Estimate, Span

CAPTURE_RATE = 48_000
SECOND = 1_000_000_000


class TurnState(StrEnum):
    IDLE = "idle"
    HOLDING = "holding"
    LATCHED = "latched"
    TAILING = "tailing"
    LOST = "lost"
    LATCHED_LOST = "latched_lost"
    STUCK = "stuck"
    KEPT = "kept"
    SPEAKING = "speaking"
    HELD_BACK = "held_back"


class TurnInput(StrEnum):
    # gestures
    TALK = "talk"
    LET_GO = "let go"
    TOO_SOON = "let go too soon"
    LATCH = "latch"
    TOGGLE = "toggle"
    CANCEL = "cancel"
    ACKNOWLEDGE = "acknowledge"
    TYPED = "typed"
    # the voice
    VOICE = "voice"
    VOICE_END = "silence"
    VOICE_END_HELD = "silence, manual wanted"
    # time and faults
    TAIL_CAPTURED = "tail captured"
    CONTROL_LOST = "control lost"
    HELD_AGAIN = "control back, held"
    CONTROL_BACK = "control back"
    LOST_TOO_LONG = "lost too long"
    STUCK = "down too long"
    KEPT_TOO_LONG = "kept too long"
    STOP = "stop"


GESTURES = frozenset(
    {
        TurnInput.TALK,
        TurnInput.LET_GO,
        TurnInput.TOO_SOON,
        TurnInput.LATCH,
        TurnInput.TOGGLE,
        TurnInput.CANCEL,
        TurnInput.ACKNOWLEDGE,
        TurnInput.TYPED,
    }
)

_S, _I = TurnState, TurnInput

# (state, input) -> (next state, actions in order). What is not here changes nothing.
TABLE: dict[tuple[TurnState, TurnInput], tuple[TurnState, tuple[str, ...]]] = {
    (_S.IDLE, _I.TALK): (_S.HOLDING, ("start",)),
    (_S.IDLE, _I.TOGGLE): (_S.LATCHED, ("start",)),
    (_S.IDLE, _I.VOICE): (_S.SPEAKING, ("start",)),
    (_S.HOLDING, _I.LET_GO): (_S.TAILING, ("release",)),
    (_S.HOLDING, _I.TOO_SOON): (_S.IDLE, ("drop",)),
    (_S.HOLDING, _I.LATCH): (_S.LATCHED, ("latch",)),
    (_S.HOLDING, _I.TOGGLE): (_S.TAILING, ("release",)),
    (_S.HOLDING, _I.CANCEL): (_S.IDLE, ("cancel",)),
    (_S.HOLDING, _I.CONTROL_LOST): (_S.LOST, ("lose",)),
    (_S.HOLDING, _I.STUCK): (_S.STUCK, ("stick",)),
    (_S.HOLDING, _I.STOP): (_S.IDLE, ("cancel",)),
    (_S.LATCHED, _I.TALK): (_S.TAILING, ("release",)),
    (_S.LATCHED, _I.TOGGLE): (_S.TAILING, ("release",)),
    (_S.LATCHED, _I.TOO_SOON): (_S.IDLE, ("drop",)),
    (_S.LATCHED, _I.CANCEL): (_S.IDLE, ("cancel",)),
    (_S.LATCHED, _I.CONTROL_LOST): (_S.LATCHED_LOST, ("lose",)),
    (_S.LATCHED, _I.STUCK): (_S.KEPT, ("stick",)),
    (_S.LATCHED, _I.STOP): (_S.IDLE, ("cancel",)),
    (_S.TAILING, _I.TALK): (_S.HOLDING, ("cut_tail", "commit", "start")),
    (_S.TAILING, _I.TOGGLE): (_S.LATCHED, ("cut_tail", "commit", "start")),
    (_S.TAILING, _I.CANCEL): (_S.IDLE, ("cancel",)),
    (_S.TAILING, _I.TAIL_CAPTURED): (_S.IDLE, ("commit",)),
    (_S.TAILING, _I.STOP): (_S.IDLE, ("commit",)),
    (_S.LOST, _I.TALK): (_S.HOLDING, ("regain",)),
    (_S.LOST, _I.TOGGLE): (_S.TAILING, ("release",)),
    (_S.LOST, _I.TOO_SOON): (_S.IDLE, ("drop",)),
    (_S.LOST, _I.CANCEL): (_S.IDLE, ("cancel",)),
    (_S.LOST, _I.HELD_AGAIN): (_S.HOLDING, ("regain",)),
    (_S.LOST, _I.LOST_TOO_LONG): (_S.IDLE, ("give_up",)),
    (_S.LOST, _I.STOP): (_S.IDLE, ("cancel",)),
    (_S.LATCHED_LOST, _I.TALK): (_S.TAILING, ("release",)),
    (_S.LATCHED_LOST, _I.TOGGLE): (_S.TAILING, ("release",)),
    (_S.LATCHED_LOST, _I.TOO_SOON): (_S.IDLE, ("drop",)),
    (_S.LATCHED_LOST, _I.CANCEL): (_S.IDLE, ("cancel",)),
    (_S.LATCHED_LOST, _I.HELD_AGAIN): (_S.LATCHED, ("regain",)),
    (_S.LATCHED_LOST, _I.CONTROL_BACK): (_S.LATCHED, ("regain",)),
    (_S.LATCHED_LOST, _I.LOST_TOO_LONG): (_S.IDLE, ("give_up",)),
    (_S.LATCHED_LOST, _I.STOP): (_S.IDLE, ("cancel",)),
    (_S.STUCK, _I.TALK): (_S.HOLDING, ("resolve", "start")),
    (_S.STUCK, _I.TOGGLE): (_S.LATCHED, ("resolve", "start")),
    (_S.STUCK, _I.LET_GO): (_S.KEPT, ()),
    (_S.STUCK, _I.CANCEL): (_S.IDLE, ("cancel",)),
    (_S.STUCK, _I.ACKNOWLEDGE): (_S.IDLE, ("confirm", "commit")),
    (_S.STUCK, _I.TYPED): (_S.IDLE, ("resolve",)),
    (_S.STUCK, _I.CONTROL_LOST): (_S.KEPT, ()),
    (_S.STUCK, _I.KEPT_TOO_LONG): (_S.IDLE, ("expire",)),
    (_S.STUCK, _I.STOP): (_S.IDLE, ("expire",)),
    (_S.KEPT, _I.TALK): (_S.HOLDING, ("resolve", "start")),
    (_S.KEPT, _I.TOGGLE): (_S.LATCHED, ("resolve", "start")),
    (_S.KEPT, _I.CANCEL): (_S.IDLE, ("cancel",)),
    (_S.KEPT, _I.ACKNOWLEDGE): (_S.IDLE, ("confirm", "commit")),
    (_S.KEPT, _I.TYPED): (_S.IDLE, ("resolve",)),
    (_S.KEPT, _I.KEPT_TOO_LONG): (_S.IDLE, ("expire",)),
    (_S.KEPT, _I.STOP): (_S.IDLE, ("expire",)),
    (_S.SPEAKING, _I.TALK): (_S.HOLDING, ("take_over",)),
    (_S.SPEAKING, _I.TOGGLE): (_S.LATCHED, ("take_over",)),
    (_S.SPEAKING, _I.CANCEL): (_S.IDLE, ("cancel",)),
    (_S.SPEAKING, _I.VOICE_END): (_S.TAILING, ("silence",)),
    (_S.SPEAKING, _I.VOICE_END_HELD): (_S.HELD_BACK, ("hold_back",)),
    (_S.SPEAKING, _I.STUCK): (_S.HELD_BACK, ("hold_back",)),
    (_S.SPEAKING, _I.STOP): (_S.IDLE, ("cancel",)),
    (_S.HELD_BACK, _I.TALK): (_S.HOLDING, ("take_over",)),
    (_S.HELD_BACK, _I.TOGGLE): (_S.IDLE, ("confirm", "commit")),
    (_S.HELD_BACK, _I.ACKNOWLEDGE): (_S.IDLE, ("confirm", "commit")),
    (_S.HELD_BACK, _I.CANCEL): (_S.IDLE, ("cancel",)),
    (_S.HELD_BACK, _I.TYPED): (_S.IDLE, ("expire",)),
    (_S.HELD_BACK, _I.VOICE): (_S.SPEAKING, ("go_on",)),
    (_S.HELD_BACK, _I.KEPT_TOO_LONG): (_S.IDLE, ("expire",)),
    (_S.HELD_BACK, _I.STOP): (_S.IDLE, ("expire",)),
}

FLOOR = frozenset(
    {_S.HOLDING, _S.LATCHED, _S.TAILING, _S.LOST, _S.LATCHED_LOST, _S.SPEAKING, _S.HELD_BACK}
)
"""The person is talking, or may be: nothing new is played."""
CAPTURING = FLOOR - {_S.TAILING, _S.HELD_BACK}
BY_HAND = frozenset({_S.HOLDING, _S.LATCHED})


@dataclass(frozen=True, slots=True)
class TurnSettings:
    pre_roll: int = 14_400
    """300 ms: people speak before the button is down."""
    post_roll: int = 12_000
    """250 ms: people let go before they have finished."""
    shortest: int = 4_800
    """100 ms: less than this no realtime API accepts as a turn."""
    lost_after_ns: int = 30 * SECOND
    warn_after_ns: int = 60 * SECOND
    """A long hold warns, again and again, and keeps capturing."""
    warn_every_ns: int = 30 * SECOND
    no_speech_ns: int = 60 * SECOND
    longest_ns: int = 300 * SECOND
    keep_ns: int = 120 * SECOND


@dataclass(frozen=True, slots=True)
class Started:
    turn: int
    source: CommitSource
    at_ns: int
    start: int
    pre_roll: int
    gesture: Estimate


@dataclass(frozen=True, slots=True)
class AudioEnds:
    turn: int
    end: int


@dataclass(frozen=True, slots=True)
class Committed:
    turn: int
    commit: CommitBy
    capture: Span


@dataclass(frozen=True, slots=True)
class Abandoned:
    turn: int
    reason: AbandonReason


@dataclass(frozen=True, slots=True)
class HeldBack:
    turn: int
    capture: Span


@dataclass(frozen=True, slots=True)
class Warned:
    """The key has been down, or latched, for long; nothing else happens."""

    turn: int
    latched: bool


TurnFact = Started | AudioEnds | Committed | Abandoned | HeldBack | Warned


@dataclass(slots=True)
class _Open:
    turn: int
    source: CommitSource
    press: Estimate
    press_ns: int
    start: int
    end: int = 0
    release_ns: int = 0
    since_ns: int = 0
    """When it was lost, kept or held back."""
    warn_ns: int = 0
    spoken_ns: int | None = None
    """When speech was last found in it; None: it was not listened for, or none was."""
    listened: bool = False
    evidence: dict[str, int | str | bool] = field(default_factory=dict)


class Turn:
    """``handle(input, ...)`` -> facts. ``number``: the last turn that was ever started."""

    def __init__(self, settings: TurnSettings, number: int = 0) -> None:
        self.settings = settings
        self.number = number
        self.state = TurnState.IDLE
        self._open: _Open | None = None
        self._next_free = 0

    @property
    def has_floor(self) -> bool:
        """The person is talking, or may be."""
        return self.state in FLOOR and self.state is not TurnState.TAILING

    @property
    def is_open(self) -> bool:
        """A turn was started and neither committed nor abandoned."""
        return self.state is not TurnState.IDLE

    @property
    def takes_floor(self) -> bool:
        """It keeps everything else from being played."""
        return self.state in FLOOR

    # ---- inputs -----------------------------------------------------------------------------

    def gesture(
        self, what: TurnInput, at_ns: int, sample: Estimate, control: str = ""
    ) -> list[TurnFact]:
        """A gesture of the hand, at a capture sample. One that would end a turn of less than
        ``shortest`` is TOO_SOON."""
        opened = self._open
        ends = (self.state, what) in TABLE and "release" in TABLE[self.state, what][1]
        if opened is not None and ends and (self.state, TurnInput.TOO_SOON) in TABLE:
            began = opened.start if "began" in opened.evidence else opened.press.est
            if sample.est - began < self.settings.shortest:
                what = TurnInput.TOO_SOON
        return self._run(what, at_ns, sample, self._source(what), control)

    def voice(self, at_ns: int, onset: Estimate) -> list[TurnFact]:
        """Speech was confirmed; ``onset``: where it began."""
        return self._run(TurnInput.VOICE, at_ns, onset, "vad")

    def silence(self, at_ns: int, last: Estimate, hold_back: bool) -> list[TurnFact]:
        """Silence after speech that ended at ``last``. ``hold_back``: a manual commit is
        wanted for this turn."""
        what = TurnInput.VOICE_END_HELD if hold_back else TurnInput.VOICE_END
        return self._run(what, at_ns, last)

    def heard(self, at_ns: int, spoken: bool) -> None:
        """The detector listened to the open turn; ``spoken``: and found speech."""
        if self._open is not None:
            self._open.listened = True
            if spoken:
                self._open.spoken_ns = at_ns

    def control_lost(self, at_ns: int) -> list[TurnFact]:
        return self._run(TurnInput.CONTROL_LOST, at_ns)

    def control_back(self, at_ns: int, held: bool) -> list[TurnFact]:
        return self._run(TurnInput.HELD_AGAIN if held else TurnInput.CONTROL_BACK, at_ns)

    def captured(self, position: int, now_ns: int) -> list[TurnFact]:
        """The microphone's timeline is known up to ``position``; time is ``now_ns``."""
        opened = self._open
        if opened is None:
            return []
        waited = now_ns - opened.since_ns
        sample = Estimate(position, position, position)
        match self.state:
            case TurnState.TAILING if position >= opened.end:
                return self._run(TurnInput.TAIL_CAPTURED, now_ns)
            case TurnState.LOST | TurnState.LATCHED_LOST if waited >= self.settings.lost_after_ns:
                return self._run(TurnInput.LOST_TOO_LONG, now_ns)
            case TurnState.STUCK | TurnState.KEPT | TurnState.HELD_BACK if (
                waited >= self.settings.keep_ns
            ):
                return self._run(TurnInput.KEPT_TOO_LONG, now_ns)
            case TurnState.HOLDING | TurnState.LATCHED | TurnState.SPEAKING:
                why = self._stuck(opened, now_ns)
                if why:
                    opened.evidence["stuck_key"] = why
                    return self._run(TurnInput.STUCK, now_ns, sample)
                return self._warn(opened, now_ns)
        return []

    def typed(self, at_ns: int) -> list[TurnFact]:
        """The person typed: what was kept for the next gesture is settled by it."""
        return self._run(TurnInput.TYPED, at_ns)

    def take_number(self) -> int:
        """A turn that is no spoken one: its number."""
        self.number += 1
        return self.number

    def stop(self, at_ns: int) -> list[TurnFact]:
        """The service ends: a turn that was released is committed, no other one."""
        return self._run(TurnInput.STOP, at_ns)

    # ---- time ---------------------------------------------------------------------------------

    def _stuck(self, opened: _Open, now_ns: int) -> str:
        if now_ns - opened.press_ns >= self.settings.longest_ns:
            return "longest"
        quiet = opened.listened and self.state in BY_HAND
        since = max(opened.press_ns, opened.spoken_ns or 0)
        if quiet and now_ns - since >= self.settings.no_speech_ns:
            return "no speech"
        return ""

    def _warn(self, opened: _Open, now_ns: int) -> list[TurnFact]:
        if self.state not in BY_HAND or now_ns < opened.warn_ns:
            return []
        opened.warn_ns = now_ns + self.settings.warn_every_ns
        return [Warned(opened.turn, self.state is TurnState.LATCHED)]

    # ---- the table's actions --------------------------------------------------------------------

    def _source(self, what: TurnInput) -> CommitSource:
        if what is TurnInput.TOGGLE:
            return "toggle"
        return "latch" if what is TurnInput.LATCH else "ptt"

    def _run(
        self,
        what: TurnInput,
        at_ns: int,
        sample: Estimate | None = None,
        source: CommitSource = "ptt",
        control: str = "",
    ) -> list[TurnFact]:
        row = TABLE.get((self.state, what))
        if row is None:
            return []
        self.state, actions = row
        facts: list[TurnFact] = []
        for action in actions:
            self._act(action, at_ns, sample, source, control, facts)
        return facts

    def _act(
        self,
        action: str,
        at_ns: int,
        sample: Estimate | None,
        source: CommitSource,
        control: str,
        facts: list[TurnFact],
    ) -> None:
        if action == "start":
            assert sample is not None
            self._start(at_ns, sample, source, control, facts)
            return
        opened = self._open
        assert opened is not None
        match action:
            case "release" | "silence" | "stick" | "hold_back":
                assert sample is not None
                self._audio_ends(action, opened, at_ns, sample, facts)
            case "cut_tail":
                self._cut(opened, sample, facts)
            case "latch":
                opened.source = "latch"
                opened.evidence["latched_after_ms"] = (at_ns - opened.press_ns) // 1_000_000
            case "take_over":
                opened.evidence["began"] = opened.source
                opened.source, opened.press_ns, opened.warn_ns = source, at_ns, self._warn_at(at_ns)
                opened.end = 0
                if control:
                    opened.evidence["control"] = control
            case "go_on":
                opened.end = 0
            case "confirm":
                if opened.source == "vad":
                    opened.evidence["began"], opened.source = "vad", source
                opened.evidence["confirmed"] = True
                if control:
                    opened.evidence["control"] = control
                self._cut(opened, sample, facts)
            case "commit":
                self._commit(opened, facts)
            case "resolve":
                if opened.listened and opened.spoken_ns is None:
                    self._abandon(opened, "stuck_key", facts)
                else:
                    self._commit(opened, facts)
            case "lose":
                opened.since_ns = at_ns
                opened.evidence["control_lost"] = True
            case "drop":
                self._abandon(opened, "too_short", facts)
            case "give_up":
                self._abandon(opened, "control_lost", facts)
            case "cancel":
                self._abandon(opened, "cancelled", facts)
            case "expire":
                stuck = "stuck_key" in opened.evidence and "began" not in opened.evidence
                by_hand = stuck and opened.source != "vad"
                self._abandon(opened, "stuck_key" if by_hand else "expired", facts)

    def _audio_ends(
        self, action: str, opened: _Open, at_ns: int, sample: Estimate, facts: list[TurnFact]
    ) -> None:
        opened.release_ns = opened.since_ns = at_ns
        tail = self.settings.post_roll if action != "stick" else 0
        opened.end = max(sample.est + tail, opened.start)
        if action == "hold_back":  # the person may go on: the audio does
            facts.append(HeldBack(opened.turn, Span(opened.start, opened.end)))
        else:
            facts.append(AudioEnds(opened.turn, opened.end))

    def _cut(self, opened: _Open, sample: Estimate | None, facts: list[TurnFact]) -> None:
        """A gesture ends the audio that may still be coming: what follows is the next turn's."""
        assert sample is not None
        opened.end = max(min(opened.end, sample.est), opened.start)
        facts.append(AudioEnds(opened.turn, opened.end))

    def _warn_at(self, at_ns: int) -> int:
        return at_ns + self.settings.warn_after_ns

    def _start(
        self,
        at_ns: int,
        sample: Estimate,
        source: CommitSource,
        control: str,
        facts: list[TurnFact],
    ) -> None:
        self.number += 1
        start = max(sample.est - self.settings.pre_roll, self._next_free, 0)
        opened = _Open(self.number, source, sample, at_ns, start, warn_ns=self._warn_at(at_ns))
        if control:
            opened.evidence["control"] = control
        self._open = opened
        facts.append(Started(self.number, source, at_ns, start, max(sample.est - start, 0), sample))

    def _commit(self, opened: _Open, facts: list[TurnFact]) -> None:
        held = (opened.release_ns - opened.press_ns) // 1_000_000
        commit = CommitBy(opened.source, {"held_ms": max(held, 0), **opened.evidence})
        facts.append(Committed(opened.turn, commit, Span(opened.start, opened.end)))
        self._end(opened.end)

    def _abandon(self, opened: _Open, reason: AbandonReason, facts: list[TurnFact]) -> None:
        facts.append(Abandoned(opened.turn, reason))
        self._end(opened.start)

    def _end(self, next_free: int) -> None:
        self._next_free = max(self._next_free, next_free)
        self._open = None
