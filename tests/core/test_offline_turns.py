"""Speaking while the link is down, or before there was one: kept, told, delivered, told."""

from __future__ import annotations

from dataclasses import replace

import pytest
from headset_rig import MS, Rig

from handset.core import events as ev
from handset.core import messages as msg
from handset.core.floor import FloorSettings
from handset.core.keys import Key, KeySettings
from handset.core.notices import Notice
from handset.core.person import PersonSettings
from handset.core.wearer import WearerSettings

TOLD = PersonSettings(floor=FloorSettings(80 * MS), wearer=WearerSettings(disclose=False))


def received(rig: Rig, turn: int) -> None:
    rig.edge_says(msg.CaptureReceived(turn=turn, samples=1))


def arrived(rig: Rig) -> list[str]:
    """Durable events in the order in which the edge got them, each once."""
    events = [m for _, m in rig.edge.messages if isinstance(m, msg.Durable)]
    return list(dict.fromkeys(event.event_id for event in events))


@pytest.mark.parametrize("when", ["before the first connection", "during an outage"])
def test_a_turn_without_a_connection_is_kept_and_delivered(when: str) -> None:
    rig = Rig(person=TOLD, connect=when == "during an outage")
    if rig.links:
        rig.lose_link()
    rig.press()
    rig.run(500)
    rig.release()
    rig.run(400)
    assert Notice.KEPT in rig.headset.person.telling.queue.waiting + tuple(rig.told())
    assert arrived(rig) == []
    rig.hear_notices()
    assert Notice.RECEIVED not in rig.told()
    rig.connect()
    rig.run(100)
    assert arrived(rig) == ["s1/turn/1/started", "s1/turn/1/commit"]
    assert not any(isinstance(e, ev.ForgetTurnAudio) for e in rig.effects)
    received(rig, 1)
    rig.hear_notices()
    assert Notice.RECEIVED in rig.told()
    assert any(isinstance(e, ev.ForgetTurnAudio) for e in rig.effects)
    rig.run(100)
    assert not rig.headset.outbox.pending()


def test_a_turn_with_a_connection_is_not_called_kept() -> None:
    rig = Rig(person=TOLD)
    rig.speak()
    received(rig, 1)
    rig.hear_notices()
    assert not {Notice.KEPT, Notice.RECEIVED} & set(rig.told())


def test_a_typed_turn_is_kept_and_received_when_it_is_acknowledged() -> None:
    rig = Rig(person=TOLD, connect=False)
    rig.tell(ev.Typed("hello"))
    rig.run(100)
    rig.hear_notices()
    assert rig.told() == [Notice.KEPT]
    rig.connect()
    rig.run(100)
    rig.hear_notices()
    assert Notice.RECEIVED in rig.told()
    assert arrived(rig) == ["s1/turn/1/commit"]


def test_what_is_parked_is_journalled_and_the_journal_is_not_reset_over_it() -> None:
    rig = Rig(person=TOLD, connect=False)
    rig.speak()
    rig.run(2_000)
    parked = [event for e in rig.effects if isinstance(e, ev.Park) for event in e.events]
    assert [type(event) for event in parked] == [msg.TurnStarted, msg.Commit]
    assert not any(isinstance(e, ev.ResetLog) for e in rig.effects)
    rig.connect()
    rig.run(500)
    assert any(isinstance(e, ev.Log) and e.record["k"] == "unparked" for e in rig.effects)
    assert any(isinstance(e, ev.ResetLog) for e in rig.effects)


def test_a_turn_that_spans_the_first_welcome_is_one_turn() -> None:
    rig = Rig(person=TOLD, connect=False)
    rig.press()
    rig.run(500)
    rig.connect()
    rig.run(200)
    rig.release()
    rig.run(400)
    assert arrived(rig) == ["s1/turn/1/started", "s1/turn/1/commit"]
    assert Notice.KEPT not in rig.told()


