"""From contacts to gestures: no press lost, none invented, whatever bounces."""

from __future__ import annotations

import random
from collections import Counter
from itertools import product

import pytest
from hypothesis import example, given, settings
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


def check_presses(mode: Mode, presses: int) -> None:
    rng, contact = random.Random(5), Contact(seed=5)
    hand = Hand(KeySettings(mode))
    wanted: list[Made] = []
    for _ in range(presses):
        held = rng.choice([12, 30, 60, 90, 200, 700])
        down_ns, up_ns = hand.now, hand.now + held * MS
        edges = contact.edge(True, down_ns) + contact.edge(False, up_ns)
        for down, at_ns in sorted(edges, key=lambda edge: edge[1]):
            hand.wait((at_ns - hand.now) / MS)
            hand.level(down)
        opened = edges[-1][1]  # for good: what came before it was bounce
        assert not edges[-1][0] and opened - up_ns < LONGEST_BOUNCE_NS
        hand.wait(rng.choice([60, 61, 75, 300]) + LONGEST_BOUNCE_NS / MS)
        first, *end = expected(mode, held)
        wanted.append(Made(first, "b", down_ns))  # on the first contact, to the ns
        wanted += [Made(gesture, "b", opened, opened - down_ns) for gesture in end]
    assert hand.facts == wanted


@pytest.mark.grows
@pytest.mark.parametrize("mode", MODES)
def test_presses_with_bounce(mode: Mode) -> None:
    """10,000 in all four modes together in the suite: none lost, none invented."""
    check_presses(mode, count(2_500, 10_000, 100_000))


@pytest.mark.grows
@pytest.mark.parametrize("release_ms", [15, 25, 60])
def test_the_next_press_is_never_lost(release_ms: int) -> None:
    """However soon it comes, once the contact was open for the release time; sooner, it is
    the same press. Open times are around that time, to the ns, with bounce on every edge."""
    rng, contact = random.Random(7), Contact(seed=7)
    hand = Hand(KeySettings(release_ns=release_ms * MS))
    wanted: list[Gesture] = []
    for _ in range(count(500, 5_000, 50_000)):
        presses = 1
        edges = contact.edge(True, hand.now)
        for _ in range(rng.randrange(4)):
            edges += contact.edge(False, edges[-1][1] + rng.randrange(1, 50 * MS))
            apart = release_ms * MS + rng.choice([-1, 0, 1, -MS, MS, 5 * MS])
            edges += contact.edge(True, edges[-1][1] + apart)
            presses += apart >= release_ms * MS
        edges += contact.edge(False, edges[-1][1] + 30 * MS)
        for down, at_ns in edges:
            hand.wait((at_ns - hand.now) / MS)
            hand.level(down)
        hand.wait(200)
        wanted += [Gesture.TALK, Gesture.LET_GO] * presses
    assert gestures(hand.facts) == wanted


LEVELS = st.lists(st.tuples(st.booleans(), st.integers(1, 120)), max_size=40)


Told = tuple[str, Key, bool, int]
"""Control, key, level, and how many ms until the next one."""
ACTING = [Key.TALK, Key.TALK, Key.TALK, Key.CANCEL, Key.ACKNOWLEDGE, Key.MUTE, Key.PAIR]
SEVERAL = st.lists(
    st.tuples(
        st.sampled_from(["b", "c", "keyboard"]),
        st.sampled_from(ACTING),
        st.booleans(),
        st.one_of(st.integers(0, 60), st.sampled_from([24, 25, 26, 399, 400, 5_001])),
    ),
    max_size=30,
)


def listen(told: list[Told], mode: Mode, look_ms: int) -> Counter[Made]:
    """What is made of levels by one who looks at the clock every so many ms, or, with 0, once
    when it is all over. Long waits are looked at as well as short ones."""
    keys, now = Keys(KeySettings(mode)), 0
    facts: list[KeyFact] = []
    for control, key, down, wait_ms in told:
        facts += keys.level(control, key, down, now)
        until = now + wait_ms * MS
        while look_ms and now < until:
            now = min(now - now % (look_ms * MS) + look_ms * MS, until)
            if now % (look_ms * MS) == 0:
                facts += keys.tick(now)
        now = until
    for _ in range(1_000):
        now += 20 * MS
        facts += keys.tick(now)
    made = [fact for fact in facts if isinstance(fact, Made)]
    assert len(made) == len(facts)
    return Counter(made)


