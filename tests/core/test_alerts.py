"""Alerts: played whole where they can be heard, or said not to have been."""

from __future__ import annotations

import pytest
from headset_invariants import check_at_rest
from headset_rig import MS, Rig

from handset.core import events as ev
from handset.core import messages as msg
from handset.core.floor import FloorSettings
from handset.core.keys import Key
from handset.core.notices import Notice
from handset.core.person import PersonSettings
from handset.core.volume import AUDIBLE, gain
from handset.core.wearer import WearerSettings

SOURCE = msg.AlertSource("ledger", "receipt-9", "commitment-3", "command-1")
TOLD = PersonSettings(
    floor=FloorSettings(80 * MS), wearer=WearerSettings(disclose=False), tell=True
)


def alert(
    rig: Rig,
    delivery: str = "when_idle",
    *,
    attempt: int = 1,
    name: str = "A",
    acknowledge: bool = False,
    expires_in_ms: int | None = None,
    voiced: bool = True,
    whole: bool = True,
    samples: int = 9_600,
) -> str:
    """Arrives with its audio; returns its response's id."""
    response = f"{name}-r{attempt}"
    rig.edge_says(
        msg.Alert(
            alert_id=name,
            attempt=attempt,
            delivery=delivery,  # type: ignore[arg-type]
            source=SOURCE,
            response_id=response if voiced else None,
            acknowledge=acknowledge,
            expires_in_ms=expires_in_ms,
        )
    )
    if voiced:
        rig.response(response)
        rig.start_item(f"{response}-i", response)
        rig.audio(f"{response}-i", samples)
        if whole:
            rig.end_item(f"{response}-i", samples)
            rig.done(response)
    return response


def delivered(rig: Rig) -> list[msg.AlertDelivered]:
    return rig.of(msg.AlertDelivered)


def test_when_idle_it_is_played_and_said_with_its_evidence() -> None:
    rig = Rig(person=TOLD)
    alert(rig)
    rig.run(200)
    assert delivered(rig) == []  # it is still being played
    rig.run(600)
    (event,) = delivered(rig)
    assert (event.how, event.plays, event.source) == ("played", 1, SOURCE)
    assert (event.items[0].state, event.items[0].played) == ("played", 9_600)
    assert event.output is not None and event.output.gain == 1.0 and not event.output.muted
    assert not rig.headset.alerts.waiting
    check_at_rest(rig)


def test_it_waits_for_a_reply_and_for_a_person() -> None:
    rig = Rig(person=TOLD)
    rig.say("r", "a", 24_000)
    rig.run(100)
    alert(rig)
    rig.run(500)
    rig.press()
    rig.run(1_500)
    assert "A-r1-i" not in rig.finals()
    rig.release()
    rig.run(1_500)
    assert rig.final_states() == {"a": "cleared", "A-r1-i": "played"}
    assert len(delivered(rig)) == 1


def test_one_that_interrupts_stops_the_reply_and_no_person() -> None:
    rig = Rig(person=TOLD)
    rig.say("r", "a", 48_000)
    rig.play(14_400)
    alert(rig, "interrupt")
    rig.run(800)
    assert rig.final_states() == {"a": "cleared", "A-r1-i": "played"}
    assert rig.of(msg.PlayoutCleared)[0].causes[0].kind == "alert"
    rig.press()
    rig.run(200)
    alert(rig, "interrupt", name="B")
    rig.run(1_000)
    assert len(delivered(rig)) == 1 and not rig.headset.alerts.playing
    rig.release()
    rig.run(1_500)
    assert len(delivered(rig)) == 2


@pytest.mark.parametrize("times", [1, 3])
def test_cut_off_it_is_played_again_by_itself(times: int) -> None:
    rig = Rig(person=TOLD)
    alert(rig)
    for time in range(times):
        rig.run(250 if time == 0 else 850)
        assert rig.headset.alerts.playing
        rig.press()
        rig.run(300)
        rig.release()
        rig.run(100)
        assert delivered(rig) == []
    rig.lose_link()  # it needs no edge for that
    rig.run(3_000)
    rig.connect()
    rig.run(100)
    (event,) = delivered(rig)
    assert event.plays == times + 1
    (item,) = event.items
    assert (item.item_id, item.played) == (f"A-r1-i~{times + 1}", 9_600)
    states = rig.final_states()
    assert states["A-r1-i"] == "cleared"
    assert states[f"A-r1-i~{times + 1}"] == "played"


def test_the_card_is_unplugged_in_the_middle_of_it() -> None:
    rig = Rig(person=TOLD)
    alert(rig)
    rig.run(250)
    rig.unplug()
    rig.run(3_000)
    assert delivered(rig) == []
    rig.plug(44_100)
    rig.run(2_500)
    (event,) = delivered(rig)
    assert event.plays == 2


@pytest.mark.parametrize("steps", [8, 10])
def test_where_it_can_t_be_heard_it_waits(steps: int) -> None:
    """Below the floor, and muted."""
    rig = Rig(person=TOLD)
    for _ in range(steps):
        rig.tap(Key.VOLUME_DOWN)
    alert(rig)
    rig.run(3_000)
    assert delivered(rig) == []
    for _ in range(steps):
        rig.tap(Key.VOLUME_UP)
    rig.run(1_500)
    (event,) = delivered(rig)
    assert event.plays == 1  # it was not begun where nobody would have heard it


