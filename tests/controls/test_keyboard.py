"""The space bar, on a real terminal: a pseudo one."""

from __future__ import annotations

import asyncio
import contextlib
import os
import termios
import time
from collections.abc import Iterator
from typing import TextIO

import pytest
from hand import Hand

from handset.controls.keyboard import HELP, KEYS, Keyboard
from handset.core.keys import Key

LFLAG = 3


@pytest.fixture
def terminal() -> Iterator[tuple[int, TextIO]]:
    """Where keys are typed, and the stream that they come out of."""
    typed, end = os.openpty()
    with open(end, encoding="utf-8") as stream:
        yield typed, stream
    with contextlib.suppress(OSError):
        os.close(typed)


def mode(stream: TextIO) -> list[object]:
    return termios.tcgetattr(stream.fileno())


async def test_each_space_is_a_tap(terminal: tuple[int, TextIO]) -> None:
    typed, stream = terminal
    hand = Hand()
    before = time.monotonic_ns()
    with Keyboard(hand, stream):
        for n in range(1, 3):
            os.write(typed, b" ")
            await hand.until(lambda n=n: len(hand.edges) == 2 * n)
    assert hand.there == 1
    assert hand.words == ["press", "release"] * 2
    times = [at_ns for _, at_ns in hand.edges]
    assert times == sorted(times) and before < times[0] and times[-1] < time.monotonic_ns()


async def test_keys_that_come_together_all_count(terminal: tuple[int, TextIO]) -> None:
    typed, stream = terminal
    hand = Hand()
    with Keyboard(hand, stream):
        os.write(typed, b" x\xc3\xa4 \r ")
        await hand.until(lambda: len(hand.edges) == 6)
    assert hand.words == ["press", "release"] * 3


async def test_other_keys_have_names_and_are_in_the_help(terminal: tuple[int, TextIO]) -> None:
    typed, stream = terminal
    hand = Hand()
    with Keyboard(hand, stream):
        for letter, key in KEYS.items():
            os.write(typed, bytes([letter]))
            if key is not Key.TALK:
                await hand.until(lambda key=key: (key, False) in hand.keys)
    named = {Key.TALK, *(key for key, _ in hand.keys)}
    assert named == set(KEYS.values())
    assert all(key.value.split("_")[0] in HELP.replace("_", " ") for key in named)


@pytest.mark.parametrize("key", [b"q", b"\x04"])
async def test_a_key_that_quits(terminal: tuple[int, TextIO], key: bytes) -> None:
    typed, stream = terminal
    hand = Hand()
    with Keyboard(hand, stream) as keyboard:
        assert not keyboard.done.is_set()
        os.write(typed, key)
        await asyncio.wait_for(keyboard.done.wait(), 10)
    assert hand.edges == []


async def test_the_terminal_is_given_back_as_it_was(terminal: tuple[int, TextIO]) -> None:
    _, stream = terminal
    before = mode(stream)
    with pytest.raises(ZeroDivisionError), Keyboard(Hand(), stream):
        during = mode(stream)
        assert during != before
        assert not int(str(during[LFLAG])) & (termios.ICANON | termios.ECHO)
        raise ZeroDivisionError
    assert mode(stream) == before


async def test_keys_after_the_end_are_nobody_s(terminal: tuple[int, TextIO]) -> None:
    typed, stream = terminal
    hand = Hand()
    with Keyboard(hand, stream):
        pass
    os.write(typed, b" ")
    heard = asyncio.Event()
    loop = asyncio.get_running_loop()
    termios.tcsetattr(stream.fileno(), termios.TCSANOW, _raw(stream))
    loop.add_reader(stream.fileno(), heard.set)
    os.write(typed, b" ")
    await asyncio.wait_for(heard.wait(), 10)
    loop.remove_reader(stream.fileno())
    assert hand.edges == []


def _raw(stream: TextIO) -> list[object]:
    flags = mode(stream)
    flags[LFLAG] = int(str(flags[LFLAG])) & ~termios.ICANON
    return flags


async def test_a_terminal_that_goes_away_ends_it_once(terminal: tuple[int, TextIO]) -> None:
    typed, stream = terminal
    hand = Hand()
    with Keyboard(hand, stream) as keyboard:
        os.close(typed)
        await asyncio.wait_for(keyboard.done.wait(), 10)
        keyboard.done.clear()
        # A reader that was left in place would fire on every turn of the loop.
        for _ in range(20):
            await asyncio.sleep(0)
        assert not keyboard.done.is_set()
