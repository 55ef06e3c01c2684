"""The turn machine, by its table, exhaustively."""

from __future__ import annotations

from itertools import product

import pytest
from tiers import count

from handset.core.messages import Estimate, Span
from handset.core.turn import (
    GESTURES,
    TABLE,
    Abandoned,
    AudioEnds,
    Committed,
    HeldBack,
    Started,
    Turn,
    TurnFact,
    TurnInput,
    TurnSettings,
    TurnState,
    Warned,
)

SETTINGS = TurnSettings()
PRE, POST, SHORTEST = SETTINGS.pre_roll, SETTINGS.post_roll, SETTINGS.shortest
MS = 1_000_000
START_NS = 100_000 * MS
S, I = TurnState, TurnInput  # noqa: E741 - the table's own letters
TIME_MS = {
    I.TAIL_CAPTURED: 300,
    I.LOST_TOO_LONG: 30_000,
    I.STUCK: 300_000,
    I.KEPT_TOO_LONG: 120_000,
}
MANUAL = ("ptt", "toggle", "latch")


class Person:
    """Feeds a turn on a clock of its own; a step is 200 ms, longer than too short."""

    def __init__(self, settings: TurnSettings = SETTINGS) -> None:
        self.turn = Turn(settings)
        self.now = START_NS
        self.facts: list[TurnFact] = []

    @property
    def sample(self) -> int:
        return self.now * 48 // MS

    def wait(self, ms: int) -> None:
        self.now += ms * MS

    def give(self, what: TurnInput) -> list[TurnFact]:
        at = Estimate(self.sample, self.sample - 48, self.sample + 48)
        turn = self.turn
        match what:
            case I.VOICE:
                facts = turn.voice(self.now, at)
            case I.VOICE_END | I.VOICE_END_HELD:
                facts = turn.silence(self.now, at, what is I.VOICE_END_HELD)
            case I.CONTROL_LOST:
                facts = turn.control_lost(self.now)
            case I.HELD_AGAIN | I.CONTROL_BACK:
                facts = turn.control_back(self.now, what is I.HELD_AGAIN)
            case I.STOP:
                facts = turn.stop(self.now)
            case I.TYPED:
                facts = turn.typed(self.now)
            case I.TAIL_CAPTURED | I.LOST_TOO_LONG | I.STUCK | I.KEPT_TOO_LONG:
                self.wait(TIME_MS[what])
                facts = turn.captured(self.sample, self.now)
            case I.TOO_SOON:
                facts = turn.gesture(I.LET_GO, self.now, at)
            case _:
                facts = turn.gesture(what, self.now, at, "button")
        self.facts += facts
        return facts

    def bring_to(self, state: TurnState) -> None:
        paths: dict[TurnState, tuple[TurnInput, ...]] = {
            S.IDLE: (),
            S.HOLDING: (I.TALK,),
            S.LATCHED: (I.TOGGLE,),
            S.TAILING: (I.TALK, I.LET_GO),
            S.LOST: (I.TALK, I.CONTROL_LOST),
            S.LATCHED_LOST: (I.TOGGLE, I.CONTROL_LOST),
            S.STUCK: (I.TALK, I.STUCK),
            S.KEPT: (I.TOGGLE, I.STUCK),
            S.SPEAKING: (I.VOICE,),
            S.HELD_BACK: (I.VOICE, I.VOICE_END_HELD),
        }
        for what in paths[state]:
            self.give(what)
            self.wait(200)
        assert self.turn.state is state


EXPECTED: dict[str, type] = {
    "start": Started,
    "release": AudioEnds,
    "silence": AudioEnds,
    "stick": AudioEnds,
    "hold_back": HeldBack,
    "confirm": AudioEnds,
    "drop": Abandoned,
    "cut_tail": AudioEnds,
    "commit": Committed,
    "resolve": Committed,
    "give_up": Abandoned,
    "cancel": Abandoned,
    "expire": Abandoned,
}
BY_GUARD = (I.TOO_SOON,)
"""Inputs that the machine makes of another one."""


