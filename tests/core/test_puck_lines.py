"""The puck's lines: whatever comes in, no press that was not made."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handset.core.keys import Key
from handset.core.lamp import Pattern
from handset.core.puck_lines import (
    DEAD_NS,
    MILLISECOND,
    Battery,
    KeyEdge,
    Puck,
    There,
    crc8,
    lamp_line,
    line,
)

HELLO = line("H 1 north talk,cancel")


def greeted() -> Puck:
    puck = Puck()
    assert puck.feed(HELLO + line("K 0 0 0"), 0) == [There(frozenset())]
    return puck


def test_the_checksum_is_crc_8() -> None:
    assert crc8(b"123456789") == 0xF4  # the check value of CRC-8/SMBUS


def test_a_line_that_was_lost_is_repaired_by_the_next() -> None:
    facts = greeted().feed(line("K 40 3 2"), 50 * MILLISECOND)
    edges = [(fact.key, fact.down) for fact in facts if isinstance(fact, KeyEdge)]
    talk, cancel = (Key.TALK, True), (Key.CANCEL, True)
    assert edges == [talk, (Key.TALK, False), talk, cancel, (Key.CANCEL, False)]


def test_counters_wrap() -> None:
    puck = Puck()
    puck.feed(HELLO + line("K 0 254 255"), 0)
    facts = puck.feed(line("K 1 1 0"), MILLISECOND)
    assert [f.down for f in facts if isinstance(f, KeyEdge)] == [True, False, True, False]


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


def test_a_puck_that_was_started_anew_has_a_clock_of_its_own() -> None:
    puck = greeted()
    puck.feed(line("K 500000 0 0"), 500_000 * MILLISECOND)
    (edge,) = puck.feed(line("K 10 1 0"), 500_100 * MILLISECOND)
    assert isinstance(edge, KeyEdge) and edge.at_ns == 500_100 * MILLISECOND


@pytest.mark.parametrize(
    "body",
    ["K 1 1", "K 1 1 1 1", "K x 1 1", "K 1 1 256", "K -1 1 1", "K 4294967296 1 1", "B 101",
     "B -1", "X", "H 2 n talk", "K", "K 1 ² 1"],
)  # fmt: skip
def test_a_line_that_makes_no_sense_is_counted(body: str) -> None:
    puck = greeted()
    assert puck.feed(line(body), 1) == []
    assert puck.wrong == 1


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


@given(st.lists(st.binary(max_size=300), max_size=20))
def test_no_bytes_make_a_press_or_an_error(parts: list[bytes]) -> None:
    """Except lines with the right checksum, which are none by chance here."""
    puck = greeted()
    for at, part in enumerate(parts):
        clean = part.replace(b"*", b"+")
        assert puck.feed(clean, at) == []
    puck.feed(b"\n", 99)
    facts = puck.feed(line("K 9 1 0"), 100)
    assert [fact.down for fact in facts if isinstance(fact, KeyEdge)] == [True]


@given(st.integers(0, 200), st.integers(1, 7))
def test_a_bit_that_flips_is_noticed(place: int, bit: int) -> None:
    data = bytearray(line("K 77 1 0"))
    data[place % (len(data) - 1)] ^= 1 << bit
    puck = greeted()
    assert puck.feed(bytes(data), 1) == [] or b"\n" in data[:-1]
