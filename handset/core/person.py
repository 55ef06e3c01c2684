"""The person with the headset on: hands, voice and ear, joined with the turn.

What a control reports becomes a gesture (:mod:`.keys`), the gesture finds its cell in the
one table (:mod:`.gestures`), and the cell says what the turn and everything beside it do.
What the person has to be told goes through one queue (:mod:`.telling`).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from handset.core import events as ev
from handset.core import messages as msg
from handset.core.alerts import Alerts
from handset.core.events import Effect, Event, Observe
from handset.core.floor import Floor, FloorSettings
from handset.core.gestures import GESTURES, Beside
from handset.core.holds import Hold
from handset.core.item import Item, ItemState
from handset.core.keys import Back, Gesture, Keys, KeySettings, Lost, Made, StuckAtStart
from handset.core.notices import Notice
from handset.core.telling import DISCARDED, Telling
from handset.core.turn import TABLE, Turn, TurnInput, TurnState
from handset.core.volume import STEPS, Volume
from handset.core.wearer import SHIPPED, Wearer, WearerSettings

KEEP_SAMPLES = 512
VOICED_WITHIN_NS = 10_000_000_000
"""How long the edge's own disclosure is waited for."""
LOW_BATTERY = 15
"""Per cent, of a control that runs on one."""
CONDITIONS = {
    "low_battery": Notice.LOW_BATTERY,
    "undervoltage": Notice.UNDERVOLTAGE,
    "too_hot": Notice.TOO_HOT,
}


@dataclass(frozen=True, slots=True)
class PersonSettings:
    """``tell``: whether there are tones and prompts at all. ``tasks``: what this machine has a
    program for."""

    keys: KeySettings = field(default_factory=KeySettings)
    floor: FloorSettings = field(default_factory=FloorSettings)
    wearer: WearerSettings = field(default_factory=WearerSettings)
    require_manual: bool = False
    tell: bool = True
    tasks: frozenset[ev.Task] = frozenset()


