"""Hands, voice, words, alerts and faults in any order, in every mode, on the real queue:
no order loses a commit, commits twice, commits what no gesture ended, or stops capture."""

from __future__ import annotations

from itertools import pairwise

from headset_rig import MS, Rig
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from test_machine import Life
from tiers import count

from handset.core import events as ev
from handset.core import messages as msg
from handset.core.floor import FloorSettings
from handset.core.keys import Key, KeySettings
from handset.core.person import PersonSettings
from handset.core.turn import TurnState
from handset.core.wearer import WearerSettings

MODES = st.sampled_from(["hold", "toggle", "tap_latch", "automatic"])
CONTROLS = st.sampled_from(["button", "second", "keyboard"])
# Volume is left alone: what it does to samples is not on this tape. So is a new wearer's
# consent, which only keeps things from happening.
KEYS = st.sampled_from([Key.TALK, Key.TALK, Key.TALK, Key.CANCEL, Key.ACKNOWLEDGE, Key.MUTE])
MANUAL = ("ptt", "toggle", "latch", "typed")


def check_turns(rig: Rig) -> None:
    """At any moment: every turn that was started ended at most once, by what may end it."""
    started = [event.turn for event in rig.of(msg.TurnStarted)]
    typed = [event.turn for event in rig.of(msg.TypedTurn)]
    numbers = sorted(started + typed)
    assert numbers == list(range(1, len(numbers) + 1)), "numbers rise by one"
    ends: dict[int | None, list[str]] = {}
    for event in (*rig.of(msg.Commit), *rig.of(msg.TurnAbandoned)):
        ends.setdefault(event.turn, []).append(event.TYPE)  # type: ignore[attr-defined]
    assert all(len(said) == 1 for said in ends.values()), f"a turn ended twice: {ends}"
    assert set(ends) <= set(started), "a turn ended that was never started"
    spans = sorted((c.capture.start, c.capture.end) for c in rig.of(msg.Commit))
    assert all(a[1] <= b[0] for a, b in pairwise(spans)), "shared samples"
    begun = [e.turn for e in rig.effects if isinstance(e, ev.BeginTurnAudio)]
    assert begun == started, "a turn without its audio"
    forgotten = {e.turn for e in rig.effects if isinstance(e, ev.ForgetTurnAudio)}
    committed = {c.turn for c in rig.of(msg.Commit)}
    assert not forgotten & committed, "audio of a committed turn was thrown away"


def check_gestures(rig: Rig) -> None:
    """A manual commit has a gesture behind the start of its turn: time alone made none."""
    since: dict[int, int] = {}
    gestures = 0
    for effect in rig.effects:
        if isinstance(effect, ev.Observe) and effect.kind in ("gesture", "turn.typed"):
            gestures += 1
        if not isinstance(effect, ev.Observe):
            continue
        if effect.kind == "turn.started":
            since[int(str(effect.facts["turn"]))] = gestures
        if effect.kind == "turn.committed" and effect.facts["source"] in MANUAL:
            turn = int(str(effect.facts["turn"]))
            if effect.facts["source"] != "typed":
                assert gestures > since[turn], f"turn {turn} was committed by no gesture"


