"""Which notice sounds, and when: by example, and under any order of inputs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tiers import count

from handset.core.notice_queue import (
    MOST_WAITING,
    Dropped,
    Flush,
    NoticeEffect,
    NoticeQueue,
    Play,
    Said,
    Why,
)
from handset.core.notices import RULES, Notice, Part, Urgency

MS = 1_000_000
PERMIT = Play(Notice.TALK_PERMIT, Part.TONE)
RECEIVED = Play(Notice.RECEIVED, Part.PROMPT)


@pytest.fixture
def queue() -> NoticeQueue:
    return NoticeQueue()


def test_a_tone_sounds_at_once_and_is_said_when_the_lane_ran_dry(queue: NoticeQueue) -> None:
    assert queue.ask(Notice.DENY, 0) == [Play(Notice.DENY, Part.TONE)]
    assert queue.done(90 * MS) == [Said(Notice.DENY)]
    assert queue.done(91 * MS) == []


def test_a_press_ends_words_which_are_said_anew_after_it(queue: NoticeQueue) -> None:
    assert queue.ask(Notice.RECEIVED, 0) == [RECEIVED]

    assert queue.floor(True, 10 * MS) == [Flush()]
    assert queue.ask(Notice.TALK_PERMIT, 10 * MS) == [PERMIT]
    assert queue.done(99 * MS) == [Said(Notice.TALK_PERMIT)]
    assert queue.floor(False, 900_000 * MS) == [RECEIVED]
    assert queue.done(902_000 * MS) == [Said(Notice.RECEIVED)]


def test_a_press_is_answered_first_whatever_sounds(queue: NoticeQueue) -> None:
    for notice in Notice:
        if RULES[notice].urgency is Urgency.TALK:
            continue
        queue = NoticeQueue()
        began = queue.ask(notice, 0)
        effects = queue.floor(True, MS) + queue.ask(Notice.TALK_PERMIT, MS)

        assert len(began) == 1 and effects.count(Flush()) == 1 and effects[-1] == PERMIT, notice


def test_in_a_turn_the_tone_comes_alone_and_the_words_after_it(queue: NoticeQueue) -> None:
    queue.floor(True, 0)

    assert queue.ask(Notice.CONTROL_LOST, MS) == [Play(Notice.CONTROL_LOST, Part.TONE)]
    assert queue.done(300 * MS) == []
    assert queue.floor(False, 9_000 * MS) == [Play(Notice.CONTROL_LOST, Part.PROMPT)]
    assert queue.done(11_000 * MS) == [Said(Notice.CONTROL_LOST)]


def test_words_wait_for_the_end_of_a_reply_and_warnings_do_not(queue: NoticeQueue) -> None:
    queue.reply(True, 0)

    assert queue.ask(Notice.KEPT, MS) == []
    assert queue.ask(Notice.TOO_HOT, 2 * MS) == [Play(Notice.TOO_HOT, Part.TONE)]
    assert queue.done(3 * MS) == [Play(Notice.TOO_HOT, Part.PROMPT)]
    assert queue.done(4 * MS) == [Said(Notice.TOO_HOT)]
    assert queue.reply(False, 5 * MS) == [Play(Notice.KEPT, Part.PROMPT)]
    assert queue.reply(True, 6 * MS) == [], "what has begun goes on"


def test_words_that_are_no_longer_true_stop(queue: NoticeQueue) -> None:
    queue.ask(Notice.LINK_DOWN, 0)

    assert queue.ask(Notice.LINK_UP, MS) == [
        Flush(),
        Dropped(Notice.LINK_DOWN, Why.REPLACED),
        Play(Notice.LINK_UP, Part.PROMPT),
    ]


def test_a_tone_of_an_older_state_ends_and_its_words_do_not_come(queue: NoticeQueue) -> None:
    queue.ask(Notice.MUTE_ON, 0)

    assert queue.ask(Notice.MUTE_OFF, MS) == []
    assert queue.done(2 * MS) == [
        Dropped(Notice.MUTE_ON, Why.REPLACED),
        Play(Notice.MUTE_OFF, Part.TONE),
    ]


def test_words_that_sound_are_not_cut_for_a_volume_tick(queue: NoticeQueue) -> None:
    queue.ask(Notice.DISCLOSURE, 0)

    assert queue.ask(Notice.VOLUME_CHANGED, MS) == []
    assert queue.done(2_000 * MS) == [
        Said(Notice.DISCLOSURE),
        Dropped(Notice.VOLUME_CHANGED, Why.STALE),
    ]


def test_a_card_that_is_lost_takes_nothing_from_what_must_be_said(queue: NoticeQueue) -> None:
    queue.ask(Notice.DISCLOSURE, 0)

    assert queue.output(False, MS) == []
    assert queue.ask(Notice.TALK_PERMIT, MS) == []
    assert queue.output(True, 60_000 * MS) == [
        Dropped(Notice.TALK_PERMIT, Why.STALE),
        Play(Notice.DISCLOSURE, Part.PROMPT),
    ]


def test_the_same_again_is_said_once_and_not_within_its_gap(queue: NoticeQueue) -> None:
    queue.floor(True, 0)
    assert queue.ask(Notice.KEPT, 0) == []
    assert queue.ask(Notice.KEPT, MS) == [Dropped(Notice.KEPT, Why.MERGED)]

    gap = RULES[Notice.LONG_HOLD_WARNING].gap_ms * MS
    assert queue.ask(Notice.LONG_HOLD_WARNING, 0) != []
    queue.done(MS)
    again = queue.ask(Notice.LONG_HOLD_WARNING, gap - 1)
    assert again == [Dropped(Notice.LONG_HOLD_WARNING, Why.REPEATED)]
    assert queue.ask(Notice.LONG_HOLD_WARNING, gap) != []


def test_the_least_urgent_is_dropped_when_too_many_wait(queue: NoticeQueue) -> None:
    queue.output(False, 0)
    words = [n for n in Notice if not RULES[n].topic]
    effects = [effect for notice in words for effect in queue.ask(notice, MS)]

    dropped = [effect.notice for effect in effects if isinstance(effect, Dropped)]
    assert len(words) - len(dropped) == MOST_WAITING
    assert max(RULES[n].urgency for n in queue.waiting) <= min(RULES[n].urgency for n in dropped)


# ---- any order of inputs ----------------------------------------------------------------------

Step = tuple[str, Any, int]
"""What happens, with what, and how many ms after the step before."""

steps = st.lists(
    st.one_of(
        st.tuples(st.just("ask"), st.sampled_from(Notice), st.sampled_from([0, 1, 200, 4_000])),
        st.tuples(
            st.sampled_from(["floor", "reply", "output"]),
            st.booleans(),
            st.sampled_from([0, 50, 2_000]),
        ),
        st.tuples(st.just("done"), st.none(), st.sampled_from([0, 90, 2_000])),
    ),
    max_size=60,
)


class Watch:
    """Follows the effects as the lane would, and holds the rules against them."""

    def __init__(self) -> None:
        self.queue = NoticeQueue()
        self.now = 0
        self.lane: Play | None = None
        self.floor = self.reply = False
        self.output = True
        self.asked: Counter[Notice] = Counter()
        self.ended: Counter[Notice] = Counter()
        self.newest: dict[Notice, int] = {}
        self.parts: dict[Notice, list[Part]] = {}

    def step(self, what: str, value: Any, after_ms: int) -> None:
        self.now += after_ms * MS
        if what == "ask":
            self.asked[value] += 1
            self.newest[value] = self.now
            effects = self.queue.ask(value, self.now)
        elif what == "done":
            if self.lane is None:
                return
            self.parts.setdefault(self.lane.notice, []).append(self.lane.part)
            self.lane = None
            effects = self.queue.done(self.now)
        else:
            setattr(self, what, value)
            if what == "output" and not value:
                self.lane = None
            effects = getattr(self.queue, what)(value, self.now)
        for effect in effects:
            self.follow(effect)
        self.rules()

    def follow(self, effect: NoticeEffect) -> None:
        match effect:
            case Flush():
                assert self.lane is not None, "a lane that is dry is flushed"
                self.lane = None
            case Play(notice, part):
                assert self.lane is None, "two at once"
                assert self.output, "nobody hears it"
                rule = RULES[notice]
                assert part in rule.parts
                if part is Part.PROMPT:
                    assert not self.floor, "words in the capture"
                    assert not self.reply or rule.over_reply, "two voices"
                assert not self.floor or rule.while_talking
                fresh = rule.fresh_ms * MS
                assert not fresh or self.now - self.newest[notice] <= fresh, "old news"
                self.lane = effect
            case Said(notice):
                self.ended[notice] += 1
                assert Part.PROMPT in self.parts[notice] or not RULES[notice].prompt
                self.parts[notice].clear()
            case Dropped(notice, _):
                self.ended[notice] += 1

    def rules(self) -> None:
        waiting = self.queue.waiting
        assert len(waiting) <= MOST_WAITING
        assert len(set(waiting)) == len(waiting), "said twice for one"
        in_lane = (self.lane.notice, self.lane.part) if self.lane else None
        assert self.queue.playing == in_lane
        if in_lane and self.floor:
            assert in_lane[1] is Part.TONE, "words in the capture"
        topics = [RULES[notice].topic for notice in waiting if RULES[notice].topic]
        assert len(set(topics)) == len(topics), "two of one topic, of which one is untrue"
        left = self.asked - self.ended
        still = Counter([*waiting, *([in_lane[0]] if in_lane else [])])
        assert left == still and not self.ended - self.asked, "lost, or ended twice"

    def drain(self) -> None:
        """Everything is quiet: all that waits is said or dropped, in finite time."""
        for what, value in (("output", True), ("reply", False), ("floor", False)):
            self.step(what, value, 0)
        for _ in range(3 * MOST_WAITING):
            self.step("done", None, 10)
        assert not self.queue.waiting and self.queue.playing is None, "it waits for nothing"


def run(orders: list[Step]) -> None:
    watch = Watch()
    for what, value, after_ms in orders:
        watch.step(what, value, after_ms)
    watch.drain()


@pytest.mark.grows
@settings(
    max_examples=count(400, 10_000, 100_000),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(steps)
def test_no_order_of_inputs_breaks_a_rule(orders: list[Step]) -> None:
    run(orders)


# ---- the rules can be broken --------------------------------------------------------------------


def words_in_a_turn(original: Any, self: NoticeQueue, wanted: Any) -> bool:
    return True


def never_stopped(original: Any, self: NoticeQueue, wanted: Any) -> bool:
    return False


def lost_when_cut(original: Any, self: NoticeQueue) -> Any:
    self._playing = None
    return []


def nothing_stale(original: Any, self: NoticeQueue, now_ns: int) -> Any:
    return []


def no_bound(original: Any, self: NoticeQueue) -> Any:
    return []


def all_true(original: Any, self: NoticeQueue, notice: Notice, rule: Any) -> Any:
    return []


FAULTS: list[tuple[str, Callable[..., Any]]] = [
    ("_may_sound", words_in_a_turn),
    ("_must_stop", never_stopped),
    ("_cut", lost_when_cut),
    ("_drop_stale", nothing_stale),
    ("_drop_surplus", no_bound),
    ("_replace", all_true),
]

N, A = Notice, "ask"
SCRIPTS: dict[str, list[Step]] = {
    "_may_sound": [("floor", True, 0), (A, N.KEPT, 1)],
    "_must_stop": [(A, N.KEPT, 0), ("floor", True, 1)],
    "_cut": [(A, N.KEPT, 0), ("floor", True, 1)],
    "_drop_stale": [("output", False, 0), (A, N.DENY, 0), ("output", True, 2_000)],
    "_drop_surplus": [("output", False, 0), *((A, n, 0) for n in N if not RULES[n].topic)],
    "_replace": [("floor", True, 0), (A, N.LINK_DOWN, 0), (A, N.LINK_UP, 0)],
}


@pytest.mark.parametrize(("name", "wrong"), FAULTS)
def test_a_planted_fault_breaks_a_rule(
    name: str, wrong: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    run(SCRIPTS[name])
    original = getattr(NoticeQueue, name)
    monkeypatch.setattr(NoticeQueue, name, lambda self, *args: wrong(original, self, *args))
    with pytest.raises(AssertionError):
        run(SCRIPTS[name])


def test_waiting_for_no_reason_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    orders: list[Step] = [("reply", True, 0), (A, N.KEPT, 1), ("reply", False, 1)]
    run(orders)
    monkeypatch.setattr(NoticeQueue, "_go_on", lambda self, now_ns: [])
    with pytest.raises(AssertionError):
        run(orders)