@pytest.mark.parametrize(("state", "what"), list(product(TurnState, TurnInput)))
def test_every_input_in_every_state(state: TurnState, what: TurnInput) -> None:
    if what in TIME_MS and (state, what) not in TABLE:
        return  # time in this state is another input of it
    person = Person()
    person.bring_to(state)
    if what is I.TOO_SOON:
        if (state, what) not in TABLE:
            return  # the guard makes it only where the table has it
        person.wait(-150)
    number = person.turn.number
    given = I.TOGGLE if state is S.LATCHED and what is I.TOO_SOON else what
    facts = person.give(given)
    row = TABLE.get((state, what))
    following, actions = row if row is not None else (state, ())
    assert person.turn.state is following
    kinds = [EXPECTED[action] for action in actions if action in EXPECTED]
    assert [type(fact) for fact in facts] == kinds
    assert person.turn.number == number + actions.count("start")


def test_the_table_names_every_state_and_input() -> None:
    assert {state for state, _ in TABLE} == set(TurnState)
    assert {what for _, what in TABLE} == set(TurnInput)
    reached = {S.IDLE} | {following for following, _ in TABLE.values()}
    assert reached == set(TurnState)


def test_no_row_lets_time_or_a_fault_commit_a_manual_turn() -> None:
    """By the table alone: an action that can commit stands in the row of a gesture, or in
    one of TAILING, where a gesture, or the silence of an automatic turn, has led."""
    for (state, what), (following, actions) in TABLE.items():
        if {"commit", "resolve"} & set(actions):
            assert what in GESTURES or state is S.TAILING, (state, what)
        if following is S.TAILING:
            assert what in GESTURES or what is I.VOICE_END, (state, what)
    for (state, what), _ in TABLE.items():
        if what is I.VOICE_END:
            assert state is S.SPEAKING  # and that began by itself


DEPTH = count(4, 5, 5)
STEPS = [what for what in TurnInput if what not in BY_GUARD]
ENDS_BY_HAND = {
    (state, what)
    for (state, what), (_, actions) in TABLE.items()
    if what in GESTURES and {"release", "confirm", "resolve", "commit"} & set(actions)
}


class Checked:
    """A person whose every step is held against the rules."""

    def __init__(self) -> None:
        self.person = Person()
        self.started = 0
        self.last_end = 0
        self.ended: set[int] = set()
        self.by_hand: set[int] = set()
        """Turns that a gesture has ended, or was about to keep."""

    def give(self, what: TurnInput) -> None:
        turn = self.person.turn
        before, number = turn.state, turn.number
        facts = self.person.give(what)
        if (before, what) in ENDS_BY_HAND:
            self.by_hand.add(number)
        for fact in facts:
            match fact:
                case Started(turn=n, start=start):
                    assert n == self.started + 1
                    self.started = n
                    assert start >= self.last_end
                case Committed(turn=n, commit=commit, capture=Span(start, end)):
                    assert n not in self.ended and start <= end
                    assert start >= self.last_end
                    assert (commit.source == "vad") or n in self.by_hand
                    self.last_end = end
                    self.ended.add(n)
                case Abandoned(turn=n):
                    assert n not in self.ended
                    self.ended.add(n)
        open_turns = self.started - len(self.ended)
        assert open_turns == (turn.state is not S.IDLE)


@pytest.mark.grows
@pytest.mark.parametrize("gap_ms", [30, 200])
@pytest.mark.parametrize("first", STEPS)
def test_no_path_commits_without_its_gesture(first: TurnInput, gap_ms: int) -> None:
    for rest in product(STEPS, repeat=DEPTH - 1):
        checked = Checked()
        for what in (first, *rest):
            checked.give(what)
            checked.person.wait(gap_ms)


def held(ms: int, begin: TurnInput = I.TALK, end: TurnInput = I.LET_GO) -> list[TurnFact]:
    person = Person()
    person.give(begin)
    person.wait(ms)
    person.give(end)
    person.give(I.TAIL_CAPTURED)
    return person.facts


