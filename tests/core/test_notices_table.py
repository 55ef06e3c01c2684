"""The closed set of notices, as a table."""

from __future__ import annotations

import pytest

from handset.core.notices import PROMPTS, RULES, TONES, Notice, Part, Urgency, notice_table


def test_every_notice_has_a_rule_and_a_sound() -> None:
    assert set(RULES) == set(Notice)
    assert all(RULES[notice].parts for notice in Notice)
    assert {*TONES, *PROMPTS} == set(Notice)


def test_a_tone_comes_before_its_words() -> None:
    assert {RULES[notice].parts for notice in Notice} == {
        (Part.TONE,),
        (Part.PROMPT,),
        (Part.TONE, Part.PROMPT),
    }


@pytest.mark.parametrize("notice", Notice)
def test_only_a_tone_may_sound_in_a_turn(notice: Notice) -> None:
    rule = RULES[notice]

    assert rule.tone or not rule.while_talking
    assert rule.prompt or not rule.over_reply, "a tone may always sound over a reply"


@pytest.mark.parametrize("notice", Notice)
def test_what_answers_a_press_is_a_tone_and_never_late(notice: Notice) -> None:
    rule = RULES[notice]

    if rule.urgency is Urgency.TALK:
        assert rule.parts == (Part.TONE,) and rule.while_talking and not rule.gap_ms
        assert 0 < rule.fresh_ms <= 500


def test_what_the_person_must_be_told_waits_as_long_as_it_takes() -> None:
    must = {
        Notice.KEPT,
        Notice.RECEIVED,
        Notice.DISCLOSURE,
        Notice.CONSENT_ASKED,
        Notice.CONTROL_LOST,
        Notice.STUCK_KEY,
        Notice.SELF_TEST_FAILED,
    }
    assert all(RULES[notice].prompt and not RULES[notice].fresh_ms for notice in must)


def test_the_fate_of_a_turn_is_told_without_words() -> None:
    assert RULES[Notice.TURN_DISCARDED].parts == (Part.TONE,)


def test_the_table_for_people_has_each_once() -> None:
    lines = notice_table().splitlines()[2:]

    assert sorted(line.split("`")[1] for line in lines) == sorted(Notice)
