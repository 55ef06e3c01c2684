"""The turn machine, by its table, exhaustively."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiers import count

from handset.core.messages import AbandonReason, CommitBy, CommitSource, Estimate, Span
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
START = START_NS * 48 // MS
S, I = TurnState, TurnInput  # noqa: E741 - the table's own letters
TIME_MS = {
    I.TAIL_CAPTURED: 300,
    I.LOST_TOO_LONG: 30_000,
    I.STUCK: 300_000,
    I.KEPT_TOO_LONG: 120_000,
}
TIME_OF = {
    S.HOLDING: I.STUCK,
    S.LATCHED: I.STUCK,
    S.SPEAKING: I.STUCK,
    S.TAILING: I.TAIL_CAPTURED,
    S.LOST: I.LOST_TOO_LONG,
    S.LATCHED_LOST: I.LOST_TOO_LONG,
    S.STUCK: I.KEPT_TOO_LONG,
    S.KEPT: I.KEPT_TOO_LONG,
    S.HELD_BACK: I.KEPT_TOO_LONG,
}
"""The one thing that time alone does in each state."""
MANUAL = ("ptt", "toggle", "latch")
BUTTON = {"control": "button"}


class Person:
    """Feeds a turn on a clock of its own."""

    def __init__(self, settings: TurnSettings = SETTINGS) -> None:
        self.turn = Turn(settings)
        self.now = START_NS
        self.facts: list[TurnFact] = []

    @property
    def sample(self) -> int:
        return self.now * 48 // MS

    @property
    def here(self) -> Estimate:
        return Estimate(self.sample, self.sample - 48, self.sample + 48)

    def wait(self, ms: int) -> None:
        self.now += ms * MS

    def give(self, what: TurnInput) -> list[TurnFact]:
        turn, at = self.turn, self.here
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
            case _:
                facts = turn.gesture(what, self.now, at, "button")
        self.facts += facts
        return facts

    def bring_to(self, state: TurnState, gap_ms: int = 200) -> None:
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
            self.wait(gap_ms)
        assert self.turn.state is state


# ---- every cell ---------------------------------------------------------------------------

KEY_KEPT = {"held_ms": 300_200, **BUTTON, "stuck_key": "longest"}
CONFIRMED = {"held_ms": 200, "began": "vad", "confirmed": True, **BUTTON}
LET_GO = CommitBy("ptt", {"held_ms": 200, **BUTTON})
# What is committed, after the person's path to the state: each row that commits is here.
COMMITS: dict[tuple[TurnState, TurnInput], CommitBy] = {
    (S.TAILING, I.TALK): LET_GO,
    (S.TAILING, I.TOGGLE): LET_GO,
    (S.TAILING, I.TAIL_CAPTURED): LET_GO,
    (S.TAILING, I.STOP): LET_GO,
    (S.STUCK, I.TALK): CommitBy("ptt", KEY_KEPT),
    (S.STUCK, I.TOGGLE): CommitBy("ptt", KEY_KEPT),
    (S.STUCK, I.TYPED): CommitBy("ptt", KEY_KEPT),
    (S.STUCK, I.ACKNOWLEDGE): CommitBy("ptt", {**KEY_KEPT, "confirmed": True}),
    (S.KEPT, I.TALK): CommitBy("toggle", KEY_KEPT),
    (S.KEPT, I.TOGGLE): CommitBy("toggle", KEY_KEPT),
    (S.KEPT, I.TYPED): CommitBy("toggle", KEY_KEPT),
    (S.KEPT, I.ACKNOWLEDGE): CommitBy("toggle", {**KEY_KEPT, "confirmed": True}),
    (S.HELD_BACK, I.TOGGLE): CommitBy("toggle", CONFIRMED),
    (S.HELD_BACK, I.ACKNOWLEDGE): CommitBy("ptt", CONFIRMED),
}
CANCELLED: set[TurnState] = {S.HOLDING, S.LATCHED, S.LOST, S.LATCHED_LOST, S.SPEAKING}
ABANDONS: dict[tuple[TurnState, TurnInput], AbandonReason] = {
    **{(state, I.CANCEL): "cancelled" for state in TurnState if state is not S.IDLE},
    **{(state, I.STOP): "cancelled" for state in CANCELLED},
    **{(state, I.TOO_SOON): "too_short" for state in CANCELLED - {S.SPEAKING}},
    (S.LOST, I.LOST_TOO_LONG): "control_lost",
    (S.LATCHED_LOST, I.LOST_TOO_LONG): "control_lost",
    (S.STUCK, I.KEPT_TOO_LONG): "stuck_key",
    (S.STUCK, I.STOP): "stuck_key",
    (S.KEPT, I.KEPT_TOO_LONG): "stuck_key",
    (S.KEPT, I.STOP): "stuck_key",
    (S.HELD_BACK, I.KEPT_TOO_LONG): "expired",
    (S.HELD_BACK, I.STOP): "expired",
    (S.HELD_BACK, I.TYPED): "expired",
}
SOURCES: dict[TurnInput, CommitSource] = {I.TALK: "ptt", I.TOGGLE: "toggle", I.VOICE: "vad"}


def expected_facts(person: Person, state: TurnState, what: TurnInput) -> Iterator[TurnFact]:
    """From the path to ``state``: begun at START, an end told already or none."""
    ends = [fact.end for fact in person.facts if isinstance(fact, AudioEnds)]
    ends += [fact.capture.end for fact in person.facts if isinstance(fact, HeldBack)]
    here, begin, free = person.here, START - PRE, 0
    for action in TABLE[state, what][1] if (state, what) in TABLE else ():
        match action:
            case "release" | "silence":
                yield AudioEnds(1, here.est + POST)
            case "stick":
                yield AudioEnds(1, here.est)
            case "hold_back":
                yield HeldBack(1, Span(begin, here.est + POST))
            case "cut_tail" | "confirm":
                ends = [min(ends[-1], here.est)]
                yield AudioEnds(1, ends[-1])
            case "commit" | "resolve":
                free = ends[-1]
                yield Committed(1, COMMITS[state, what], Span(begin, free))
            case "cancel" | "drop" | "give_up" | "expire":
                yield Abandoned(1, ABANDONS[state, what])
            case "start":
                start = max(here.est - PRE, free)
                number = 1 if state is S.IDLE else 2
                roll = here.est - start
                yield Started(number, SOURCES[what], person.now, start, roll, here)
            case _:
                assert action in ("latch", "take_over", "lose", "regain", "go_on")


SHORT_BY = {S.HOLDING: I.LET_GO, S.LATCHED: I.TALK, S.LOST: I.TOGGLE, S.LATCHED_LOST: I.TALK}
"""What would end the turn, were it long enough."""


@pytest.mark.parametrize(("state", "what"), list(product(TurnState, TurnInput)))
def test_every_input_in_every_state(state: TurnState, what: TurnInput) -> None:
    if what in TIME_MS and TIME_OF.get(state) is not what:
        assert (state, what) not in TABLE
        return  # time in this state is another input of it
    if what is I.TOO_SOON and state not in SHORT_BY:
        assert (state, what) not in TABLE
        return
    person = Person()
    person.bring_to(state, 20 if what is I.TOO_SOON else 200)
    following = TABLE[state, what][0] if (state, what) in TABLE else state
    given = SHORT_BY[state] if what is I.TOO_SOON else what
    person.wait(TIME_MS.get(what, 0))
    wanted = list(expected_facts(person, state, what))
    person.wait(-TIME_MS.get(what, 0))
    assert person.give(given) == wanted
    assert person.turn.state is following
    assert person.turn.number == max([f.turn for f in wanted], default=int(state is not S.IDLE))


def test_the_table_names_every_state_and_input() -> None:
    assert {state for state, _ in TABLE} == set(TurnState)
    assert {what for _, what in TABLE} == set(TurnInput)
    reached = {S.IDLE} | {following for following, _ in TABLE.values()}
    assert reached == set(TurnState)


def test_what_commits_and_what_abandons_is_written_here() -> None:
    for row, (following, actions) in TABLE.items():
        assert ("commit" in actions or "resolve" in actions) == (row in COMMITS), row
        gone = {"cancel", "drop", "give_up", "expire"} & set(actions)
        assert bool(gone) == (row in ABANDONS), row
        over = row in COMMITS or row in ABANDONS
        assert over or following is not S.IDLE, f"{row}: a turn that nobody ended"


FLOOR_OF = {
    S.IDLE: (False, False),
    S.TAILING: (True, False),
    S.STUCK: (False, False),
    S.KEPT: (False, False),
}
"""Whether nothing new is played, and whether the person is talking; elsewhere both."""


@pytest.mark.parametrize("state", TurnState)
def test_whose_floor_it_is(state: TurnState) -> None:
    person = Person()
    person.bring_to(state)
    turn = person.turn
    assert (turn.takes_floor, turn.has_floor) == FLOOR_OF.get(state, (True, True))
    assert turn.is_open == (state is not S.IDLE)


# ---- who may commit -----------------------------------------------------------------------

ENDS: dict[TurnState, set[TurnInput]] = {
    S.HOLDING: {I.LET_GO, I.TOGGLE},
    S.LATCHED: {I.TALK, I.TOGGLE},
    S.LOST: {I.TOGGLE},
    S.LATCHED_LOST: {I.TALK, I.TOGGLE},
    S.STUCK: {I.TALK, I.TOGGLE, I.ACKNOWLEDGE, I.TYPED},
    S.KEPT: {I.TALK, I.TOGGLE, I.ACKNOWLEDGE, I.TYPED},
    S.HELD_BACK: {I.TOGGLE, I.ACKNOWLEDGE},
}
"""Each gesture that ends a turn with the person's hand, and where it does. A commit with a
manual source has one of these behind it, and nothing of the hand's between the two."""


