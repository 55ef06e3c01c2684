"""The person's floor: the turn machine joined with playback and durable events.

Rules:

1. A press pauses playback at the next block, past every detector. When it has lasted
   ``grace`` the pause becomes a clear, asked for at the press and with the pause as its
   cursor. A tap that latches, a switch that toggles and a typed turn clear at once. A
   shorter tap stops playback or lets it go on at the next sample, as ``tap`` says.
2. Speech that is only suspected pauses (or ducks) playback; confirmed it clears, dismissed
   playback goes on at the next sample.
3. On a commit, what the clear found goes out before it; when that takes too long the
   commit goes and says that the cursor is pending.
4. A typed turn has the authority of a button. While a spoken turn is open it waits: turns
   are committed in the order of their numbers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from handset.core import events as ev
from handset.core import messages as msg
from handset.core import receipts
from handset.core import turn as tn
from handset.core.events import Effect, Observe
from handset.core.gestures import Beside
from handset.core.holds import Hold
from handset.core.marks import Marks
from handset.core.playback import Playback
from handset.core.receipts import Context
from handset.core.turn import TurnInput

CURSOR_PATIENCE_NS = 500_000_000
"""How long a commit waits for the answer of the clear that opened its turn."""
MOST_TYPED = 16
"""Typed turns that may wait for a spoken one to end."""


@dataclass(frozen=True, slots=True)
class FloorSettings:
    """``grace_ns``: a press that lasts as long clears playback; with 0 each does, at once.
    ``tap``: what a shorter one does to playback. ``suspect``: what a suspicion of speech
    does to it."""

    grace_ns: int = 80_000_000
    tap: str = "stop"
    suspect: str = "pause"


@dataclass(frozen=True, slots=True)
class _Typed:
    turn: int
    text: str


class Floor:
    """``context()`` and ``keep(events)`` as in :class:`handset.core.playback.Playback`."""

    def __init__(
        self,
        turn: tn.Turn,
        playback: Playback,
        context: Callable[[], Context],
        keep: Callable[[Iterable[msg.Durable]], list[Effect]],
        settings: FloorSettings | None = None,
    ) -> None:
        self.turn = turn
        self.playback = playback
        self.settings = settings or FloorSettings()
        self.marks = Marks()
        self._context = context
        self._keep = keep
        self._clear: int | None = None
        """The clear that the open turn's gesture asked for."""
        self._stopped: list[str] = []
        self._held: tuple[tn.Committed | _Typed, int] | None = None
        self._pressed_ns: int | None = None
        """When the press came whose pause is not a clear yet."""
        self._suspected_ns: int | None = None
        self._sounding: list[str] = []
        """Responses that the press, or the suspicion, has paused. What came since then was
        not heard, and an abandoned turn must not lose it."""
        self._waiting: deque[str] = deque()

    @property
    def undecided(self) -> bool:
        """A turn is open, or its commit waits for the cursor."""
        return self.turn.is_open or self._held is not None

    @property
    def taken(self) -> bool:
        """Nothing new is played: it is not known yet what it would be an answer to."""
        return self.turn.takes_floor or self._held is not None

    @property
    def commit_waits(self) -> bool:
        return self._held is not None or bool(self._waiting)

    # ---- gestures ---------------------------------------------------------------------------

    def gesture(
        self, what: TurnInput, beside: Beside, at_ns: int, sample: msg.Estimate, control: str
    ) -> list[Effect]:
        effects: list[Effect] = []
        before = self._clear, self._stopped
        if beside is Beside.HOLD_PLAYBACK:
            effects += self._press(at_ns)
        elif beside is Beside.CLEAR_PLAYBACK:
            effects += self._take_floor(msg.Cause("gesture", at_ns))
        elif self._pressed_ns is not None:
            effects += self._end_press(what, at_ns)
        facts = self.turn.gesture(what, at_ns, sample, control)
        started = [fact for fact in facts if isinstance(fact, tn.Started)]
        if not started:
            return effects + self.facts(facts, at_ns)
        # A press in the post-roll commits the turn before it, with the clear of that one.
        # So does one that comes while that commit waits for its cursor.
        mine, (self._clear, self._stopped) = (self._clear, self._stopped), before
        effects += self.facts([fact for fact in facts if fact not in started], at_ns)
        effects += self.release_commit(at_ns, patience=0)
        if self._pressed_ns is not None:
            mine = (None, [])  # its clear is still to come
        self._clear, self._stopped = mine
        return effects + self.facts(started, at_ns)

    def _press(self, at_ns: int) -> list[Effect]:
        if self._suspected_ns is None:
            self._sounding = self.playback.stoppable()
        self._pressed_ns, self._suspected_ns = at_ns, None
        if self.settings.grace_ns <= 0:
            return self._clear_for_press()
        effects = self.playback.hold(Hold.PRESS)
        return effects + self.playback.release(Hold.SUSPICION)

    def _end_press(self, what: TurnInput, at_ns: int) -> list[Effect]:
        """The key that paused playback went up, or something else ended the press."""
        assert self._pressed_ns is not None
        short = at_ns - self._pressed_ns < self.settings.grace_ns
        if what is TurnInput.LET_GO and short and self.settings.tap == "resume":
            self._pressed_ns = None
            return self.playback.release(Hold.PRESS)
        return self._clear_for_press()

    def _clear_for_press(self) -> list[Effect]:
        assert self._pressed_ns is not None
        at_ns, self._pressed_ns = self._pressed_ns, None
        return self._take_floor(msg.Cause("gesture", at_ns), self._sounding)

    def _take_floor(self, cause: msg.Cause, only: list[str] | None = None) -> list[Effect]:
        self._pressed_ns = self._suspected_ns = None
        stopped, before = self.playback.stoppable(), self.playback.generation
        if only is not None:
            stopped = [name for name in stopped if name in only]
        effects = self.playback.clear(cause, only=only)
        effects += self.playback.release(Hold.PRESS) + self.playback.release(Hold.SUSPICION)
        asked = self.playback.generation
        self._clear = asked if asked != before or stopped else None
        self._stopped = stopped
        return effects

    def tick(self, now: int, down_until: int) -> list[Effect]:
        """A press that has lasted becomes a clear; a typed turn that waited goes.
        ``down_until``: up to when the talk key is known to have been down."""
        effects: list[Effect] = []
        pressed = self._pressed_ns
        if pressed is not None and down_until - pressed >= self.settings.grace_ns:
            effects += self._clear_for_press()
        while self._waiting and not self.undecided:
            effects += self._type(self._waiting.popleft(), now)
        return effects

    # ---- the voice --------------------------------------------------------------------------

    def suspected(self, at_ns: int) -> list[Effect]:
        if self.turn.has_floor or self._pressed_ns is not None:
            return []
        self._suspected_ns = at_ns
        self._sounding = self.playback.stoppable()
        return self.playback.hold(Hold.SUSPICION, duck=self.settings.suspect == "duck")

    def dismissed(self) -> list[Effect]:
        self._suspected_ns = None
        return self.playback.release(Hold.SUSPICION)

    def confirmed(self, at_ns: int, onset: msg.Estimate) -> list[Effect]:
        """Speech that has the floor. In a turn that is open already it is heard, no more."""
        suspected = self._suspected_ns is not None
        asked_ns = self._suspected_ns if self._suspected_ns is not None else at_ns
        if (self.turn.state, TurnInput.VOICE) not in tn.TABLE:
            return self.dismissed()
        effects = self.release_commit(at_ns, patience=0)
        only = self._sounding if suspected else None
        effects += self._take_floor(msg.Cause("voice", asked_ns), only)
        return effects + self.facts(self.turn.voice(at_ns, onset), at_ns)

    def silence(self, at_ns: int, last: msg.Estimate, hold_back: bool) -> list[Effect]:
        return self.facts(self.turn.silence(at_ns, last, hold_back), at_ns)

    # ---- typed ------------------------------------------------------------------------------

    def typed(self, text: str, at_ns: int) -> list[Effect]:
        """At most ``MOST_TYPED`` wait; :attr:`typed_room` says whether there is room."""
        if self.turn.takes_floor and (self.turn.state, TurnInput.TYPED) not in tn.TABLE:
            self._waiting.append(text)
            return [Observe("typed.waits", at_ns, {"waiting": len(self._waiting)})]
        return self._type(text, at_ns)

    @property
    def typed_waiting(self) -> int:
        return len(self._waiting)

    @property
    def typed_room(self) -> bool:
        return len(self._waiting) < MOST_TYPED

    def _type(self, text: str, at_ns: int) -> list[Effect]:
        effects = self.facts(self.turn.typed(at_ns), at_ns)
        effects += self.release_commit(at_ns, patience=0)
        effects += self._take_floor(msg.Cause("typed", at_ns))
        number = self.turn.take_number()
        self._held = (_Typed(number, text), at_ns)
        facts: dict[str, object] = {"turn": number, "characters": len(text)}
        return [
            *effects,
            ev.Remember("turn", str(number)),
            ev.Log({"k": "typed", "turn": number, "text": text}),
            Observe("turn.typed", at_ns, facts),
            *self.release_commit(at_ns),
        ]

    # ---- what the turn machine found ----------------------------------------------------------

    def facts(self, facts: Iterable[tn.TurnFact], now: int) -> list[Effect]:
        effects: list[Effect] = []
        for fact in facts:
            match fact:
                case tn.Started():
                    effects += self._started(fact)
                case tn.AudioEnds(turn, end):
                    effects.append(ev.EndTurnAudio(turn, end))
                case tn.Committed():
                    if self._pressed_ns is not None and not self.turn.has_floor:
                        effects += self._clear_for_press()
                    self._held = (fact, now)
                    effects += self.release_commit(now)
                case tn.Abandoned():
                    effects += self._abandoned(fact, now)
                case tn.HeldBack(turn, capture):
                    effects.append(ev.Send(msg.TurnHeld(turn=turn, capture=capture)))
                    effects.append(Observe("turn.held_back", now, {"turn": turn}))
                case tn.Warned(turn, latched):
                    told: dict[str, object] = {"turn": turn, "latched": latched}
                    effects.append(Observe("turn.long", now, told))
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
        facts: dict[str, object] = {"turn": fact.turn, "start": fact.start, "source": fact.source}
        return [
            ev.Remember("turn", str(fact.turn)),
            ev.Log({"k": "turn", "turn": fact.turn}),
            ev.BeginTurnAudio(fact.turn, fact.start),
            *self._keep([started]),
            Observe("turn.started", fact.at_ns, facts),
        ]

    def _abandoned(self, fact: tn.Abandoned, now: int) -> list[Effect]:
        effects = self._clear_for_press() if self._pressed_ns is not None else []
        abandoned = msg.TurnAbandoned(
            **self._context().envelope(f"turn/{fact.turn}/abandoned", now, "turn", turn=fact.turn),
            reason=fact.reason,
            stopped=self._stopped,
            live=list(self.playback.lane.responses),
        )
        return [
            *effects,
            ev.EndTurnAudio(fact.turn, 0),
            ev.ForgetTurnAudio(fact.turn),
            *self._keep([abandoned]),
            Observe("turn.abandoned", now, {"turn": fact.turn, "reason": fact.reason}),
        ]

    # ---- commits ------------------------------------------------------------------------------

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
        event: msg.Commit | msg.TypedTurn
        if isinstance(fact, _Typed):
            event = receipts.typed_turn(self._context(), fact.turn, fact.text, now, known)
            facts: dict[str, object] = {"turn": fact.turn, "source": "typed"}
        else:
            event = self._spoken_turn(fact, now, known)
            facts = {
                "turn": fact.turn,
                "source": fact.commit.source,
                "start": fact.capture.start,
                "end": fact.capture.end,
            }
        effects: list[Effect] = []
        for stale in self.playback.lane.turn_committed(fact.turn):
            cause = msg.Cause("gesture", now)
            effects += self.playback.clear_response(stale, cause, now)
        return [*effects, *self._keep([event]), Observe("turn.committed", now, facts)]

    def _spoken_turn(self, fact: tn.Committed, now: int, known: bool) -> msg.Commit:
        return msg.Commit(
            **self._context().envelope(f"turn/{fact.turn}/commit", now, "turn", turn=fact.turn),
            commit=fact.commit,
            capture=fact.capture,
            cursor="known" if known else "pending",
            notices=self.marks.within(fact.capture),
        )
