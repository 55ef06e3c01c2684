"""Who wears the headset is told once, asked once, and asked anew when it may be another."""

from __future__ import annotations

import pytest
from headset_rig import MS, Rig

from handset.core import events as ev
from handset.core import messages as msg
from handset.core.floor import FloorSettings
from handset.core.keys import Key
from handset.core.notices import Notice, Part
from handset.core.person import PersonSettings
from handset.core.wearer import WearerSettings

ASKING = PersonSettings(floor=FloorSettings(80 * MS))
HOUR = 3_600_000


def mutes(rig: Rig) -> list[bool]:
    return [effect.muted for effect in rig.effects if isinstance(effect, ev.MuteMicrophone)]


def consents(rig: Rig) -> list[msg.WearerConsent]:
    return rig.of(msg.WearerConsent)


def disclosures(rig: Rig) -> int:
    return rig.notices.count((Notice.DISCLOSURE, Part.PROMPT))


def test_no_reply_is_played_before_the_person_was_told() -> None:
    rig = Rig(person=ASKING)
    rig.say("r", "a", 4_800)
    rig.run(1_000)
    assert rig.finals() == {} and consents(rig) == []
    assert disclosures(rig) == 1
    rig.hear_notices()
    rig.run(500)
    assert rig.final_states() == {"a": "played"}
    (told,) = consents(rig)
    assert (told.disclosed, told.disclosure, told.by) == (True, "shipped", "disclosure")
    assert told.recording is False


def test_a_press_cuts_the_disclosure_and_it_is_said_again_from_its_beginning() -> None:
    rig = Rig(person=ASKING)
    rig.run(100)
    rig.press()
    rig.run(300)
    assert any(isinstance(effect, ev.FlushNotices) for effect in rig.effects)
    rig.release()
    rig.run(600)
    assert len(rig.of(msg.Commit)) == 1  # the words are not lost for it
    rig.hear_notices()
    assert disclosures(rig) == 2
    assert [c.by for c in consents(rig)] == ["talk", "disclosure"]


def test_the_edge_s_own_text_is_played_first_and_is_the_disclosure() -> None:
    rig = Rig(person=ASKING, connect=False)
    rig.edge.welcome = {"disclosure": msg.Disclosure("d7", "I am a machine.", "r0")}
    rig.connect()
    rig.say("r", "a", 4_800)
    rig.say("r0", "d", 4_800)
    rig.run(150)
    assert next(iter(rig.headset.playback.ledger.items)) in ("a", "d") and disclosures(rig) == 0
    rig.run(800)
    assert rig.final_states() == {"d": "played", "a": "played"}
    assert consents(rig)[0].disclosure == "d7"
    assert disclosures(rig) == 0


@pytest.mark.parametrize("how", ["cut", "late"])
def test_where_the_edge_s_text_does_not_reach_its_end_the_shipped_one_is_said(how: str) -> None:
    rig = Rig(person=ASKING, connect=False)
    rig.edge.welcome = {"disclosure": msg.Disclosure("d7", "I am a machine.", "r0")}
    rig.connect()
    if how == "cut":
        rig.say("r0", "d", 24_000)
        rig.run(200)
        rig.press()
        rig.run(300)
        rig.release()
        rig.run(700)
    else:
        rig.run(10_500)
    rig.hear_notices()
    assert disclosures(rig) == 1
    rig.run(100)
    assert consents(rig)[-1].disclosure == "shipped"


def test_where_consent_is_required_the_microphone_is_off_until_a_gesture() -> None:
    rig = Rig(person=ASKING, connect=False)
    rig.edge.welcome = {"require_consent": True}
    rig.connect()
    assert mutes(rig) == [True]
    rig.press()
    rig.run(100)
    rig.release()
    rig.run(100)
    assert rig.of(msg.TurnStarted) == [] and consents(rig) == []
    rig.hear_notices()
    assert {Notice.DENY, Notice.CONSENT_ASKED} <= set(rig.told())
    rig.tap(Key.ACKNOWLEDGE)
    assert mutes(rig) == [True, False]
    agreed = consents(rig)[-1]
    assert (agreed.capture, agreed.recording, agreed.by) == (True, False, "acknowledge")
    rig.speak()
    assert len(rig.of(msg.Commit)) == 1


def test_one_button_is_enough_to_agree_once_it_was_asked() -> None:
    rig = Rig(person=ASKING, connect=False)
    rig.edge.welcome = {"require_consent": True}
    rig.connect()
    rig.hear_notices()
    rig.tap(Key.TALK)
    assert consents(rig)[-1].by == "talk"
    assert rig.of(msg.TurnStarted) == []
    rig.speak()
    assert len(rig.of(msg.Commit)) == 1


def test_a_resumed_session_asks_nobody_again_and_a_new_one_does() -> None:
    rig = Rig(person=ASKING)
    rig.hear_notices()
    rig.run(100)
    rig.lose_link()
    rig.connect()
    rig.run(100)
    assert disclosures(rig) == 1
    rig.lose_link()
    rig.edge.session = "s2"
    rig.connect()
    rig.hear_notices()
    rig.run(100)
    assert disclosures(rig) == 2
    assert len({consent.wearer for consent in consents(rig)}) == 2


@pytest.mark.parametrize("how", ["gesture", "long press", "docked", "idle"])
def test_another_wearer_is_told_anew(how: str) -> None:
    rig = Rig(person=ASKING)
    rig.tap(Key.VOLUME_DOWN)
    rig.hear_notices()
    before = rig.headset.person.wearer.name
    if how == "gesture":
        rig.tap(Key.NEW_WEARER)
    elif how == "long press":
        rig.key(Key.ACKNOWLEDGE, True)
        rig.run(5_100)
        rig.key(Key.ACKNOWLEDGE, False)
    elif how == "docked":
        rig.tell(ev.ControlTold("puck", "docked", 1))
        rig.tell(ev.ControlTold("puck", "docked", 0))
    else:
        rig.card.hang(5 * HOUR * MS)
        rig.tap(Key.VOLUME_UP)
    rig.run(100)
    rig.hear_notices()
    assert rig.headset.person.wearer.name != before
    assert disclosures(rig) == 2


def test_another_wearer_does_not_inherit_an_open_turn() -> None:
    rig = Rig(person=ASKING)
    rig.hear_notices()
    rig.press()
    rig.run(500)
    rig.key(Key.NEW_WEARER, True, "second")
    rig.run(300)
    assert rig.of(msg.TurnAbandoned)[0].reason == "cancelled"
    assert rig.of(msg.Commit) == []


def test_idle_is_no_renewal_for_who_just_talks() -> None:
    rig = Rig(
        person=PersonSettings(
            floor=FloorSettings(80 * MS), wearer=WearerSettings(idle_ns=10_000 * MS)
        )
    )
    rig.hear_notices()
    for _ in range(4):
        rig.speak()
        rig.run(6_000)
        rig.hear_notices()
    assert disclosures(rig) == 1