def test_after_the_session_has_ended_words_are_of_the_next_one() -> None:
    rig = Rig(person=TOLD)
    rig.edge_says(msg.Ended(reason="hours"))
    rig.speak()
    assert rig.of(msg.Commit) == []
    rig.lose_link()
    rig.edge.session = "s2"
    rig.connect()
    rig.run(100)
    assert [event.session for event in rig.of(msg.Commit)] == ["s2"]


def test_an_edge_that_wants_to_detect_turns_is_refused() -> None:
    rig = Rig(connect=False)
    rig.edge.welcome = {"turn_detection": "server"}
    with pytest.raises(AssertionError, match="no session"):
        rig.connect()
    said = [e for e in rig.effects if isinstance(e, ev.Observe) and e.kind == "session.refused"]
    assert said[0].facts["code"] == "turn_detection"
    faults = rig.sent_to_edge(msg.Fault)
    assert {fault.code for fault in faults} == {"turn_detection"}


# ---- what is told of a turn -------------------------------------------------------------------


def test_each_step_of_a_turn_that_a_person_must_know_is_told() -> None:
    rig = Rig(person=TOLD)
    rig.press()
    rig.run(30)
    assert rig.told() == [Notice.TALK_PERMIT]
    rig.hear_notices()
    rig.run(100)
    rig.tell(ev.ControlGone("button", rig.now, "unplugged"))
    rig.run(50)
    assert rig.told()[-1] is Notice.CONTROL_LOST
    rig.hear_notices()
    rig.tell(ev.ControlThere("button", rig.now, frozenset({Key.TALK})))
    rig.run(50)
    assert rig.told()[-1] is Notice.CONTROL_BACK
    rig.hear_notices()
    rig.run(60_100)
    assert rig.told()[-1] is Notice.LONG_HOLD_WARNING
    rig.hear_notices()
    rig.key(Key.CANCEL, True)
    rig.run(50)
    assert Notice.TURN_DISCARDED in rig.told()


def test_a_stuck_key_is_told_kept_and_settled_by_the_next_gesture() -> None:
    rig = Rig(person=TOLD)
    rig.press()
    for _ in range(61):
        rig.run(1_000)
        rig.tell(ev.Listened(rig.now, False))
        rig.hear_notices()
    assert Notice.STUCK_KEY in rig.told()
    assert rig.of(msg.Commit) == rig.of(msg.TurnAbandoned) == []
    rig.release()  # it came loose: that is no gesture
    rig.run(500)
    assert rig.of(msg.Commit) == []
    rig.hear_notices()
    assert Notice.WAITING_FOR_YOU in rig.told()
    rig.press()
    rig.run(300)
    assert [gone.reason for gone in rig.of(msg.TurnAbandoned)] == ["stuck_key"]
    rig.release()
    rig.run(400)
    assert [commit.turn for commit in rig.of(msg.Commit)] == [2]


def test_mute_is_real_visible_and_denies_a_turn() -> None:
    rig = Rig(person=TOLD)
    rig.tap(Key.MUTE)
    assert [e.muted for e in rig.effects if isinstance(e, ev.MuteMicrophone)] == [True]
    lamps = [e.pattern.name for e in rig.effects if isinstance(e, ev.ShowLamp)]
    assert lamps[-1] == "muted"
    rig.hear_notices()
    rig.press()
    rig.run(50)
    assert rig.told()[-1] is Notice.DENY and rig.of(msg.TurnStarted) == []
    rig.unplug()
    rig.plug()  # it stays off on another card
    assert [e.muted for e in rig.effects if isinstance(e, ev.MuteMicrophone)] == [True, True]
    rig.release()
    rig.tap(Key.MUTE)
    rig.hear_notices()
    assert Notice.MUTE_OFF in rig.told()


