"""The person's turn: hold to talk.

Rules:

1. A press takes the floor at once; a release that follows ends the turn. The capture
   range begins ``pre_roll`` before the press and ends ``post_roll`` after the release,
   and no sooner than the microphone's timeline has got there.
2. Only a gesture ends a turn with a commit. Time, faults and the edge never do.
3. Under ``shortest`` of held audio there is no commit: ``too_short``.
4. A lost control keeps the turn open and capturing. A new press takes it over; after
   ``lost_after`` without one it is abandoned (``control_lost``).
5. Numbers rise by one per accepted start and are never used twice.

Who wins. A press during the post-roll commits the turn before it at the press, so that
two turns never share a sample, and then starts its own.

Units: capture samples at 48 kHz. The table below is the machine; diagrams and the
exhaustive test are made from it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

from handset.core.messages import CommitBy, CommitSource, Estimate, Span

CAPTURE_RATE = 48_000


class TurnState(StrEnum):
    IDLE = "idle"
    HOLDING = "holding"
    TAILING = "tailing"
    LOST = "lost"


class TurnInput(StrEnum):
    PRESS = "press"
    RELEASE = "release"
    SHORT_RELEASE = "release too soon"
    TAIL_CAPTURED = "tail captured"
    CONTROL_LOST = "control lost"
    LOST_TOO_LONG = "lost too long"
    STOP = "stop"


# (state, input) -> (next state, actions in order). What is not here changes nothing.
TABLE: dict[tuple[TurnState, TurnInput], tuple[TurnState, tuple[str, ...]]] = {
    (TurnState.IDLE, TurnInput.PRESS): (TurnState.HOLDING, ("start",)),
    (TurnState.HOLDING, TurnInput.RELEASE): (TurnState.TAILING, ("release",)),
    (TurnState.HOLDING, TurnInput.SHORT_RELEASE): (TurnState.IDLE, ("drop",)),
    (TurnState.HOLDING, TurnInput.CONTROL_LOST): (TurnState.LOST, ("lose",)),
    (TurnState.HOLDING, TurnInput.STOP): (TurnState.IDLE, ("cancel",)),
    (TurnState.LOST, TurnInput.PRESS): (TurnState.HOLDING, ("regain",)),
    (TurnState.LOST, TurnInput.LOST_TOO_LONG): (TurnState.IDLE, ("give_up",)),
    (TurnState.LOST, TurnInput.STOP): (TurnState.IDLE, ("cancel",)),
    (TurnState.TAILING, TurnInput.PRESS): (TurnState.HOLDING, ("cut_tail", "commit", "start")),
    (TurnState.TAILING, TurnInput.TAIL_CAPTURED): (TurnState.IDLE, ("commit",)),
    (TurnState.TAILING, TurnInput.STOP): (TurnState.IDLE, ("commit",)),
}


@dataclass(frozen=True, slots=True)
class TurnSettings:
    pre_roll: int = 14_400
    """300 ms: people speak before the button is down."""
    post_roll: int = 12_000
    """250 ms: people let go before they have finished."""
    shortest: int = 4_800
    """100 ms: less than this no realtime API accepts as a turn."""
    lost_after_ns: int = 30_000_000_000


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
    reason: Literal["too_short", "cancelled", "control_lost"]


TurnFact = Started | AudioEnds | Committed | Abandoned


@dataclass(slots=True)
class _Open:
    turn: int
    source: CommitSource
    press: Estimate
    press_ns: int
    start: int
    end: int = 0
    release_ns: int = 0
    lost_ns: int = 0
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
        return self.state in (TurnState.HOLDING, TurnState.LOST)

    @property
    def is_open(self) -> bool:
        """A turn was started and neither committed nor abandoned."""
        return self.state is not TurnState.IDLE

    def press(self, at_ns: int, source: CommitSource, sample: Estimate) -> list[TurnFact]:
        return self._run(TurnInput.PRESS, at_ns, sample, source)

    def release(self, at_ns: int, sample: Estimate) -> list[TurnFact]:
        opened = self._open
        held = sample.est - opened.press.est if opened is not None else 0
        short = held < self.settings.shortest
        return self._run(TurnInput.SHORT_RELEASE if short else TurnInput.RELEASE, at_ns, sample)

    def control_lost(self, at_ns: int) -> list[TurnFact]:
        return self._run(TurnInput.CONTROL_LOST, at_ns)

    def captured(self, position: int, now_ns: int) -> list[TurnFact]:
        """The microphone's timeline is known up to ``position``; time is ``now_ns``."""
        opened = self._open
        if opened is None:
            return []
        if self.state is TurnState.TAILING and position >= opened.end:
            return self._run(TurnInput.TAIL_CAPTURED, now_ns)
        if self.state is TurnState.LOST and now_ns - opened.lost_ns >= self.settings.lost_after_ns:
            return self._run(TurnInput.LOST_TOO_LONG, now_ns)
        return []

    def stop(self, at_ns: int) -> list[TurnFact]:
        """The service ends: a turn that was released is committed, no other one."""
        return self._run(TurnInput.STOP, at_ns)

    # ---- the table's actions -----------------------------------------------------------

    def _run(
        self,
        what: TurnInput,
        at_ns: int,
        sample: Estimate | None = None,
        source: CommitSource = "ptt",
    ) -> list[TurnFact]:
        row = TABLE.get((self.state, what))
        if row is None:
            return []
        self.state, actions = row
        facts: list[TurnFact] = []
        for action in actions:
            self._act(action, at_ns, sample, source, facts)
        return facts

    def _act(
        self,
        action: str,
        at_ns: int,
        sample: Estimate | None,
        source: CommitSource,
        facts: list[TurnFact],
    ) -> None:
        if action == "start":
            assert sample is not None
            self._start(at_ns, sample, source, facts)
            return
        opened = self._open
        assert opened is not None
        if action == "release":
            assert sample is not None
            opened.release_ns = at_ns
            opened.end = sample.est + self.settings.post_roll
            facts.append(AudioEnds(opened.turn, opened.end))
        elif action == "drop":
            facts.append(Abandoned(opened.turn, "too_short"))
            self._end(opened.start)
        elif action == "commit":
            held = (opened.release_ns - opened.press_ns) // 1_000_000
            commit = CommitBy(opened.source, {"held_ms": held, **opened.evidence})
            facts.append(Committed(opened.turn, commit, Span(opened.start, opened.end)))
            self._end(opened.end)
        elif action == "cut_tail":
            assert sample is not None
            opened.end = max(min(opened.end, sample.est), opened.start)
            facts.append(AudioEnds(opened.turn, opened.end))
        elif action == "lose":
            opened.lost_ns = at_ns
            opened.evidence["control_lost"] = True
        elif action == "give_up":
            facts.append(Abandoned(opened.turn, "control_lost"))
            self._end(opened.start)
        elif action == "cancel":
            facts.append(Abandoned(opened.turn, "cancelled"))
            self._end(opened.start)

    def _start(
        self, at_ns: int, sample: Estimate, source: CommitSource, facts: list[TurnFact]
    ) -> None:
        self.number += 1
        start = max(sample.est - self.settings.pre_roll, self._next_free, 0)
        self._open = _Open(self.number, source, sample, at_ns, start)
        facts.append(Started(self.number, source, at_ns, start, max(sample.est - start, 0), sample))

    def _end(self, next_free: int) -> None:
        self._next_free = max(self._next_free, next_free)
        self._open = None