def check_every_path() -> None:
    """All paths over the table. A turn is known by its state, by whether its source is
    manual, and by whether the last gesture that meant anything is one that ends it."""
    seen, used = set(), set()
    todo = [(S.IDLE, False, False)]
    while todo:
        state, manual, ended = at = todo.pop()
        if at in seen:
            continue
        seen.add(at)
        for what in TurnInput:
            if (state, what) not in TABLE:
                continue
            following, actions = TABLE[state, what]
            by_hand, over = manual, ended
            if what in ENDS.get(state, ()):
                over = True
                used.add((state, what))
            elif what in GESTURES and state is not S.TAILING:
                over = False
            for action in actions:
                if action in ("start", "take_over"):
                    by_hand, over = what is not I.VOICE, False
                elif action == "confirm":
                    by_hand = True
                elif action in ("commit", "resolve"):
                    assert over or not by_hand, f"{state}, {what}: no gesture ended it"
                    assert by_hand or state is S.TAILING, f"{state}, {what}: by no hand"
            todo.append((following, by_hand, over))
    assert {state for state, _, _ in seen} == set(TurnState)
    assert used == {(state, what) for state, whats in ENDS.items() for what in whats}


def test_every_path_to_a_manual_commit_has_its_gesture() -> None:
    check_every_path()


