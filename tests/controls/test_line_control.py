"""Lines as a talk button, through a real pipe."""

from __future__ import annotations

import array
import asyncio
import fcntl
import os
import termios
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from hand import Hand

from handset.controls.lines import LONGEST, LineControl
from handset.core.keys import Key

PAIRS = 10_000


@asynccontextmanager
async def reading(hand: Hand) -> AsyncIterator[tuple[LineControl, int]]:
    """A control that reads, and the end to write to. Its end is awaited."""
    end, write = os.pipe()
    with open(end, "rb") as stream:  # noqa: ASYNC230 - it is open already
        control = LineControl(hand, stream)
        running = asyncio.ensure_future(control.run())
        try:
            yield control, write
        finally:
            os.close(write)
            await asyncio.wait_for(running, 10)


async def test_press_and_release_one_a_line() -> None:
    hand = Hand()
    before = time.monotonic_ns()
    async with reading(hand) as (control, write):
        os.write(write, b"press\n")
        await hand.until(lambda: len(hand.edges) == 1)
        os.write(write, b"  release \r\n\n")
        await hand.until(lambda: len(hand.edges) == 2)
    assert hand.words == ["press", "release", "lost"]
    assert hand.there == 1
    assert before < hand.edges[0][1] <= hand.edges[1][1] <= time.monotonic_ns()
    assert control.unknown == 0


async def test_another_key_by_its_name() -> None:
    hand = Hand()
    async with reading(hand) as (_, write):
        os.write(write, b"press cancel\nrelease cancel\npress talk\n")
        await hand.until(lambda: bool(hand.edges))
    assert hand.keys == [(Key.CANCEL, True), (Key.CANCEL, False)]
    assert hand.words == ["press", "lost"]


async def test_a_line_in_pieces_is_one_line() -> None:
    hand = Hand()
    async with reading(hand) as (control, write):
        for piece in (b"pr", b"ess\nrel", b"ease\n"):
            os.write(write, piece)
            await asyncio.sleep(0)
        await hand.until(lambda: len(hand.edges) == 2)
    assert hand.words == ["press", "release", "lost"]
    assert control.unknown == 0


async def test_other_lines_are_counted_and_do_nothing() -> None:
    hand = Hand()
    async with reading(hand) as (control, write):
        os.write(write, b"PRESS\npress release\npress a b\n\xff\xfe\nstop\n\nrelease\n")
        await hand.until(lambda: bool(hand.edges))
        assert control.unknown == 5
    assert hand.words == ["release", "lost"]


@pytest.mark.parametrize("length", [LONGEST + 1, 4_096, 5_000, 60_000])
async def test_a_line_that_is_too_long_is_one_unknown_line(length: int) -> None:
    hand = Hand()
    async with reading(hand) as (control, write):
        os.write(write, b"press" + b" " * (length - 5) + b"\n" + b"release\n")
        await hand.until(lambda: bool(hand.edges))
        assert control.unknown == 1
    assert hand.words == ["release", "lost"]


async def test_the_rest_of_a_line_that_is_too_long_is_no_press() -> None:
    hand = Hand()
    async with reading(hand) as (control, write):
        for _ in range(3):
            os.write(write, b"x" * 10_000)
            while _unread(write):  # noqa: ASYNC110 - until this piece was taken for itself
                await asyncio.sleep(0)
            await asyncio.sleep(0)
        os.write(write, b"press\nrelease\n")
        await hand.until(lambda: bool(hand.edges))
        assert control.unknown == 1
    assert hand.words == ["release", "lost"]


def _unread(write: int) -> int:
    """Bytes in the pipe."""
    n = array.array("i", [0])
    fcntl.ioctl(write, termios.FIONREAD, n)
    return n[0]


async def test_the_end_of_the_lines_is_a_lost_control() -> None:
    hand = Hand()
    async with reading(hand) as (_, write):
        os.write(write, b"press\nrelea")
        await hand.until(lambda: len(hand.edges) == 1)
    assert hand.words == ["press", "lost"]


async def test_ten_thousand_pairs_arrive_in_order() -> None:
    hand = Hand()
    async with reading(hand) as (control, write):
        lines = b"press\nrelease\n" * PAIRS
        await asyncio.to_thread(_write_all, write, lines)
        await hand.until(lambda: len(hand.edges) == 2 * PAIRS)
    assert hand.words == ["press", "release"] * PAIRS + ["lost"]
    assert control.unknown == 0
    times = [at_ns for _, at_ns in hand.edges]
    assert times == sorted(times)


def _write_all(write: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(write, left) :]
