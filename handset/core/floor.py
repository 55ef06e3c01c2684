"""The person's floor: the turn machine joined with playback and durable events.

On a press the clear of playout comes first (nothing is in its way), then the turn. On a
commit, what the clear found goes out before the commit; when that takes too long the
commit goes and says that the cursor is pending.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from handset.core import events as ev
from handset.core import messages as msg
from handset.core import turn as tn
from handset.core.events import Effect, Observe
from handset.core.playback import Playback
from handset.core.receipts import Context

CURSOR_PATIENCE_NS = 500_000_000
"""How long a commit waits for the answer of the clear that opened its turn."""


class Floor:
    """``context()`` and ``keep(events)`` as in :class:`handset.core.playback.Playback`."""

    def __init__(
        self,
        turn: tn.Turn,
        playback: Playback,
        context: Callable[[], Context],
        keep: Callable[[Iterable[msg.Durable]], list[Effect]],
    ) -> None:
        self.turn = turn
        self.playback = playback
        self._context = context
        self._keep = keep
        self._clear: int | None = None
        """The clear that the open turn's press asked for."""
        self._stopped: list[str] = []
        self._held: tuple[tn.Committed, int] | None = None

    @property
    def undecided(self) -> bool:
        """A turn is open, or its commit waits for the cursor."""
        return self.turn.is_open or self._held is not None

    @property
    def commit_waits(self) -> bool:
        return self._held is not None

    def press(self, press: ev.Press, deaf: str) -> list[Effect]:
        """``deaf``: why no turn can begin, empty when one can."""
        why = deaf or ("no microphone" if press.sample is None else "")
        if why or press.sample is None:
            return [Observe("press.denied", press.at_ns, {"why": why})]
        if self.turn.has_floor:  # a bounce, or a control that is back
            facts = self.turn.press(press.at_ns, press.source, press.sample)
            return self.facts(facts, press.at_ns)
        stopped, before = self.playback.stoppable(), self.playback.generation
        effects = self.playback.clear(msg.Cause("gesture", press.at_ns))
        facts = self.turn.press(press.at_ns, press.source, press.sample)
        # A press in the post-roll commits the turn before it, with the clear of that one.
        # So does one that comes while that commit waits for its cursor.
        effects += self.facts(facts[:-1], press.at_ns)
        effects += self.release_commit(press.at_ns, patience=0)
        asked = self.playback.generation
        self._clear = asked if asked != before or stopped else None
        self._stopped = stopped
        return effects + self.facts(facts[-1:], press.at_ns)

    def release(self, release: ev.Release, now: int) -> list[Effect]:
        sample = release.sample
        if sample is None:
            return self.facts(self.turn.control_lost(release.at_ns), now)
        return self.facts(self.turn.release(release.at_ns, sample), now)

    def facts(self, facts: Iterable[tn.TurnFact], now: int) -> list[Effect]:
        """What the turn machine found, carried out."""
        effects: list[Effect] = []
        for fact in facts:
            match fact:
                case tn.Started():
                    effects += self._started(fact)
                case tn.AudioEnds(turn, end):
                    effects.append(ev.EndTurnAudio(turn, end))
                case tn.Committed():
                    self._held = (fact, now)
                    effects += self.release_commit(now)
                case tn.Abandoned():
                    effects += self._abandoned(fact, now)
        return effects

    def _started(self, fact: tn.Started) -> list[Effect]:
        started = msg.TurnStarted(
            **self._context().envelope(
                f"turn/{fact.turn}/started", fact.at_ns, "turn", turn=fact.turn
            ),
            source=fact.source,
            capture_start=fact.start,
            pre_roll=fact.pre_roll,
            gesture=fact.gesture,
        )
        facts: dict[str, object] = {"turn": fact.turn, "start": fact.start}
        return [
            ev.Remember("turn", str(fact.turn)),
            ev.Log({"k": "turn", "turn": fact.turn}),
            ev.BeginTurnAudio(fact.turn, fact.start),
            *self._keep([started]),
            Observe("turn.started", fact.at_ns, facts),
        ]

    def _abandoned(self, fact: tn.Abandoned, now: int) -> list[Effect]:
        abandoned = msg.TurnAbandoned(
            **self._context().envelope(f"turn/{fact.turn}/abandoned", now, "turn", turn=fact.turn),
            reason=fact.reason,
            stopped=self._stopped,
            live=list(self.playback.lane.responses),
        )
        return [
            ev.EndTurnAudio(fact.turn, 0),
            ev.ForgetTurnAudio(fact.turn),
            *self._keep([abandoned]),
            Observe("turn.abandoned", now, {"turn": fact.turn, "reason": fact.reason}),
        ]

    def release_commit(self, now: int, patience: int = CURSOR_PATIENCE_NS) -> list[Effect]:
        """Sends the commit that waits, once the cursor before it is known."""
        if self._held is None:
            return []
        fact, since = self._held
        ledger = self.playback.ledger
        known = self._clear is None or ledger.answered >= self._clear
        if not known and now - since < patience:
            return []
        self._held = None
        commit = msg.Commit(
            **self._context().envelope(f"turn/{fact.turn}/commit", now, "turn", turn=fact.turn),
            commit=fact.commit,
            capture=fact.capture,
            cursor="known" if known else "pending",
        )
        effects: list[Effect] = []
        for stale in self.playback.lane.turn_committed(fact.turn):
            cause = msg.Cause("gesture", now)
            effects += self.playback.clear_response(stale, cause, now)
        facts: dict[str, object] = {
            "turn": fact.turn,
            "source": fact.commit.source,
            "start": fact.capture.start,
            "end": fact.capture.end,
        }
        return [
            *effects,
            *self._keep([commit]),
            Observe("turn.committed", now, facts),
        ]