def test_no_row_lets_time_or_a_fault_commit() -> None:
    """By the table alone: an action that can commit stands in the row of a gesture, or in
    one of TAILING, where a gesture, or the silence of an automatic turn, has led."""
    for (state, what), (following, actions) in TABLE.items():
        if {"commit", "resolve"} & set(actions):
            assert what in GESTURES or state is S.TAILING, (state, what)
        if following is S.TAILING:
            assert what in ENDS.get(state, ()) or (state, what) == (S.SPEAKING, I.VOICE_END)


DEPTH = count(4, 5, 5)
STEPS = [what for what in TurnInput if what is not I.TOO_SOON]  # the machine makes that


class Checked:
    """A person whose every step is held against the rules."""

    def __init__(self) -> None:
        self.person = Person()
        self.started = 0
        self.last_end = 0
        self.ended: set[int] = set()
        self.ends: dict[int, int] = {}
        self.by_hand: set[int] = set()
        """Turns that a gesture has ended."""
        self.taken: set[int] = set()
        """Turns that a gesture began or took over."""

    def give(self, what: TurnInput) -> None:
        turn = self.person.turn
        before, number = turn.state, turn.number
        facts = self.person.give(what)
        if what in ENDS.get(before, ()):
            self.by_hand.add(number)
        elif before in (S.SPEAKING, S.HELD_BACK) and what in (I.TALK, I.TOGGLE):
            self.taken.add(number)
        for fact in facts:
            match fact:
                case Started(n, source, at_ns, start, pre_roll, gesture):
                    assert n == self.started + 1, "numbers rise by one"
                    assert start >= self.last_end, "shared samples"
                    assert pre_roll == max(gesture.est - start, 0) <= PRE
                    assert at_ns == self.person.now
                    assert n - len(self.ended) == 1, "two open turns"
                    self.started = n
                    if source != "vad":
                        self.taken.add(n)
                case AudioEnds(n, end):
                    self.ends[n] = end
                case Committed(n, commit, Span(start, end)):
                    assert n == self.started and n not in self.ended, "ended twice"
                    assert self.last_end <= start <= end == self.ends[n]
                    if commit.source == "vad":
                        assert before is S.TAILING and n not in self.taken
                    else:
                        assert commit.source in MANUAL and n in self.by_hand
                    if what not in GESTURES:
                        assert before is S.TAILING, f"{what} committed a turn"
                    if n in self.taken and "began" not in commit.evidence:
                        assert end - start >= SHORTEST
                    self.last_end = end
                    self.ended.add(n)
                case Abandoned(n, _):
                    assert n == self.started and n not in self.ended, "ended twice"
                    self.ended.add(n)
        assert self.started - len(self.ended) == turn.is_open
        if what is I.STOP:
            assert not turn.is_open