def test_turned_down_in_the_middle_it_does_not_count() -> None:
    rig = Rig(person=TOLD)
    alert(rig, samples=48_000)
    rig.run(300)
    for _ in range(9):
        rig.tap(Key.VOLUME_DOWN)
    rig.run(3_000)
    assert delivered(rig) == []
    for _ in range(9):
        rig.tap(Key.VOLUME_UP)
    rig.run(5_000)
    (event,) = delivered(rig)
    assert event.plays == 2
    assert event.output is not None and event.output.gain >= gain(AUDIBLE)


def test_it_is_not_begun_before_all_of_it_is_there() -> None:
    rig = Rig(person=TOLD)
    response = alert(rig, whole=False)
    rig.run(1_000)
    assert rig.finals() == {} and not rig.headset.alerts.playing
    rig.end_item(f"{response}-i", 9_600)
    rig.done(response)
    rig.run(1_000)
    assert len(delivered(rig)) == 1


@pytest.mark.parametrize("key", [Key.ACKNOWLEDGE, Key.TALK])
def test_the_button_acknowledges_what_was_delivered(key: Key) -> None:
    rig = Rig(person=TOLD)
    alert(rig, acknowledge=True)
    rig.run(100)
    rig.tap(Key.ACKNOWLEDGE)  # too early: nothing was delivered yet
    assert rig.of(msg.AlertAcknowledged) == []
    rig.run(800)
    assert len(delivered(rig)) == 1
    assert [n for n, _ in rig.notices].count(Notice.ALERT_WAITING) == 1
    rig.tap(key)
    (event,) = rig.of(msg.AlertAcknowledged)
    assert (event.alert_id, event.source) == ("A", SOURCE)
    rig.tap(Key.ACKNOWLEDGE)
    assert len(rig.of(msg.AlertAcknowledged)) == 1
    assert rig.of(msg.Commit) == []


def test_it_reminds_until_it_is_acknowledged() -> None:
    rig = Rig(person=TOLD)
    alert(rig, acknowledge=True)
    rig.run(1_000)
    for _ in range(3):
        rig.hear_notices()
        rig.run(20_100)
    assert sum(notice is Notice.ALERT_WAITING for notice, _ in rig.notices) == 4


def test_a_silent_one_is_shown() -> None:
    rig = Rig(person=TOLD)
    alert(rig, "silent", voiced=False, acknowledge=True)
    rig.run(100)
    (event,) = delivered(rig)
    assert (event.how, event.items) == ("shown", [])
    rig.tap(Key.ACKNOWLEDGE)
    assert len(rig.of(msg.AlertAcknowledged)) == 1


def test_it_expires_undelivered_or_unacknowledged() -> None:
    rig = Rig(person=TOLD)
    rig.press()
    alert(rig, expires_in_ms=500)
    alert(rig, "silent", name="B", voiced=False, acknowledge=True, expires_in_ms=3_000)
    rig.run(1_000)
    (event,) = rig.of(msg.AlertUndelivered)
    assert (event.alert_id, event.reason, event.delivered) == ("A", "expired", False)
    rig.release()
    rig.run(3_000)
    last = rig.of(msg.AlertUndelivered)[-1]
    assert (last.alert_id, last.reason, last.delivered) == ("B", "expired", True)
    assert not rig.headset.alerts.waiting
    assert rig.finals() == {}


def test_withdrawn_it_is_played_no_further() -> None:
    rig = Rig(person=TOLD)
    alert(rig)
    rig.run(250)
    rig.edge_says(msg.AlertWithdraw(alert_id="A"))
    rig.run(1_500)
    assert [event.reason for event in rig.of(msg.AlertUndelivered)] == ["withdrawn"]
    assert rig.final_states() == {"A-r1-i": "cleared"}
    assert delivered(rig) == []
    check_at_rest(rig)


def test_offered_again_it_is_delivered_once() -> None:
    rig = Rig(person=TOLD)
    rig.press()  # nothing is begun
    alert(rig)
    alert(rig)  # the same
    alert(rig, attempt=2)
    rig.release()
    rig.run(2_000)
    (event,) = delivered(rig)
    assert (event.attempt, event.plays) == (2, 1)
    alert(rig, attempt=2)  # it has ended
    rig.run(1_500)
    assert len(delivered(rig)) == 1


def test_a_higher_attempt_replaces_what_never_came_whole() -> None:
    rig = Rig(person=TOLD)
    alert(rig, whole=False)
    rig.lose_link()
    rig.connect()
    rig.run(100)
    alert(rig, attempt=2)
    rig.run(1_500)
    (event,) = delivered(rig)
    assert (event.attempt, event.items[0].item_id) == (2, "A-r2-i")


def test_a_new_session_ends_what_was_not_delivered_and_says_so() -> None:
    rig = Rig(person=TOLD)
    rig.press()
    alert(rig)
    rig.lose_link()
    rig.edge.session = "s2"
    rig.connect()
    rig.release()
    rig.run(2_000)
    (event,) = rig.of(msg.AlertUndelivered)
    assert (event.reason, event.session) == ("session_end", "s1")
    assert delivered(rig) == []


def test_a_commit_makes_no_alert_stale() -> None:
    rig = Rig(person=TOLD)
    rig.press()
    rig.run(300)
    alert(rig)
    rig.release()
    rig.run(1_500)
    assert len(rig.of(msg.Commit)) == len(delivered(rig)) == 1


def test_the_events_are_of_its_domain() -> None:
    rig = Rig(person=TOLD)
    alert(rig)
    rig.run(900)
    assert {event.domain for event in delivered(rig)} == {"alert"}
    assert not any(isinstance(effect, ev.Exit) for effect in rig.effects)