WAYS = [(I.TALK, I.LET_GO, "ptt"), (I.TOGGLE, I.TOGGLE, "toggle")]


@pytest.mark.parametrize("ms", [0, 40, 99])
@pytest.mark.parametrize(("begin", "end", "_"), WAYS)
def test_under_the_shortest_there_is_no_commit(
    ms: int, begin: TurnInput, end: TurnInput, _: str
) -> None:
    assert held(ms, begin, end)[1:] == [Abandoned(1, "too_short")]


@pytest.mark.parametrize("ms", [100, 101, 5_000])
@pytest.mark.parametrize(("begin", "end", "source"), WAYS)
def test_from_the_shortest_on_there_is(
    ms: int, begin: TurnInput, end: TurnInput, source: str
) -> None:
    start, ends, committed = held(ms, begin, end)
    at = START_NS * 48 // MS
    span = Span(at - PRE, at + ms * 48 + POST)
    assert isinstance(start, Started) and isinstance(ends, AudioEnds)
    assert isinstance(committed, Committed)
    assert (start.start, start.pre_roll, ends.end) == (span.start, PRE, span.end)
    assert committed.capture == span
    assert committed.commit.source == source
    assert committed.commit.evidence == {"held_ms": ms, "control": "button"}


def test_to_the_sample() -> None:
    for samples, kind in ((SHORTEST - 1, Abandoned), (SHORTEST, AudioEnds)):
        turn = Turn(SETTINGS)
        at = START_NS * 48 // MS
        turn.gesture(I.TALK, START_NS, Estimate(at, at, at))
        ends = at + samples
        (fact,) = turn.gesture(I.LET_GO, START_NS + 100 * MS, Estimate(ends, ends, ends))
        assert isinstance(fact, kind)


def test_a_tap_latches_and_the_commit_says_so() -> None:
    person = Person()
    person.give(I.TALK)
    person.wait(60)
    person.give(I.LATCH)
    person.wait(2_000)
    person.give(I.TALK)
    person.give(I.TAIL_CAPTURED)
    committed = person.facts[-1]
    assert isinstance(committed, Committed)
    assert committed.commit.source == "latch"
    assert committed.commit.evidence["latched_after_ms"] == 60


def test_a_pre_roll_begins_no_earlier_than_the_timeline() -> None:
    turn = Turn(SETTINGS)
    (started,) = turn.gesture(I.TALK, 0, Estimate(4_000, 3_900, 4_100))
    assert isinstance(started, Started)
    assert (started.start, started.pre_roll) == (0, 4_000)


def test_a_press_in_the_post_roll_shares_no_sample() -> None:
    person = Person()
    person.bring_to(S.TAILING)  # 200 ms into a post-roll of 250
    ends, committed, started = person.give(I.TALK)
    assert isinstance(ends, AudioEnds) and isinstance(started, Started)
    assert isinstance(committed, Committed)
    assert ends.end == committed.capture.end == started.start == person.sample
    assert started.pre_roll == 0


def test_a_cancel_in_the_post_roll_wins() -> None:
    person = Person()
    person.bring_to(S.TAILING)
    assert person.give(I.CANCEL) == [Abandoned(1, "cancelled")]
    assert person.give(I.TAIL_CAPTURED) == []


def test_the_tail_is_waited_for_by_samples_and_not_by_time() -> None:
    person = Person()
    person.bring_to(S.TAILING)
    person.wait(3_600_000)
    release = START_NS * 48 // MS + 200 * 48
    assert person.turn.captured(release + POST - 1, person.now) == []
    (committed,) = person.turn.captured(release + POST, person.now)
    assert isinstance(committed, Committed)
    assert committed.capture.end == release + POST