def check_histories(first: TurnInput, gap_ms: int, depth: int = DEPTH) -> None:
    for rest in product(STEPS, repeat=depth - 1):
        checked = Checked()
        for what in (first, *rest):
            checked.give(what)
            if what is I.STOP:
                break
            checked.person.wait(gap_ms)


@pytest.mark.grows
@pytest.mark.parametrize("gap_ms", [30, 200])
@pytest.mark.parametrize("first", STEPS)
def test_no_history_breaks_a_rule(first: TurnInput, gap_ms: int) -> None:
    check_histories(first, gap_ms)


LIVELY = [what for what in STEPS if what is not I.STOP]
GAPS = st.sampled_from([0, 1, 30, 99, 100, 250, 251, 5_000, 60_000])


@pytest.mark.grows
@settings(max_examples=count(300, 3_000, 30_000), deadline=None)
@given(st.lists(st.tuples(st.sampled_from(LIVELY), GAPS, st.booleans()), max_size=60))
def test_no_long_history_breaks_a_rule(steps: list[tuple[TurnInput, int, bool]]) -> None:
    """Sixty steps, at any distance; the detector listens, or does not."""
    checked = Checked()
    for what, gap_ms, spoken in steps:
        checked.person.turn.heard(checked.person.now, spoken)
        checked.give(what)
        checked.person.wait(gap_ms)
    checked.give(I.STOP)


# ---- time ---------------------------------------------------------------------------------