HOLD_THEN_TOGGLE: list[Told] = [
    ("b", Key.TALK, True, 500), ("b", Key.TALK, False, 100),
    ("keyboard", Key.TALK, True, 0), ("keyboard", Key.TALK, False, 0),
]  # fmt: skip
ONE_THEN_OTHER: list[Told] = [
    ("c", Key.TALK, True, 0), ("c", Key.TALK, False, 5), ("b", Key.TALK, True, 80),
    ("c", Key.TALK, True, 80), ("b", Key.TALK, False, 90), ("c", Key.TALK, False, 300),
]  # fmt: skip
HELD_LONG: list[Told] = [("b", Key.ACKNOWLEDGE, True, 6_000), ("b", Key.ACKNOWLEDGE, False, 0)]


@given(SEVERAL, st.sampled_from(MODES))
@example(HOLD_THEN_TOGGLE, "hold")
@example(ONE_THEN_OTHER, "hold")
@example(HELD_LONG, "hold")
@settings(max_examples=count(200, 2_000, 20_000), deadline=None)
def test_a_consumer_that_is_late_gets_the_same_gestures(told: list[Told], mode: Mode) -> None:
    """Looked at every 5 ms, every 20 ms, or only when it is all over: the same gestures, with
    the same times, on several controls and keys."""
    check_late(told, mode)


def check_late(told: list[Told], mode: Mode) -> None:
    wanted = listen(told, mode, 5)
    assert listen(told, mode, 20) == wanted
    assert listen(told, mode, 0) == wanted


def down_times(told: list[tuple[str, bool, int]], release_ms: int) -> list[tuple[int, int]]:
    """When the talk key was down on any of its contacts, with shorter openings closed. An
    oracle by intervals of whole ms; a contact that is never let go is down until the end."""
    ends = sum(wait for _, _, wait in told) + 1
    each: list[tuple[int, int]] = []
    for control in ("b", "c"):
        at, since = 0, -1
        for name, down, wait in told:
            if name == control and down and since < 0:
                since = at
            elif name == control and not down and since >= 0:
                each.append((since, at))
                since = -1
            at += wait
        if since >= 0:
            each.append((since, ends))
    merged: list[tuple[int, int]] = []
    for begin, end in sorted(each):
        if merged and begin - merged[-1][1] < release_ms:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((begin, end))
    return merged


TWO = st.tuples(st.sampled_from(["b", "c"]), st.booleans(), st.integers(1, 60))