@pytest.mark.parametrize("back", [I.TALK, I.HELD_AGAIN])
def test_a_control_that_comes_back_takes_the_turn_over(back: TurnInput) -> None:
    person = Person()
    person.bring_to(S.LOST)
    assert person.give(I.LET_GO) == person.give(I.CONTROL_BACK) == []
    assert person.give(back) == []
    person.wait(200)
    person.give(I.LET_GO)
    person.give(I.TAIL_CAPTURED)
    committed = person.facts[-1]
    assert isinstance(committed, Committed)
    assert (committed.turn, committed.commit.evidence["control_lost"]) == (1, True)


def test_a_long_hold_warns_again_and_again_and_goes_on() -> None:
    person = Person()
    person.give(I.TALK)
    for _ in range(290):
        person.wait(1_000)
        person.facts += person.turn.captured(person.sample, person.now)
    warned = [fact for fact in person.facts if isinstance(fact, Warned)]
    assert len(warned) == 1 + (290 - 60) // 30
    assert person.turn.state is S.HOLDING


@pytest.mark.parametrize(("listened", "spoken"), [(False, False), (True, True)])
def test_without_proof_of_silence_only_the_longest_is_stuck(listened: bool, spoken: bool) -> None:
    person = Person()
    person.give(I.TALK)
    for second in range(1, 301):
        person.wait(1_000)
        if listened:
            person.turn.heard(person.now, spoken)
        facts = person.turn.captured(person.sample, person.now)
        stuck = any(isinstance(fact, AudioEnds) for fact in facts)
        assert stuck == (second == 300)
    assert person.turn.state is S.STUCK


@pytest.mark.parametrize(("why", "kind"), [("longest", Committed), ("no speech", Abandoned)])
def test_a_new_press_settles_what_is_kept(why: str, kind: type) -> None:
    person = Person()
    person.give(I.TALK)
    if why == "no speech":
        person.turn.heard(person.now, False)
        person.wait(60_000)
    else:
        person.wait(300_000)
    person.turn.captured(person.sample, person.now)
    end = person.sample
    assert person.give(I.LET_GO) == []  # it came loose
    person.wait(1_000)
    settled, started = person.give(I.TALK)
    assert isinstance(settled, kind) and isinstance(started, Started)
    if isinstance(settled, Committed):
        assert settled.commit.evidence["stuck_key"] == why
        assert settled.capture.end == end


def test_a_button_makes_an_automatic_turn_a_manual_one() -> None:
    person = Person()
    person.bring_to(S.SPEAKING)
    person.give(I.TALK)
    assert person.give(I.VOICE_END) == []  # the voice does not end what a hand holds
    person.wait(50)
    person.give(I.LET_GO)  # a tap is enough: there is audio
    person.give(I.TAIL_CAPTURED)
    committed = person.facts[-1]
    assert isinstance(committed, Committed)
    assert (committed.commit.source, committed.commit.evidence["began"]) == ("ptt", "vad")


@pytest.mark.parametrize("gesture", [I.ACKNOWLEDGE, I.TOGGLE])
def test_a_gesture_sends_what_was_held_back(gesture: TurnInput) -> None:
    person = Person()
    person.bring_to(S.HELD_BACK)
    held_back = person.facts[-1]
    assert isinstance(held_back, HeldBack)
    _, committed = person.give(gesture)
    assert isinstance(committed, Committed)
    assert committed.capture == held_back.capture
    assert committed.commit.source in MANUAL
    assert committed.commit.evidence["confirmed"] is True


def test_an_automatic_turn_says_that_it_is_one() -> None:
    person = Person()
    person.bring_to(S.SPEAKING)
    person.give(I.VOICE_END)
    person.give(I.TAIL_CAPTURED)
    committed = person.facts[-1]
    assert isinstance(committed, Committed)
    assert committed.commit.source == "vad"


def test_numbers_go_on_after_a_restart() -> None:
    turn = Turn(SETTINGS, number=41)
    (started,) = turn.gesture(I.TALK, 0, Estimate(0, 0, 0))
    assert isinstance(started, Started) and started.turn == 42
    assert turn.take_number() == 43