@pytest.mark.parametrize("state", TIME_OF)
def test_time_alone_and_to_the_nanosecond(state: TurnState) -> None:
    """Nothing a nanosecond, or a sample, before it is due; never a commit but of a tail."""
    person = Person()
    person.bring_to(state)
    what = TIME_OF[state]
    due = START_NS + TIME_MS[what] * MS
    if state in (S.LOST, S.LATCHED_LOST, S.HELD_BACK):
        due += 200 * MS
    elif state in (S.STUCK, S.KEPT):
        due += TIME_MS[I.STUCK] * MS + 200 * MS
    if state is S.TAILING:
        end = START + 200 * 48 + POST
        assert person.turn.captured(end - 1, due * 9) == []
        facts = person.turn.captured(end, person.now)
    else:
        early = person.turn.captured(person.sample, due - 1)
        assert all(isinstance(fact, Warned) for fact in early) and person.turn.state is state
        facts = person.turn.captured(person.sample, due)
    assert person.turn.state is TABLE[state, what][0]
    assert all(isinstance(fact, Committed) for fact in facts) == (state is S.TAILING)


@pytest.mark.parametrize("state", [S.STUCK, S.KEPT, S.LOST, S.LATCHED_LOST, S.HELD_BACK])
def test_what_waits_for_a_gesture_is_never_committed_without_one(state: TurnState) -> None:
    person = Person()
    person.bring_to(state)
    for what in (I.LET_GO, I.CONTROL_LOST, I.CONTROL_BACK, I.VOICE_END, I.VOICE_END_HELD):
        person.give(what)
    for _ in range(450):  # a latch whose control came back goes on, and is kept in its turn
        person.wait(1_000)
        person.facts += person.turn.captured(person.sample, person.now)
    assert isinstance(person.facts[-1], Abandoned) and person.turn.state is S.IDLE
    assert not any(isinstance(fact, Committed) for fact in person.facts)


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


RELEASES = [(state, what) for (state, what), (_, actions) in TABLE.items() if "release" in actions]


@pytest.mark.parametrize(("samples", "kind"), [(SHORTEST - 1, Abandoned), (SHORTEST, AudioEnds)])
@pytest.mark.parametrize(("state", "what"), RELEASES)
def test_to_the_sample(state: TurnState, what: TurnInput, samples: int, kind: type) -> None:
    """By every gesture that ends a turn, also where the control was lost in between."""
    person = Person()
    person.bring_to(state, gap_ms=20)
    ends = START + samples
    (fact,) = person.turn.gesture(what, person.now, Estimate(ends, ends, ends))
    assert isinstance(fact, kind)
    assert person.turn.state is (S.IDLE if kind is Abandoned else S.TAILING)


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
    evidence = {"held_ms": 2_060, "latched_after_ms": 60, **BUTTON}
    assert committed.commit == CommitBy("latch", evidence)


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


@pytest.mark.parametrize("state", [S.HOLDING, S.LATCHED])
def test_a_minute_without_speech_is_a_stuck_key(state: TurnState) -> None:
    person = Person()
    person.bring_to(state, gap_ms=0)
    for second in range(61):
        person.turn.heard(person.now, spoken=second == 0)
        facts = person.turn.captured(person.sample, person.now)
        assert (facts == [AudioEnds(1, person.sample)]) == (second == 60)
        person.wait(1_000)
    assert person.turn.state is (S.STUCK if state is S.HOLDING else S.KEPT)


SAID = {"never": Abandoned, "and then a minute of silence": Committed, "all the time": Committed}