def test_volume_zero_holds_the_lane_and_hands_nothing_into_silence() -> None:
    rig = Rig(person=TOLD)
    for _ in range(10):
        rig.tap(Key.VOLUME_DOWN)
    rig.say("r", "a", 4_800)
    rig.run(500)
    assert rig.headset.playback.ledger.items["a"].handed == 0
    rig.press()
    rig.run(300)
    rig.release()
    rig.run(400)
    rig.say("s", "b", 4_800, turn=1)
    rig.run(300)
    assert rig.headset.playback.ledger.items["b"].handed == 0  # a clear ends no mute
    rig.tap(Key.VOLUME_UP)
    rig.run(500)
    output = rig.finals()["b"].cursor.output
    assert output is not None and 0 < output.gain < 0.05
    rig.tap(Key.VOLUME_DOWN)
    rig.tap(Key.VOLUME_DOWN)
    assert Notice.VOLUME_LIMIT in rig.told() + list(rig.headset.person.telling.queue.waiting)


def test_what_the_handset_said_in_a_turn_is_marked_in_its_commit() -> None:
    rig = Rig(person=TOLD)
    rig.press()
    rig.run(50)
    at = rig.position()
    rig.tell(ev.NoticePlayed("talk_permit/tone", msg.Span(at - 2_400, at + 4_800)))
    rig.tell(ev.NoticePlayed("ready/prompt", msg.Span(0, 10)))
    rig.run(500)
    rig.release()
    rig.run(400)
    (commit,) = rig.of(msg.Commit)
    assert [mark.name for mark in commit.notices] == ["talk_permit/tone"]


@pytest.mark.parametrize("name", ["low_battery", "undervoltage", "too_hot"])
def test_a_condition_is_told_once_and_again_when_it_comes_back(name: str) -> None:
    rig = Rig(person=TOLD)
    for present in (True, True, False, True):
        rig.tell(ev.Condition(name, present))
        rig.run(6 * 60_000 // 60)
        rig.hear_notices()
    kinds = [e.kind for e in rig.effects if isinstance(e, ev.Observe) and "condition" in e.kind]
    assert kinds == ["condition", "condition.over", "condition"]
    assert Notice(name) in rig.told()


@pytest.mark.parametrize(
    ("key", "task", "well", "notice"),
    [
        (Key.SELF_TEST, "self_test", True, Notice.SELF_TEST_OK),
        (Key.SELF_TEST, "self_test", False, Notice.SELF_TEST_FAILED),
        (Key.PAIR, "pair", True, Notice.PAIRED),
        (Key.PAIR, "pair", False, Notice.DENY),
    ],
)
def test_a_task_is_run_once_at_a_time_and_its_end_is_told(
    key: Key, task: ev.Task, well: bool, notice: Notice
) -> None:
    rig = Rig(person=replace(TOLD, tasks=frozenset({task})))
    rig.tap(key)
    assert [e.task for e in rig.effects if isinstance(e, ev.RunTask)] == [task]
    rig.hear_notices()
    rig.tap(key)
    assert sum(isinstance(e, ev.RunTask) for e in rig.effects) == 1
    rig.run(6_000)
    rig.hear_notices()
    rig.tell(ev.TaskDone(task, well))
    rig.hear_notices()
    assert rig.notices[-1][0] is notice


def test_a_task_that_there_is_no_program_for_is_denied() -> None:
    rig = Rig(person=TOLD)
    rig.tap(Key.PAIR)
    assert rig.told() == [Notice.DENY]
    assert not any(isinstance(e, ev.RunTask) for e in rig.effects)


def test_a_puck_s_low_battery_is_a_condition() -> None:
    rig = Rig(person=TOLD)
    rig.tell(ev.ControlTold("puck", "battery", 9))
    rig.hear_notices()
    assert Notice.LOW_BATTERY in rig.told()


def test_a_key_that_is_down_when_its_control_appears_starts_nothing() -> None:
    rig = Rig(person=PersonSettings(KeySettings(), tell=True))
    rig.tell(ev.ControlThere("button", rig.now, frozenset({Key.TALK})))
    rig.run(500)
    assert rig.of(msg.TurnStarted) == []
    rig.hear_notices()
    assert Notice.STUCK_KEY in rig.told()
    rig.release()
    rig.run(100)
    rig.speak()
    assert len(rig.of(msg.Commit)) == 1
