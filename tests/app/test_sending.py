"""Packets of a turn that the edge misses: in bundles, in order, only while there is room."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from handset.core.packets import PACKET_SAMPLES, CaptureData, decode
from handset.sending import BUNDLE, EVERY_S, TurnSender

START = 12_345


def packets(first: int, n: int) -> list[tuple[int, bytes]]:
    """``n`` packets of a turn, from its packet ``first`` on; each tells its number."""
    return [(START + PACKET_SAMPLES * i, f"packet {i}".encode()) for i in range(first, first + n)]


class Channel:
    """An ``aud`` channel: takes messages while it has room."""

    def __init__(self, room: int = 1_000_000) -> None:
        self.room = room
        self.got: list[CaptureData] = []
        self.at: list[float] = []
        self.refused = 0
        self._changed = asyncio.Event()

    def send(self, data: bytes) -> bool:
        self._changed.set()
        if self.room == 0:
            self.refused += 1
            return False
        self.room -= 1
        message = decode(data)
        assert isinstance(message, CaptureData)
        self.got.append(message)
        self.at.append(time.monotonic())
        return True

    async def until(self, met: Callable[[], bool]) -> None:
        async with asyncio.timeout(10):
            while not met():
                self._changed.clear()
                await self._changed.wait()

    def numbers(self, turn: int = 1) -> list[int]:
        """Of the packets that arrived, by what is in them and by where they say they are."""
        by_place = [
            (message.capture_sample - START) // PACKET_SAMPLES + i
            for message in self.got
            if message.turn == turn
            for i in range(len(message.packets))
        ]
        inside = [
            int(packet.split()[1])
            for message in self.got
            if message.turn == turn
            for packet in message.packets
        ]
        assert inside == by_place
        return inside


async def test_bundles_of_neighbours_in_order() -> None:
    channel = Channel()
    sender = TurnSender(channel.send)
    sender.send(1, [*packets(0, 23), *packets(30, 2), *packets(40, 1)])
    await channel.until(lambda: sender.sent == 26 or len(channel.numbers()) == 26)
    assert channel.numbers() == [*range(23), 30, 31, 40]
    assert [len(message.packets) for message in channel.got] == [BUNDLE, BUNDLE, 3, 2, 1]
    assert sender.sent == 26
    sender.close()


async def test_it_is_paced() -> None:
    channel = Channel()
    sender = TurnSender(channel.send)
    sender.send(1, packets(0, 4 * BUNDLE))
    await channel.until(lambda: len(channel.got) == 4)
    apart = [b - a for a, b in zip(channel.at, channel.at[1:], strict=False)]
    assert min(apart) >= EVERY_S * 0.9
    sender.close()


async def test_nothing_is_lost_while_there_is_no_room() -> None:
    channel = Channel(room=1)
    sender = TurnSender(channel.send)
    sender.send(1, packets(0, 3 * BUNDLE))
    await channel.until(lambda: channel.refused == 2)
    assert channel.numbers() == list(range(BUNDLE))
    assert sender.sent == BUNDLE
    channel.room = 100
    await channel.until(lambda: len(channel.got) == 3)
    assert channel.numbers() == list(range(3 * BUNDLE))
    sender.close()


async def test_what_waits_is_not_queued_twice() -> None:
    channel = Channel(room=0)
    sender = TurnSender(channel.send)
    sender.send(1, packets(0, 20))
    sender.send(1, packets(0, 20))
    sender.send(1, packets(5, 25))  # cut into other bundles than the first time
    sender.send(2, packets(0, 3))  # another turn's packets are other packets
    channel.room = 100
    await channel.until(lambda: len(channel.numbers()) + len(channel.numbers(2)) >= 33)
    assert channel.numbers() == list(range(30))
    assert channel.numbers(2) == [0, 1, 2]
    sender.close()


async def test_what_was_sent_may_be_asked_for_again() -> None:
    channel = Channel()
    sender = TurnSender(channel.send)
    for n in (1, 2):
        sender.send(1, packets(0, 4))
        await channel.until(lambda n=n: len(channel.got) == n)
    assert channel.numbers() == [0, 1, 2, 3] * 2
    sender.close()


async def test_a_forgotten_turn_is_not_sent() -> None:
    channel = Channel(room=0)
    sender = TurnSender(channel.send)
    sender.send(1, packets(0, 20))
    sender.send(2, packets(0, 5))
    await channel.until(lambda: channel.refused > 0)
    sender.forget(1)
    channel.room = 100
    await channel.until(lambda: bool(channel.got))
    sender.send(2, packets(5, 1))
    await channel.until(lambda: len(channel.got) == 2)
    assert channel.numbers(1) == []
    assert channel.numbers(2) == [0, 1, 2, 3, 4, 5]
    sender.close()


async def test_closed_it_sends_no_more() -> None:
    channel = Channel(room=0)
    sender = TurnSender(channel.send)
    sender.send(1, packets(0, 20))
    await channel.until(lambda: channel.refused > 0)
    sender.close()
    channel.room = 100
    others = asyncio.all_tasks() - {asyncio.current_task()}
    await asyncio.gather(*others, return_exceptions=True)
    assert channel.got == []


async def test_nothing_to_send_is_no_message() -> None:
    channel = Channel()
    sender = TurnSender(channel.send)
    sender.send(1, [])
    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert channel.got == []
