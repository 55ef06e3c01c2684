"""The puck's lines: whatever comes in, no press that was not made."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiers import count

from handset.core.keys import Key
from handset.core.lamp import Pattern
from handset.core.puck_lines import (
    DEAD_NS,
    LONGEST,
    MILLISECOND,
    Battery,
    KeyEdge,
    Puck,
    PuckFact,
    There,
    crc16,
    lamp_line,
    line,
)

HELLO = line("H 1 north talk,cancel")


def greeted(puck: Puck | None = None) -> Puck:
    puck = puck or Puck()
    assert puck.feed(HELLO + line("K 0 0 0"), 0) == [There(frozenset())]
    return puck


def downs(facts: list[PuckFact]) -> list[tuple[Key, bool]]:
    return [(fact.key, fact.down) for fact in facts if isinstance(fact, KeyEdge)]


def test_the_checksum_is_crc_16() -> None:
    assert crc16(b"123456789") == 0x29B1  # the check value of CRC-16/CCITT-FALSE


def test_a_line_that_was_lost_is_repaired_by_the_next() -> None:
    edges = downs(greeted().feed(line("K 40 3 2"), 50 * MILLISECOND))
    talk, cancel = (Key.TALK, True), (Key.CANCEL, True)
    assert edges == [talk, (Key.TALK, False), talk, cancel, (Key.CANCEL, False)]


def test_counters_wrap() -> None:
    puck = Puck()
    puck.feed(HELLO + line("K 0 254 255"), 0)
    facts = puck.feed(line("K 1 1 0"), MILLISECOND)
    assert [down for _, down in downs(facts)] == [True, False, True, False]


def test_what_is_down_at_its_start_is_no_press() -> None:
    puck = Puck()
    assert puck.feed(HELLO + line("K 0 1 0"), 0) == [There(frozenset({Key.TALK}))]


def test_an_edge_is_as_old_as_the_puck_says_and_never_of_the_future() -> None:
    puck = greeted()
    puck.feed(line("K 100 0 0"), 103 * MILLISECOND)  # 3 ms late
    (edge,) = puck.feed(line("K 200 1 0"), 260 * MILLISECOND)
    assert isinstance(edge, KeyEdge)
    assert edge.at_ns == 200 * MILLISECOND  # the least delay was 0
    (edge,) = puck.feed(line("K 900 2 0"), 400 * MILLISECOND)
    assert isinstance(edge, KeyEdge) and edge.at_ns <= 400 * MILLISECOND


def test_edges_are_in_order_when_a_later_line_was_faster() -> None:
    puck = Puck()
    puck.feed(HELLO + line("K 0 0 0"), 50 * MILLISECOND)
    (first,) = puck.feed(line("K 10 1 0"), 60 * MILLISECOND)
    (second,) = puck.feed(line("K 12 2 0"), 40 * MILLISECOND + 22 * MILLISECOND)
    (third,) = puck.feed(line("K 70 3 0"), 72 * MILLISECOND)
    assert isinstance(first, KeyEdge) and isinstance(second, KeyEdge)
    assert isinstance(third, KeyEdge)
    assert first.at_ns <= second.at_ns <= third.at_ns == 72 * MILLISECOND


def test_the_clock_wraps_after_49_days() -> None:
    puck, end = Puck(), (1 << 32) - 100
    puck.feed(HELLO + line(f"K {end} 0 0"), 1_000 * MILLISECOND)
    (edge,) = puck.feed(line("K 100 1 0"), 1_230 * MILLISECOND)
    assert edge == KeyEdge(Key.TALK, True, 1_200 * MILLISECOND)


@pytest.mark.parametrize("clock", [5, 1_000, 500_000, (1 << 31) + 7, (1 << 32) - 700_000])
@pytest.mark.parametrize("state", ["0 0", "1 0", "4 9"])
def test_a_puck_that_was_started_anew_makes_no_press(clock: int, state: str) -> None:
    """Its counters and its clock begin anew: 250 presses, to who takes the difference."""
    puck = Puck()
    puck.feed(HELLO + line(f"K {clock} 6 7"), clock * MILLISECOND)
    now_ns = (clock + 300) * MILLISECOND
    down = frozenset(
        key for key, n in zip((Key.TALK, Key.CANCEL), state.split(), strict=True) if int(n) % 2
    )
    assert puck.feed(line(f"K 2 {state}"), now_ns) == [There(down)]
    talk, cancel = (int(n) for n in state.split())
    (edge,) = puck.feed(line(f"K 12 {talk + 1} {cancel}"), now_ns + 10 * MILLISECOND)
    assert edge == KeyEdge(Key.TALK, not talk % 2, now_ns + 10 * MILLISECOND)


def test_one_that_was_started_anew_while_nobody_listened_is_noticed_by_its_counters() -> None:
    puck = Puck()
    puck.feed(HELLO + line("K 10 6 0"), 10 * MILLISECOND)
    assert puck.feed(line("K 400 0 0"), 900 * MILLISECOND) == [There(frozenset())]


@pytest.mark.parametrize(
    "body",
    ["K 1 1", "K 1 1 1 1", "K x 1 1", "K 1 1 256", "K -1 1 1", "K 4294967296 1 1", "B 101",
     "B -1", "X", "H 2 n talk", "K", "K 1 ² 1", "H 1 n", "H 1  talk", "H 1 n talk,talk",
     "H 1 n talk,", "H 1 n\x1b[2J talk", "K  1 1 1", "K 1\t1 1"],
)  # fmt: skip
def test_a_line_that_makes_no_sense_is_counted(body: str) -> None:
    puck = greeted()
    assert puck.feed(line(body), 1) == []
    assert puck.wrong == 1
    assert puck.feed(line("K 1 1 0"), 2) == [KeyEdge(Key.TALK, True, 2)]


def test_a_line_from_before_the_hello_is_no_press_and_no_mistake() -> None:
    puck = Puck()
    assert puck.feed(line("K 5 1 1"), 5) == [] and puck.wrong == 0
    assert puck.feed(HELLO + line("K 6 1 0"), 6) == [There(frozenset({Key.TALK}))]


@pytest.mark.parametrize("size", [LONGEST + 1, 1_000, 70_000])
@pytest.mark.parametrize("piece", [1, 64, 4_096])
def test_a_line_that_is_too_long_is_one_wrong_line(size: int, piece: int) -> None:
    puck, data = greeted(), b"x" * size + b"\n"
    for at in range(0, len(data), piece):
        assert puck.feed(data[at : at + piece], 1) == []
    assert puck.wrong == 1
    assert downs(puck.feed(line("K 1 1 0"), 2)) == [(Key.TALK, True)]


def test_a_key_that_nobody_knows_is_left_out() -> None:
    puck = Puck()
    puck.feed(line("H 1 n talk,siren") + line("K 0 0 0"), 0)
    assert [type(f) for f in puck.feed(line("K 1 1 1"), 1)] == [KeyEdge]


def test_dead_is_a_second_and_a_half_without_a_line() -> None:
    puck = greeted()
    assert not puck.dead(DEAD_NS) and puck.dead(DEAD_NS + 1)
    puck.feed(b"rubbish\n", DEAD_NS)
    assert puck.dead(DEAD_NS + 1)


def test_battery_and_lamp() -> None:
    assert greeted().feed(line("B 7"), 1) == [Battery(7)]
    pattern = Pattern("x", "amber", ((True, 500), (False, 250)))
    assert lamp_line(pattern) == line("L amber 1:500 0:250")


def no_press_of_bytes(puck: Puck, parts: list[bytes]) -> None:
    """Except lines with the right checksum, which are none by chance here."""
    for at, part in enumerate(parts):
        assert puck.feed(part.replace(b"*", b"+"), at) == []
    puck.feed(b"\n", 99)
    facts = puck.feed(line("K 9 1 0"), 100)
    assert [fact.down for fact in facts if isinstance(fact, KeyEdge)] == [True]


@given(st.lists(st.binary(max_size=300), max_size=20))
def test_no_bytes_make_a_press_or_an_error(parts: list[bytes]) -> None:
    no_press_of_bytes(greeted(), parts)


@given(st.lists(st.binary(max_size=60).map(lambda raw: raw.decode("latin-1")), max_size=5))
def test_right_checksums_around_any_words_are_no_error(bodies: list[str]) -> None:
    puck = greeted()
    for body in bodies:
        puck.feed(line(body.replace("\n", " ")), 1)
    assert puck.wrong <= len(bodies) + 1


def no_press_of_a_flipped_bit(puck: Puck, place: int, bit: int) -> None:
    data = bytearray(line("K 77 1 0"))
    data[place % (len(data) - 1)] ^= 1 << bit
    assert puck.feed(bytes(data), 1) == [] or b"\n" in data[:-1]


@given(st.integers(0, 200), st.integers(0, 7))
def test_a_bit_that_flips_is_noticed(place: int, bit: int) -> None:
    no_press_of_a_flipped_bit(greeted(), place, bit)


# ---- a whole life of a puck, over a cable that loses, garbles, merges and splits


def told_as_made(puck: Puck, seed: int, steps: int) -> None:
    """Every edge that the hand made is told once and in order, but those that a restart ended."""
    chance, now_ms, began_ms = random.Random(seed), 1_000, 0
    counts, sent = [0, 0], b""
    made: list[tuple[Key, bool]] = []
    told: list[tuple[Key, bool]] = []
    puck.feed(HELLO + line("K 1000 0 0"), now_ms * MILLISECOND)
    times = []
    for step in range(steps + 1):
        now_ms += chance.choice([1, 4, 60, 500])
        act = chance.random()
        if step == steps:
            act = 1.0  # the last line arrives
        if act < 0.6:
            key = chance.randrange(2)
            counts[key] = (counts[key] + 1) % 256
            made.append(((Key.TALK, Key.CANCEL)[key], counts[key] % 2 == 1))
        elif act < 0.62 and (puck.heard_ns or 0) > began_ms * MILLISECOND:  # after its start
            # What was not told by now is not: keys are taken as they are.
            counts, began_ms = [count % 2 for count in counts], now_ms
            facts = puck.feed(b"\n", now_ms * MILLISECOND)
            told += downs(facts)
            times += [fact.at_ns for fact in facts if isinstance(fact, KeyEdge)]
            made, sent = list(told), b""
        data = line(f"K {now_ms - began_ms} {counts[0]} {counts[1]}")
        harm = chance.random() if step < steps and began_ms != now_ms else 1.0
        if harm < 0.2:
            data = b""
        elif harm < 0.3:
            place = chance.randrange(len(data))
            data = data[:place] + data[place + 1 :]  # a newline too: two lines are one
        elif harm < 0.4:
            data = bytes(chance.randrange(256) for _ in range(chance.randrange(40))) + b"\n"
        sent += b"\n" + data if step == steps or began_ms == now_ms else data
        cut = len(sent) if step == steps or began_ms == now_ms else chance.randrange(len(sent) + 1)
        facts = puck.feed(sent[:cut], now_ms * MILLISECOND)
        sent = sent[cut:]
        told += downs(facts)
        times += [fact.at_ns for fact in facts if isinstance(fact, KeyEdge)]
        assert all(at_ns <= now_ms * MILLISECOND for at_ns in times[-1:])
    for key in (Key.TALK, Key.CANCEL):  # those of two keys in one line are in the keys' order
        assert [down for each, down in told if each is key] == [
            down for each, down in made if each is key
        ]
    assert times == sorted(times)


@pytest.mark.grows
def test_what_is_told_is_what_was_made() -> None:
    for seed in range(count(300, 5_000, 20_000)):
        told_as_made(greeted(), seed, 60)


# ---- faults that each of these must notice


class Trusting(Puck):
    """Looks at no checksum."""

    def _line(self, raw: bytes, now_ns: int) -> list[PuckFact]:
        return self._words(raw.rpartition(b"*")[0].decode("latin-1").split(" "), now_ns) or []


class Flips(Puck):
    """Takes a line for a change of state, and not for a count."""

    def _counted(self, ms: int, counts: tuple[int, ...], now_ns: int) -> list[PuckFact]:
        before = self._counts or counts
        kept = tuple(
            old if new % 2 == old % 2 else old + 1 for old, new in zip(before, counts, strict=True)
        )
        facts = Puck._counted(self, ms, tuple(n % 256 for n in kept), now_ns)
        return facts


class NeverAnew(Puck):
    """Takes every difference for presses."""

    @staticmethod
    def _goes_on(before: tuple[int, ...], counts: tuple[int, ...], forward: int) -> bool:
        return True


class LastDelay(Puck):
    """Takes the delay of each line for the least one."""

    def _time(self, now_ns: int) -> int:
        return now_ns - 30 * MILLISECOND * (self._ms % 2)


@pytest.mark.parametrize("fault", [Trusting, Flips, NeverAnew, LastDelay])
def test_a_planted_fault_is_noticed(fault: type[Puck]) -> None:
    with pytest.raises(AssertionError):
        for seed in range(300):
            told_as_made(greeted(fault()), seed, 60)
            no_press_of_a_flipped_bit(greeted(fault()), seed, seed % 8)


@settings(max_examples=30)
@given(st.integers(0, 1 << 30))
def test_any_life_of_a_puck(seed: int) -> None:
    told_as_made(greeted(), seed, 120)