class Conversation(Life):
    def new_rig(self) -> Rig:
        return Rig(seconds=0.6)

    @initialize(mode=MODES, tap=st.sampled_from(["stop", "resume"]), manual=st.booleans())
    def wear(self, mode: str, tap: str, manual: bool) -> None:
        self.rig = Rig(
            seconds=0.6,
            person=PersonSettings(
                KeySettings(mode),  # type: ignore[arg-type]
                FloorSettings(80 * MS, tap),
                WearerSettings(disclose=False),
                manual,
                tell=False,  # words duck a reply, and then it is not on the tape as it was
            ),
        )
        self.alerts = 0

    # ---- the person ---------------------------------------------------------------------------

    @rule(key=KEYS, down=st.booleans(), control=CONTROLS, ms=st.sampled_from([0, 5, 40, 90, 500]))
    def key(self, key: Key, down: bool, control: str, ms: int) -> None:
        self.rig.key(key, down, control)
        self.rig.pass_time(ms)

    @rule(key=KEYS, control=CONTROLS)
    def tap(self, key: Key, control: str) -> None:
        self.rig.tap(key, control)

    @rule(times=st.integers(1, 6))
    def bounce(self, times: int) -> None:
        for _ in range(times):
            self.rig.key(Key.TALK, True)
            self.rig.key(Key.TALK, False)

    @rule(control=CONTROLS, held=st.booleans())
    def control_back(self, control: str, held: bool) -> None:
        self.rig.tell(ev.ControlGone(control, self.rig.now, "gone"))
        self.rig.pass_time(40)
        down = frozenset({Key.TALK}) if held else frozenset()
        self.rig.tell(ev.ControlThere(control, self.rig.now, down))

    @rule(said=st.sampled_from(["suspected", "dismissed", "confirmed", "ended"]))
    def voice(self, said: str) -> None:
        now, at = self.rig.now, max(self.rig.position() - 9_600, 0)
        sample = msg.Estimate(at, at, at)
        event: ev.Event = ev.VoiceSuspected(now)
        if said == "dismissed":
            event = ev.VoiceDismissed(now)
        elif said == "confirmed":
            event = ev.VoiceConfirmed(now, sample)
        elif said == "ended":
            event = ev.VoiceEnded(now, sample)
        self.rig.tell(event)
        self.rig.pass_time(60)

    @rule(spoken=st.booleans())
    def listened(self, spoken: bool) -> None:
        self.rig.tell(ev.Listened(self.rig.now, spoken))

    @precondition(lambda self: self.rig.headset.floor.typed_room)
    @rule()
    def typed(self) -> None:
        self.rig.tell(ev.Typed("words"))

    # ---- the edge -----------------------------------------------------------------------------

    @precondition(Life.linked)
    @rule(manual=st.booleans(), scope=st.sampled_from(["session", "next_turn"]))
    def policy(self, manual: bool, scope: str) -> None:
        self.rig.edge_says(msg.Policy(require_manual=manual, scope=scope))  # type: ignore[arg-type]

    @precondition(Life.linked)
    @rule(delivery=st.sampled_from(["interrupt", "when_idle"]), ack=st.booleans())
    def alert(self, delivery: str, ack: bool) -> None:
        self.alerts += 1
        name = f"alert{self.alerts}"
        self.rig.edge_says(
            msg.Alert(
                alert_id=name,
                attempt=1,
                delivery=delivery,  # type: ignore[arg-type]
                source=msg.AlertSource("ledger"),
                response_id=f"{name}-r",
                acknowledge=ack,
            )
        )
        self.rig.say(f"{name}-r", f"{name}-i", 4_800)

    # ---- what must hold ---------------------------------------------------------------------

    @invariant()
    def turns_hold(self) -> None:
        check_turns(self.rig)
        check_gestures(self.rig)

    @invariant()
    def capture_goes_on(self) -> None:
        """Nothing but a hand on the mute key turns the microphone off."""
        asked = [e.muted for e in self.rig.effects if isinstance(e, ev.MuteMicrophone)]
        assert (asked[-1] if asked else False) == self.rig.headset.person.muted

    def let_the_floor_go(self) -> None:
        """Every key up, and what is still open cancelled; alerts acknowledged."""
        rig = self.rig
        for control in ("button", "second", "keyboard"):
            for key in (Key.TALK, Key.CANCEL, Key.ACKNOWLEDGE, Key.MUTE):
                rig.key(key, False, control)
        rig.run(400)
        if rig.headset.turn.state is not TurnState.IDLE:
            rig.tap(Key.CANCEL)
        rig.run(400)
        assert rig.headset.turn.state is TurnState.IDLE
        for _ in range(40):
            if not rig.headset.alerts.waiting:
                break
            rig.tap(Key.ACKNOWLEDGE)
            rig.run(700)
        assert not rig.headset.alerts.waiting

    def teardown(self) -> None:
        super().teardown()
        rig = self.rig
        check_turns(rig)
        started = {event.turn for event in rig.of(msg.TurnStarted)}
        ended = {e.turn for e in (*rig.of(msg.Commit), *rig.of(msg.TurnAbandoned))}
        assert started == ended, "a turn that never ended"
        delivered = {event.alert_id for event in rig.of(msg.AlertDelivered)}
        lost = {event.alert_id for event in rig.of(msg.AlertUndelivered)}
        assert len(delivered | lost) == self.alerts


def _hide(machine: type[RuleBasedStateMachine], *names: str) -> None:
    """Rules of the parent that this one has in another form."""
    for name in names:
        setattr(machine, name, None)


_hide(Conversation, "press", "release", "talk")

TestConversation = Conversation.TestCase
TestConversation.settings = settings(
    max_examples=count(30, 400, 4_000),
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