@given(st.lists(TWO, max_size=40), st.booleans())
@settings(max_examples=count(300, 3_000, 30_000), deadline=None)
def test_two_contacts_are_one_key(told: list[tuple[str, bool, int]], late: bool) -> None:
    made = listen([(c, Key.TALK, down, ms) for c, down, ms in told], "hold", 0 if late else 5)
    ends = sum(wait for _, _, wait in told)
    wanted: list[tuple[Gesture, int]] = []
    for begin, end in down_times(told, 25):
        wanted += [(Gesture.TALK, begin), (Gesture.LET_GO, end)][: 1 + (end <= ends)]
    assert sorted((f.gesture, f.at_ns // MS) for f in made.elements()) == sorted(wanted)


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
    let_go = Made(Gesture.LET_GO, "b", hand.now, 1_020 * MS)
    hand.wait(80)
    assert hand.facts[1:] == [let_go]
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


def test_the_last_contact_to_open_ends_the_hold() -> None:
    """Also when both are believed at one look, whichever control was there first."""
    for first, last in (("b", "c"), ("c", "b")):
        keys = Keys(KeySettings())
        for control in ("b", "c"):
            keys.level(control, Key.TALK, True, 0)
        keys.level(first, Key.TALK, False, 100 * MS)
        keys.level(last, Key.TALK, False, 107 * MS)
        assert keys.tick(110 * MS) == []
        assert keys.tick(160 * MS) == [Made(Gesture.LET_GO, last, 107 * MS, 107 * MS)]


def test_a_control_that_goes_away_in_a_hold_is_lost_and_may_come_back_held() -> None:
    hand = Hand()
    hand.level(True)
    hand.wait(100)
    assert hand.keys.lost("b", hand.now) == [Lost("b", hand.now)]
    assert hand.keys.back("b", hand.now, [Key.TALK]) == [Back("b", hand.now, held=True)]
    hand.level(False)
    hand.wait(80)
    assert gestures(hand.facts) == [Gesture.TALK, Gesture.LET_GO]


@pytest.mark.parametrize(("open_ms", "let_go"), [(24, False), (25, True), (5_000, True)])
def test_what_was_let_go_before_its_control_was_lost_was_let_go(open_ms: int, let_go: bool) -> None:
    """Whether a late consumer had looked in between or not; a contact that has only just
    opened may be the plug that is being pulled, and that is no gesture."""
    hand = Hand()
    hand.level(True)
    hand.wait(300)
    opened = hand.now
    hand.level(False)
    hand.now += open_ms * MS
    facts = hand.keys.lost("b", hand.now)
    assert facts == [Made(Gesture.LET_GO, "b", opened, 300 * MS) if let_go else Lost("b", hand.now)]


def test_a_hold_on_two_controls_outlives_the_loss_of_one() -> None:
    for lost, other in (("b", "c"), ("c", "b")):
        hand = Hand()
        hand.level(True, control="b")
        hand.level(True, control="c")
        assert hand.keys.lost(lost, hand.now) == []
        assert hand.keys.lost(other, hand.now) == [Lost(other, hand.now)]


def test_who_comes_back_with_the_key_up_holds_no_more_and_may_press_again() -> None:
    hand = Hand()
    hand.level(True)
    hand.keys.lost("b", hand.now)
    assert hand.keys.back("b", hand.now, []) == [Back("b", hand.now, held=False)]
    hand.press(100)
    assert gestures(hand.facts) == [Gesture.TALK, Gesture.TALK, Gesture.LET_GO]


def test_a_key_that_is_still_down_when_its_turn_is_over_takes_no_other_key_away() -> None:
    """A broken button whose turn was kept, and given up: the other control talks."""
    hand = Hand()
    hand.level(True, control="b")
    hand.keys.turn_over()
    hand.press(200, control="c")
    assert gestures(hand.facts) == [Gesture.TALK, Gesture.TALK, Gesture.LET_GO]
    assert hand.keys.lost("b", hand.now) == []
    hand.level(True, control="b")
    hand.keys.turn_over()
    hand.level(False, control="b")
    hand.wait(80)
    hand.press(200, control="b")  # it came loose
    assert gestures(hand.facts)[3:] == [Gesture.TALK, Gesture.TALK, Gesture.LET_GO]


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
    before, after = hand.facts[-2:]
    assert isinstance(before, Made) and isinstance(after, Made)
    assert after.at_ns == before.at_ns + long_ns


@pytest.mark.parametrize(("before", "key"), list(product(Key, Key)))
def test_a_key_changes_nothing_for_another(before: Key, key: Key) -> None:
    hand, alone = Hand(), Hand()
    hand.level(True, before)
    hand.level(True, key, control="c")
    hand.wait(30)
    hand.level(False, key, control="c")
    hand.wait(80)
    alone.press(30, key, control="c")
    made = [fact.gesture for fact in hand.facts if isinstance(fact, Made) and fact.control == "c"]
    both_talk = before is key is Key.TALK
    assert made == ([] if both_talk else gestures(alone.facts))


def test_volume_repeats_while_it_is_held() -> None:
    hand = Hand()
    hand.press(1_600, Key.VOLUME_UP)
    first = hand.now - 1_680 * MS
    made = [fact for fact in hand.facts if isinstance(fact, Made)]
    due = [first, *range(first + REPEAT_AFTER_NS, first + 1_600 * MS, REPEAT_NS)]
    assert {fact.gesture for fact in made} == {Gesture.LOUDER}
    assert len(made) == len(due) == 6
    assert all(0 <= fact.at_ns - at < LOOK_NS for fact, at in zip(made, due, strict=True))


def test_a_volume_key_that_is_let_go_repeats_no_more() -> None:
    hand = Hand()
    for key, gesture in ((Key.VOLUME_UP, Gesture.LOUDER), (Key.VOLUME_DOWN, Gesture.SOFTER)):
        hand.facts.clear()
        hand.press(490, key)
        hand.wait(3_000)
        assert gestures(hand.facts) == [gesture]


def test_a_stall_is_no_row_of_volume_steps() -> None:
    keys = Keys(KeySettings())
    keys.level("b", Key.VOLUME_DOWN, True, 0)
    made = [fact for at in range(10_000, 10_240, 20) for fact in keys.tick(at * MS)]
    assert len(made) <= 2


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