@pytest.mark.parametrize("settle", [I.TALK, I.TOGGLE, I.TYPED])
@pytest.mark.parametrize("said", SAID)
def test_the_next_gesture_settles_what_is_kept(said: str, settle: TurnInput) -> None:
    """It is committed if somebody spoke in it, whatever it was stuck by."""
    person = Person()
    person.give(I.TALK)
    while person.turn.state is S.HOLDING:
        person.wait(1_000)
        early = person.now - START_NS < 10_000 * MS
        person.turn.heard(person.now, (early and said != "never") or said == "all the time")
        person.turn.captured(person.sample, person.now)
    end = person.sample
    assert person.give(I.LET_GO) == []  # it came loose
    assert person.turn.state is S.KEPT
    person.wait(1_000)
    settled, *started = person.give(settle)
    assert isinstance(settled, SAID[said])
    assert [type(fact) for fact in started] == ([Started] if settle is not I.TYPED else [])
    if isinstance(settled, Committed):
        why = "longest" if said == "all the time" else "no speech"
        assert settled.commit.evidence["stuck_key"] == why
        assert settled.capture.end == end
    else:
        assert settled == Abandoned(1, "stuck_key")


def test_what_nobody_listened_to_is_kept_as_spoken() -> None:
    person = Person()
    person.bring_to(S.STUCK)
    settled, _ = person.give(I.TALK)
    assert isinstance(settled, Committed)


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
    assert committed.commit == CommitBy("ptt", {"held_ms": 50, "began": "vad", **BUTTON})
    assert committed.capture.start == START - PRE  # with all that was said before the press


@pytest.mark.parametrize("gesture", [I.ACKNOWLEDGE, I.TOGGLE])
@pytest.mark.parametrize("ms", [0, 249, 250, 5_000])
def test_a_gesture_sends_what_was_held_back(gesture: TurnInput, ms: int) -> None:
    """Whole, and nothing of what comes after the gesture: that is the next turn's."""
    person = Person()
    person.give(I.VOICE)
    person.wait(2_000)
    (held_back,) = person.give(I.VOICE_END_HELD)
    assert isinstance(held_back, HeldBack)
    person.wait(ms)
    ends, committed = person.give(gesture)
    assert isinstance(ends, AudioEnds) and isinstance(committed, Committed)
    assert committed.capture == Span(
        held_back.capture.start, min(held_back.capture.end, person.sample)
    )
    assert ends.end == committed.capture.end
    (started,) = person.give(I.TALK)
    assert isinstance(started, Started) and started.start <= person.sample


@pytest.mark.parametrize("gesture", [I.TALK, I.TOGGLE])
def test_a_turn_that_was_held_back_is_taken_over_whole(gesture: TurnInput) -> None:
    """By talking on; a toggle sends it at once (above)."""
    person = Person()
    person.bring_to(S.HELD_BACK if gesture is I.TALK else S.SPEAKING)
    assert person.give(gesture) == []
    person.wait(700)
    end = I.LET_GO if gesture is I.TALK else I.TOGGLE
    assert person.give(end) == [AudioEnds(1, person.sample + POST)]
    released = person.sample
    (committed,) = person.give(I.TAIL_CAPTURED)
    assert isinstance(committed, Committed)
    assert committed.capture == Span(START - PRE, released + POST)
    source = "ptt" if gesture is I.TALK else "toggle"
    assert committed.commit == CommitBy(source, {"held_ms": 700, "began": "vad", **BUTTON})


def test_who_goes_on_speaking_takes_back_what_was_held() -> None:
    person = Person()
    person.bring_to(S.HELD_BACK)
    assert person.give(I.VOICE) == []
    person.wait(900)
    assert person.give(I.VOICE_END_HELD) == [HeldBack(1, Span(START - PRE, person.sample + POST))]


def test_an_automatic_turn_says_that_it_is_one() -> None:
    person = Person()
    person.bring_to(S.SPEAKING)
    person.give(I.VOICE_END)
    person.give(I.TAIL_CAPTURED)
    committed = person.facts[-1]
    assert isinstance(committed, Committed)
    assert committed.commit == CommitBy("vad", {"held_ms": 200})


def test_numbers_go_on_after_a_restart() -> None:
    turn = Turn(SETTINGS, number=41)
    (started,) = turn.gesture(I.TALK, 0, Estimate(0, 0, 0))
    assert isinstance(started, Started) and started.turn == 42
    assert turn.take_number() == 43
