"""From contacts to gestures: no press lost, none invented, whatever bounces."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiers import count

from handset.core.keys import (
    HELD,
    REPEAT_AFTER_NS,
    REPEAT_NS,
    Back,
    Gesture,
    Key,
    KeyFact,
    Keys,
    KeySettings,
    Lost,
    Made,
    Mode,
    StuckAtStart,
)
from handset.fakes.contact import LONGEST_BOUNCE_NS, Contact

MS = 1_000_000
LOOK_NS = 20 * MS
MODES: list[Mode] = ["hold", "toggle", "tap_latch", "automatic"]


def gestures(facts: list[KeyFact]) -> list[Gesture]:
    return [fact.gesture for fact in facts if isinstance(fact, Made)]


class Hand:
    """Keys on a clock that is looked at every 20 ms."""

    def __init__(self, settings: KeySettings | None = None) -> None:
        self.keys = Keys(settings or KeySettings())
        self.now = 1_000 * MS
        self.facts: list[KeyFact] = []

    def level(self, down: bool, key: Key = Key.TALK, control: str = "b") -> None:
        self.facts += self.keys.level(control, key, down, self.now)

    def wait(self, ms: float) -> None:
        until = self.now + round(ms * MS)
        while self.now < until:
            self.now = min(self.now + LOOK_NS, until)
            self.facts += self.keys.tick(self.now)

    def press(self, ms: float, key: Key = Key.TALK, control: str = "b") -> None:
        self.level(True, key, control)
        self.wait(ms)
        self.level(False, key, control)
        self.wait(80)


def expected(mode: Mode, held_ms: int) -> list[Gesture]:
    if mode == "toggle":
        return [Gesture.TOGGLE]
    tap = mode == "tap_latch" and held_ms < 400
    return [Gesture.TALK, Gesture.LATCH if tap else Gesture.LET_GO]


@pytest.mark.grows
@pytest.mark.parametrize("mode", MODES)
def test_presses_with_bounce(mode: Mode) -> None:
    """10,000 in all four modes together in the suite."""
    rng, contact = random.Random(5), Contact(seed=5)
    hand = Hand(KeySettings(mode))
    pressed: list[tuple[int, int]] = []
    wanted: list[Gesture] = []
    for _ in range(count(2_500, 10_000, 100_000)):
        held = rng.choice([12, 30, 60, 90, 200, 700])
        down_ns, up_ns = hand.now, hand.now + held * MS
        edges = contact.edge(True, down_ns) + contact.edge(False, up_ns)
        for down, at_ns in sorted(edges, key=lambda edge: edge[1]):
            hand.wait((at_ns - hand.now) / MS)
            hand.level(down)
        hand.wait(rng.choice([60, 61, 75, 300]) + LONGEST_BOUNCE_NS / MS)
        pressed.append((down_ns, up_ns))
        wanted += expected(mode, held)
    made = [fact for fact in hand.facts if isinstance(fact, Made)]
    assert [fact.gesture for fact in made] == wanted
    begins = [fact.at_ns for fact in made if fact.gesture in (Gesture.TALK, Gesture.TOGGLE)]
    assert begins == [down for down, _ in pressed]  # on the first contact, to the ns
    ends = [fact.at_ns for fact in made if fact.gesture in (Gesture.LET_GO, Gesture.LATCH)]
    if ends:
        late = [end - up for end, (_, up) in zip(ends, pressed, strict=True)]
        assert min(late) >= 0 and max(late) < LONGEST_BOUNCE_NS


LEVELS = st.lists(st.tuples(st.booleans(), st.integers(1, 120)), max_size=40)


@given(LEVELS, st.sampled_from(MODES))
def test_a_consumer_that_is_late_gets_the_same_gestures(
    levels: list[tuple[bool, int]], mode: Mode
) -> None:
    """Looked at every 5 ms, or only when it is all over."""
    told: list[list[tuple[Gesture, int]]] = []
    for patient in (False, True):
        keys, now = Keys(KeySettings(mode)), 0
        facts: list[KeyFact] = []
        for down, wait_ms in levels:
            facts += keys.level("b", Key.TALK, down, now)
            for _ in range(wait_ms):
                now += MS
                if not patient and now % (5 * MS) == 0:
                    facts += keys.tick(now)
        for _ in range(20):
            now += 20 * MS
            facts += keys.tick(now)
        told.append([(f.gesture, f.at_ns) for f in facts if isinstance(f, Made)])
    assert sorted(told[0], key=lambda g: g[1]) == sorted(told[1], key=lambda g: g[1])


def test_a_release_is_not_believed_before_the_contact_had_time_to_close_again() -> None:
    """The clock is ahead of what the control has told: a look after a long stall."""
    keys = Keys(KeySettings())
    keys.level("b", Key.TALK, True, 0)
    keys.level("b", Key.TALK, False, 100 * MS)
    assert keys.tick(300 * MS) == []  # the first look that sees it open
    assert keys.level("b", Key.TALK, True, 103 * MS) == []  # a bounce, told late
    assert keys.tick(320 * MS) == keys.tick(400 * MS) == []


def test_a_press_within_the_release_time_is_the_same_press() -> None:
    hand = Hand()
    hand.level(True)
    hand.wait(500)
    hand.level(False)
    hand.now += 20 * MS
    hand.level(True)
    hand.wait(500)
    hand.level(False)
    hand.wait(80)
    assert gestures(hand.facts) == [Gesture.TALK, Gesture.LET_GO]
    hand.press(200)
    assert gestures(hand.facts)[2:] == [Gesture.TALK, Gesture.LET_GO]


def test_it_is_down_once_on_two_controls() -> None:
    hand = Hand()
    hand.level(True, control="b")
    hand.wait(200)
    hand.level(True, control="c")
    hand.wait(200)
    hand.level(False, control="b")
    hand.wait(200)
    assert gestures(hand.facts) == [Gesture.TALK]
    hand.level(False, control="c")
    hand.wait(80)
    assert gestures(hand.facts) == [Gesture.TALK, Gesture.LET_GO]


def test_a_control_that_goes_away_in_a_hold_is_lost_and_may_come_back_held() -> None:
    hand = Hand()
    hand.level(True)
    hand.wait(100)
    assert hand.keys.lost("b", hand.now) == [Lost("b", hand.now)]
    assert hand.keys.back("b", hand.now, [Key.TALK]) == [Back("b", hand.now, held=True)]
    hand.level(False)
    hand.wait(80)
    assert gestures(hand.facts) == [Gesture.TALK, Gesture.LET_GO]


def test_a_control_that_is_not_used_is_not_missed() -> None:
    hand = Hand()
    hand.press(100)
    assert hand.keys.lost("b", hand.now) == []
    hand.level(True, control="c")
    assert hand.keys.lost("b", hand.now) == []


def test_a_switch_is_missed_until_its_turn_is_over() -> None:
    hand = Hand(KeySettings("toggle"))
    hand.press(100)
    assert hand.keys.lost("b", hand.now) == [Lost("b", hand.now)]
    assert hand.keys.back("b", hand.now, []) == [Back("b", hand.now, held=False)]
    hand.keys.turn_over()
    assert hand.keys.lost("b", hand.now) == []


def test_a_key_that_is_down_as_its_control_appears_is_stuck_until_it_was_up() -> None:
    hand = Hand()
    facts = hand.keys.back("b", hand.now, [Key.TALK, Key.CANCEL])
    assert facts == [StuckAtStart("b", Key.CANCEL), StuckAtStart("b", Key.TALK)]
    hand.wait(10_000)
    hand.level(False)
    hand.wait(80)
    assert hand.facts == []
    hand.press(100)
    assert gestures(hand.facts) == [Gesture.TALK, Gesture.LET_GO]


@pytest.mark.parametrize("key", HELD)
def test_a_key_that_is_held_long_means_more(key: Key) -> None:
    long_ns, gesture = HELD[key]
    hand = Hand()
    hand.press(long_ns / MS - 50, key)
    (first,) = gestures(hand.facts)
    hand.press(long_ns / MS + 3_000, key)
    assert gestures(hand.facts) == [first, first, gesture]  # once


def test_volume_repeats_while_it_is_held() -> None:
    hand = Hand()
    hand.press(1_600, Key.VOLUME_UP)
    times = (1_600 * MS - REPEAT_AFTER_NS) // REPEAT_NS
    assert len(gestures(hand.facts)) in (1 + times, 2 + times)
    assert set(gestures(hand.facts)) == {Gesture.LOUDER}


@pytest.mark.parametrize("control", ["keyboard", "local"])
def test_a_switch_toggles_whatever_the_mode_and_needs_no_time(control: str) -> None:
    keys = Keys(KeySettings("hold"))
    facts: list[KeyFact] = []
    for n in range(6):
        facts += keys.level(control, Key.TALK, True, n)
        facts += keys.level(control, Key.TALK, False, n)
    assert gestures(facts) == [Gesture.TOGGLE] * 6


def test_a_program_s_release_is_one_at_once() -> None:
    keys = Keys(KeySettings())
    keys.level("lines", Key.TALK, True, 0)
    (made,) = keys.level("lines", Key.TALK, False, 7)
    assert isinstance(made, Made) and (made.gesture, made.held_ns) == (Gesture.LET_GO, 7)


def test_at_the_end_what_is_open_was_let_go() -> None:
    keys = Keys(KeySettings())
    keys.level("b", Key.TALK, True, 0)
    assert keys.finish(100 * MS) == []
    keys.level("b", Key.TALK, False, 150 * MS)
    (made,) = keys.finish(151 * MS)
    assert isinstance(made, Made) and made.at_ns == 150 * MS


def test_up_to_when_the_talk_key_is_known_to_have_been_down() -> None:
    keys = Keys(KeySettings())
    keys.level("b", Key.TALK, True, 0)
    assert keys.talk_down_until(90 * MS) == 90 * MS
    keys.level("b", Key.TALK, False, 60 * MS)
    assert keys.talk_down_until(90 * MS) == 60 * MS
    keys.level("c", Key.TALK, True, 70 * MS)
    assert keys.talk_down_until(90 * MS) == 90 * MS


def test_every_key_makes_a_gesture_of_its_own() -> None:
    made = {}
    for key in Key:
        hand = Hand()
        hand.press(60, key)
        made[key] = gestures(hand.facts)[0]
    assert len(set(made.values())) == len(Key)
