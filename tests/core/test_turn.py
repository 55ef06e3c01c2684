"""The turn machine, by its table, exhaustively."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import pytest

from handset.core.messages import Estimate, Span
from handset.core.turn import (
    TABLE,
    Abandoned,
    AudioEnds,
    Committed,
    Started,
    Turn,
    TurnFact,
    TurnInput,
    TurnSettings,
    TurnState,
)

SETTINGS = TurnSettings()
PRE, POST, SHORTEST = SETTINGS.pre_roll, SETTINGS.post_roll, SETTINGS.shortest
MS = 1_000_000
START_NS = 100_000 * MS


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
        match what:
            case TurnInput.PRESS:
                facts = self.turn.press(self.now, "ptt", at)
            case TurnInput.RELEASE | TurnInput.SHORT_RELEASE:
                facts = self.turn.release(self.now, at)
            case TurnInput.TAIL_CAPTURED:
                self.wait(300)
                facts = self.turn.captured(self.sample, self.now)
            case TurnInput.CONTROL_LOST:
                facts = self.turn.control_lost(self.now)
            case TurnInput.LOST_TOO_LONG:
                self.wait(30_000)
                facts = self.turn.captured(self.sample, self.now)
            case TurnInput.STOP:
                facts = self.turn.stop(self.now)
        self.facts += facts
        return facts

    def bring_to(self, state: TurnState) -> None:
        paths = {
            TurnState.IDLE: (),
            TurnState.HOLDING: (TurnInput.PRESS,),
            TurnState.LOST: (TurnInput.PRESS, TurnInput.CONTROL_LOST),
            TurnState.TAILING: (TurnInput.PRESS, TurnInput.RELEASE),
        }
        for what in paths[state]:
            self.give(what)
            self.wait(200)
        assert self.turn.state is state


EXPECTED = {
    "start": Started,
    "release": AudioEnds,
    "drop": Abandoned,
    "cut_tail": AudioEnds,
    "commit": Committed,
    "give_up": Abandoned,
    "cancel": Abandoned,
}


@pytest.mark.parametrize(("state", "what"), list(product(TurnState, TurnInput)))
def test_every_input_in_every_state(state: TurnState, what: TurnInput) -> None:
    person = Person()
    person.bring_to(state)
    if state is TurnState.HOLDING and what is TurnInput.SHORT_RELEASE:
        person.wait(-150)
    if state is TurnState.TAILING and what is TurnInput.LOST_TOO_LONG:
        what = TurnInput.TAIL_CAPTURED  # time alone is this one
    number = person.turn.number
    facts = person.give(what)
    row = TABLE.get((state, what))
    following, actions = row if row is not None else (state, ())
    assert person.turn.state is following
    kinds = [EXPECTED[action] for action in actions if action in EXPECTED]
    assert [type(fact) for fact in facts] == kinds
    assert person.turn.number == number + actions.count("start")


def test_the_table_names_every_state_and_input() -> None:
    assert {state for state, _ in TABLE} == set(TurnState)
    assert {what for _, what in TABLE} == set(TurnInput)
    reached = {TurnState.IDLE} | {following for following, _ in TABLE.values()}
    assert reached == set(TurnState)


STEPS = [what for what in TurnInput if what is not TurnInput.SHORT_RELEASE]


def histories(depth: int) -> Iterator[tuple[TurnInput, ...]]:
    for length in range(1, depth + 1):
        yield from product(STEPS, repeat=length)


def check_history(history: tuple[TurnInput, ...], gap_ms: int) -> None:
    """A commit needs a press and a release that follows it; spans never overlap; every
    turn has one end at most; numbers rise by one."""
    person = Person()
    released: set[int] = set()
    last_end = 0
    ended: set[int] = set()
    started = 0
    for what in history:
        before = person.turn.state
        number = person.turn.number
        facts = person.give(what)
        if what is TurnInput.RELEASE and before is TurnState.HOLDING:
            released.add(number)
        for fact in facts:
            match fact:
                case Started(turn, start=start):
                    assert turn == started + 1
                    started = turn
                    assert start >= last_end
                case Committed(turn, commit, Span(start, end)):
                    assert turn in released, history
                    assert turn not in ended
                    assert start <= end
                    assert start >= last_end
                    assert commit.source == "ptt"
                    last_end = end
                    ended.add(turn)
                case Abandoned(turn):
                    assert turn not in ended
                    ended.add(turn)
        assert (person.turn.state is TurnState.IDLE) == (started in ended or started == 0)
        person.wait(gap_ms)


@pytest.mark.parametrize("gap_ms", [30, 200])
def test_no_path_commits_without_a_release(gap_ms: int) -> None:
    for history in histories(6):
        check_history(history, gap_ms)


def held(ms: int) -> list[TurnFact]:
    person = Person()
    person.give(TurnInput.PRESS)
    person.wait(ms)
    person.give(TurnInput.RELEASE)
    person.give(TurnInput.TAIL_CAPTURED)
    return person.facts


@pytest.mark.parametrize("ms", [0, 40, 99])
def test_under_the_shortest_there_is_no_commit(ms: int) -> None:
    assert held(ms)[1:] == [Abandoned(1, "too_short")]


@pytest.mark.parametrize("ms", [100, 101, 5_000])
def test_from_the_shortest_on_there_is(ms: int) -> None:
    start, ends, committed = held(ms)
    at = START_NS * 48 // MS
    span = Span(at - PRE, at + ms * 48 + POST)
    assert (start.start, start.pre_roll, ends.end) == (span.start, PRE, span.end)
    assert committed.capture == span
    assert committed.commit.evidence == {"held_ms": ms}


def test_a_pre_roll_begins_no_earlier_than_the_timeline() -> None:
    turn = Turn(SETTINGS)
    (started,) = turn.press(0, "ptt", Estimate(4_000, 3_900, 4_100))
    assert (started.start, started.pre_roll) == (0, 4_000)


def test_a_press_in_the_post_roll_shares_no_sample() -> None:
    person = Person()
    person.bring_to(TurnState.TAILING)  # 200 ms into a post-roll of 250
    ends, committed, started = person.give(TurnInput.PRESS)
    assert ends.end == committed.capture.end == started.start == person.sample
    assert started.pre_roll == 0


def test_the_tail_is_waited_for_by_samples_and_not_by_time() -> None:
    person = Person()
    person.bring_to(TurnState.TAILING)
    person.wait(3_600_000)
    release = START_NS * 48 // MS + 200 * 48
    assert person.turn.captured(release + POST - 1, person.now) == []
    (committed,) = person.turn.captured(release + POST, person.now)
    assert committed.capture.end == release + POST


def test_a_control_that_comes_back_takes_the_turn_over() -> None:
    person = Person()
    person.bring_to(TurnState.LOST)
    assert person.give(TurnInput.RELEASE) == []
    assert person.give(TurnInput.PRESS) == []
    person.wait(200)
    person.give(TurnInput.RELEASE)
    person.give(TurnInput.TAIL_CAPTURED)
    committed = person.facts[-1]
    assert isinstance(committed, Committed)
    assert (committed.turn, committed.commit.evidence["control_lost"]) == (1, True)


def test_a_stuck_key_commits_nothing_by_itself() -> None:
    person = Person()
    person.give(TurnInput.PRESS)
    for _ in range(600):
        person.wait(1_000)
        assert person.turn.captured(person.sample, person.now) == []
    assert person.turn.has_floor


def test_numbers_go_on_after_a_restart() -> None:
    turn = Turn(SETTINGS, number=41)
    (started,) = turn.press(0, "ptt", Estimate(0, 0, 0))
    assert started.turn == 42