class Person:
    """``keep_wearer(by)`` makes the durable event of what the wearer was told or agreed to."""

    def __init__(
        self,
        settings: PersonSettings,
        turn: Turn,
        floor: Floor,
        alerts: Alerts,
        wearer_prefix: str,
        keep_wearer: Callable[[str, int], list[Effect]],
        volume_step: int = STEPS,
    ) -> None:
        self.settings = settings
        self.turn = turn
        self.floor = floor
        self.alerts = alerts
        self.keys = Keys(settings.keys)
        self.telling = Telling(settings.tell)
        self.volume = Volume(volume_step)
        # Who can't be told anything can't be told this.
        disclose = settings.tell and settings.wearer.disclose
        self.wearer = Wearer(replace(settings.wearer, disclose=disclose), wearer_prefix)
        self.muted = False
        self.stopping = False
        self.no_microphone = True
        self.position = 0
        self.conditions: set[str] = set()
        self.task: ev.Task | None = None
        """What is being done at the person's wish."""
        self._keep_wearer = keep_wearer
        self._samples: OrderedDict[int, msg.Estimate | None] = OrderedDict()
        self._manual_session = settings.require_manual
        self._manual_next = False
        self._deaf = False
        self._voiced: str | None = None
        """The response that is the edge's own disclosure, while it is to come."""
        self._voiced_by_ns = 0

    # ---- events -----------------------------------------------------------------------------

    def handle(self, event: Event, now: int) -> list[Effect]:
        """Events that are the person's; nothing for all others."""
        before = self.turn.state
        effects = self._handle(event, now)
        return effects + self.told_turn(before, now)

    def _handle(self, event: Event, now: int) -> list[Effect]:
        match event:
            case ev.KeyLevel():
                self._remember(event.at_ns, event.sample)
                made = self.keys.level(event.control, event.key, event.down, event.at_ns)
                return self._keys(made, now)
            case ev.ControlGone(control, at_ns, reason):
                facts: dict[str, object] = {"control": control, "reason": reason}
                lost = self._keys(self.keys.lost(control, at_ns), now)
                return [Observe("control.lost", at_ns, facts), *lost]
            case ev.ControlThere(control, at_ns, down):
                back = self._keys(self.keys.back(control, at_ns, down), now)
                return [Observe("control.there", at_ns, {"control": control}), *back]
            case ev.ControlTold():
                return self._control_told(event, now)
            case ev.Typed(text):
                self.wearer.gesture(now)
                return [*self._agree_by_talking(now), *self.floor.typed(text, now)]
            case ev.VoiceSuspected(at_ns):
                return self.floor.suspected(at_ns) if self._voice_counts else []
            case ev.VoiceDismissed():
                return self.floor.dismissed()
            case ev.VoiceConfirmed(at_ns, onset):
                if not self._voice_counts:
                    return self.floor.dismissed()
                return self.floor.confirmed(at_ns, onset)
            case ev.VoiceEnded(at_ns, last):
                return self.floor.silence(at_ns, last, self.wants_manual)
            case ev.Listened(at_ns, spoken):
                self.turn.heard(at_ns, spoken)
                return []
            case ev.NoticePlayed(name, span):
                self.floor.marks.add(name, span)
                return []
            case ev.NoticeDone():
                return self.telling.done(now)
            case ev.TaskDone(task, well):
                return self._task_done(task, well, now)
            case ev.Condition(name, present):
                return self._condition(name, present, now)
        return []

    def tick(self, now: int) -> list[Effect]:
        """Time has come to ``now``."""
        before = self.turn.state
        effects = self._keys(self.keys.tick(now), now)
        effects += self.floor.tick(now, self.keys.talk_down_until(now))
        effects += self.floor.facts(self.turn.captured(self.position, now), now)
        effects += self.floor.release_commit(now)
        effects += self.told_turn(before, now)
        free = not self.floor.taken and not self.wearer.gated and not self.stopping
        effects += self.alerts.tick(now, free, self.volume.audible)
        effects += self._disclose(now)
        if self.alerts.reminders(now):
            effects += self.telling.ask(Notice.ALERT_WAITING, now)
        return effects

    def stop(self, now: int) -> list[Effect]:
        """The service ends: a turn that was let go is committed, no other one."""
        effects = self._keys(self.keys.finish(now), now)
        self.stopping = True
        return effects + self.floor.facts(self.turn.stop(now), now)

    def after(self, now: int, output: bool) -> list[Effect]:
        """After every event: what was played decides about alerts and the disclosure, and
        the notices' queue hears of floor and reply. ``output``: there is a card."""
        effects: list[Effect] = []
        finals = self.floor.playback.take_finals()
        effects += self.alerts.finals(finals, now)
        for item in finals:
            effects += self._played(item, now)
        playback = self.floor.playback
        reply = not playback.silent
        effects += self.telling.around(self.floor.taken, reply, output, now)
        if self.telling.speaking and Hold.WORDS not in playback.holds:
            effects += playback.hold(Hold.WORDS, duck=True)
        elif not self.telling.speaking and Hold.WORDS in playback.holds:
            effects += playback.release(Hold.WORDS)
        for notice in self.telling.take_said():
            if notice is Notice.DISCLOSURE:
                effects += self._disclosed(now)
            elif notice is Notice.CONSENT_ASKED:
                self.wearer.asked = True
        return effects + self._set_microphone()

    # ---- policy -------------------------------------------------------------------------------

    @property
    def wants_manual(self) -> bool:
        """A commit that silence decided is held back now."""
        return self._manual_session or self._manual_next

    def policy(self, require_manual: bool, next_turn: bool) -> None:
        if next_turn:
            self._manual_next = require_manual
        else:
            self._manual_session = require_manual or self.settings.require_manual

    def committed(self) -> None:
        """A turn was committed: what the edge wanted of the next one is done."""
        self._manual_next = False

    @property
    def _voice_counts(self) -> bool:
        return (
            self.settings.keys.mode == "automatic"
            and not self.stopping
            and not self.muted
            and not self.wearer.deaf
        )

    # ---- gestures -----------------------------------------------------------------------------

    def _remember(self, at_ns: int, sample: msg.Estimate | None) -> None:
        self._samples[at_ns] = sample
        while len(self._samples) > KEEP_SAMPLES:
            self._samples.popitem(last=False)

    def _sample(self, at_ns: int, now: int) -> msg.Estimate | None:
        """Where a gesture lies in the capture."""
        if at_ns in self._samples:
            return self._samples[at_ns]
        if self.no_microphone:
            return None
        return msg.Estimate(self.position, 0, self.position)

    def _keys(self, facts: list[Made | Lost | Back | StuckAtStart], now: int) -> list[Effect]:
        effects: list[Effect] = []
        for fact in facts:
            match fact:
                case Made():
                    effects += self.gesture(fact, now)
                case Lost(_, at_ns):
                    effects += self.floor.facts(self.turn.control_lost(at_ns), now)
                case Back(_, at_ns, held):
                    effects += self.floor.facts(self.turn.control_back(at_ns, held), now)
                case StuckAtStart(control, key):
                    told: dict[str, object] = {"control": control, "key": key.value}
                    effects.append(Observe("key.stuck_at_start", now, told))
                    effects += self.telling.ask(Notice.STUCK_KEY, now)
        return effects

    def gesture(self, made: Made, now: int) -> list[Effect]:
        before = self.turn.state
        cell = GESTURES[before, made.gesture]
        facts: dict[str, object] = {"gesture": made.gesture.value, "control": made.control}
        effects: list[Effect] = [Observe("gesture", made.at_ns, facts)]
        if self.wearer.gesture(made.at_ns) and before is TurnState.IDLE:
            effects += self._new_wearer(now)
        if cell.turn is not None:
            starts = "start" in TABLE[before, cell.turn][1]
            why = self._deaf_because(self._sample(made.at_ns, now)) if starts else ""
            if why:
                return effects + self._denied(why, made, now)
            effects += self._turn_gesture(cell.turn, cell.beside, made, starts, now)
        if cell.beside not in (Beside.NOTHING, Beside.HOLD_PLAYBACK, Beside.CLEAR_PLAYBACK):
            effects += self._beside(cell.beside, made, now)
        return effects

    def _turn_gesture(
        self, what: TurnInput, beside: Beside, made: Made, starts: bool, now: int
    ) -> list[Effect]:
        effects = self._agree_by_talking(now) if starts else []
        sample = self._sample(made.at_ns, now)
        if sample is None:  # the microphone is gone: the turn ends where it ended
            end = max(self.position - self.turn.settings.post_roll, 0)
            sample = msg.Estimate(end, 0, self.position)
        before, number = self.turn.state, self.turn.number
        effects += self.floor.gesture(what, beside, made.at_ns, sample, made.control)
        tapped = before is TurnState.HOLDING and made.gesture is Gesture.LET_GO
        if tapped and self.turn.state is TurnState.IDLE and number == self.turn.number:
            # A tap says nothing; where an alert waits for the button it is the answer.
            effects += self._acknowledge("talk", now)
        return effects

    def _deaf_because(self, sample: msg.Estimate | None) -> str:
        """Why no turn can begin, empty when one can."""
        if self.stopping:
            return "stopping"
        if self.wearer.deaf:
            return "no consent"
        if self.muted:
            return "muted"
        return "no microphone" if sample is None else ""

    def _denied(self, why: str, made: Made, now: int) -> list[Effect]:
        effects: list[Effect] = [Observe("press.denied", made.at_ns, {"why": why})]
        if why == "no consent":
            if self.wearer.asked:
                return effects + self._agree("talk", now)
            effects += self.telling.ask(Notice.DENY, now)
            return effects + self.telling.ask(Notice.CONSENT_ASKED, now)
        return effects + self.telling.ask(Notice.DENY, now)

    def _beside(self, beside: Beside, made: Made, now: int) -> list[Effect]:
        match beside:
            case Beside.SILENCE:
                effects = self.floor.playback.clear(msg.Cause("gesture", made.at_ns))
                return effects
            case Beside.ACKNOWLEDGE_ALERT:
                if self.wearer.deaf:
                    return self._agree("acknowledge", now)
                return self._acknowledge(made.gesture.value, now)
            case Beside.LOUDER | Beside.SOFTER:
                return self._change_volume(1 if beside is Beside.LOUDER else -1, now)
            case Beside.MUTE:
                self.muted = not self.muted
                notice = Notice.MUTE_ON if self.muted else Notice.MUTE_OFF
                told: dict[str, object] = {"muted": self.muted}
                return [Observe("microphone", now, told), *self.telling.ask(notice, now)]
            case Beside.PAIR:
                return self._run("pair", now)
            case Beside.SELF_TEST:
                return self._run("self_test", now)
            case Beside.NEW_WEARER:
                return self._new_wearer(now)
        return []

    def _run(self, task: ev.Task, now: int) -> list[Effect]:
        """One at a time; without a program for it the person hears that there is none."""
        if task not in self.settings.tasks or self.task is not None:
            return self.telling.ask(Notice.DENY, now)
        self.task = task
        told = self.telling.ask(Notice.PAIRING, now) if task == "pair" else []
        return [ev.RunTask(task), Observe("task", now, {"task": task}), *told]

    def _task_done(self, task: ev.Task, well: bool, now: int) -> list[Effect]:
        self.task = None
        facts: dict[str, object] = {"task": task, "well": well}
        effects: list[Effect] = [Observe("task.done", now, facts)]
        if task == "pair":
            return effects + self.telling.ask(Notice.PAIRED if well else Notice.DENY, now)
        notice = Notice.SELF_TEST_OK if well else Notice.SELF_TEST_FAILED
        return effects + self.telling.ask(notice, now)

    def _acknowledge(self, by: str, now: int) -> list[Effect]:
        effects = self.alerts.acknowledge(by, now)
        return effects + (self.telling.ask(Notice.ALERT_ACKNOWLEDGED, now) if effects else [])

    def _change_volume(self, by: int, now: int) -> list[Effect]:
        if not self.volume.change(by):
            return self.telling.ask(Notice.VOLUME_LIMIT, now)
        step = self.volume.step
        return [
            ev.Remember("volume", str(step)),
            *self.floor.playback.set_volume(self.volume.gain),
            Observe("volume", now, {"step": step, "gain": self.volume.gain}),
            *self.telling.ask(Notice.VOLUME_CHANGED, now),
        ]

    # ---- the wearer ---------------------------------------------------------------------------

    def new_session(self, welcome: msg.Welcome, now: int) -> list[Effect]:
        """``welcome`` opened a session that was not there before."""
        self.wearer.policy(welcome.require_consent)
        self.policy(welcome.require_manual, next_turn=False)
        return self._renew(now, welcome.disclosure)

    def _new_wearer(self, now: int) -> list[Effect]:
        return [*self.telling.ask(Notice.NEW_WEARER, now), *self._renew(now)]

    def _renew(self, now: int, disclosure: msg.Disclosure | None = None) -> list[Effect]:
        voiced = disclosure is not None and disclosure.response_id is not None
        self.wearer.renew(now, disclosure.id if disclosure and voiced else SHIPPED)
        lane = self.floor.playback.lane
        lane.gated = self.wearer.gated
        self._voiced = disclosure.response_id if disclosure and lane.gated else None
        self._voiced_by_ns = now + VOICED_WITHIN_NS
        if self._voiced is not None:
            lane.expect_exempt(self._voiced)
        effects: list[Effect] = [Observe("wearer.new", now, {"wearer": self.wearer.name})]
        effects += self._disclose(now)
        if self.wearer.deaf:
            effects += self.telling.ask(Notice.CONSENT_ASKED, now)
        return effects

    def _disclose(self, now: int) -> list[Effect]:
        """The shipped prompt, unless the edge's own text is still to come."""
        if self._voiced is not None and now >= self._voiced_by_ns:
            playing = self.floor.playback.current == self._voiced
            self._voiced = self._voiced if playing else None
        pending = self._voiced is not None or self.telling.is_pending(Notice.DISCLOSURE)
        if not self.wearer.number or not self.wearer.gated or pending:
            return []
        self.wearer.disclosure = SHIPPED
        return self.telling.ask(Notice.DISCLOSURE, now)

    def _played(self, item: Item, now: int) -> list[Effect]:
        if self._voiced is None or item.response_id != self._voiced:
            return []
        if item.state is ItemState.PLAYED and item.whole:
            return self._disclosed(now)
        self._voiced = None  # cut off: the shipped one is played instead
        return []

    def _disclosed(self, now: int) -> list[Effect]:
        if not self.wearer.told():
            return []
        self.floor.playback.lane.gated = False
        return self._keep_wearer("disclosure", now)

    def _agree(self, by: str, now: int) -> list[Effect]:
        if not self.wearer.agree():
            return []
        return [*self._keep_wearer(by, now), *self.telling.ask(Notice.CONSENT_GIVEN, now)]

    def _agree_by_talking(self, now: int) -> list[Effect]:
        """Where consent is not asked for, who talks agrees."""
        disclosing = self.wearer.settings.disclose
        if self.wearer.required or not disclosing or not self.wearer.agree():
            return []
        return self._keep_wearer("talk", now)

    def _set_microphone(self) -> list[Effect]:
        deaf = self.muted or self.wearer.deaf
        if deaf == self._deaf:
            return []
        self._deaf = deaf
        return [ev.MuteMicrophone(deaf)]

    @property
    def deaf(self) -> bool:
        """The microphone is off, and has to be on a new card too."""
        return self._deaf

    # ---- what is told --------------------------------------------------------------------------

    def told_turn(self, before: TurnState, now: int) -> list[Effect]:
        """The turn may have gone on from state ``before``."""
        after = self.turn.state
        if after is before:
            return []
        if not self.turn.is_open:
            self.keys.turn_over()
        return self.telling.step(before, after, now)

    def abandoned(self, reason: str, now: int) -> list[Effect]:
        return self.telling.ask(Notice.TURN_DISCARDED, now) if reason in DISCARDED else []

    def long_turn(self, latched: bool, now: int) -> list[Effect]:
        notice = Notice.LATCHED_REMINDER if latched else Notice.LONG_HOLD_WARNING
        return self.telling.ask(notice, now)

    def _control_told(self, event: ev.ControlTold, now: int) -> list[Effect]:
        facts: dict[str, object] = {"control": event.control, event.name: event.value}
        effects: list[Effect] = [Observe("control.fact", now, facts)]
        if event.name == "battery" and isinstance(event.value, int):
            low = event.value <= LOW_BATTERY
            return effects + self._condition("low_battery", low, now)
        if event.name == "docked" and not event.value:
            return effects + self._new_wearer(now)
        return effects

    def _condition(self, name: str, present: bool, now: int) -> list[Effect]:
        if present == (name in self.conditions):
            return []
        if not present:
            self.conditions.discard(name)
            return [Observe("condition.over", now, {"condition": name})]
        self.conditions.add(name)
        notice = CONDITIONS.get(name)
        effects: list[Effect] = [Observe("condition", now, {"condition": name})]
        return effects + (self.telling.ask(notice, now) if notice is not None else [])
