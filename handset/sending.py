"""Backfill: packets of a turn that the edge misses, over the ``aud`` channel, paced.

The channel shares one queue with everything else that is sent, so no more than fits is
given at once: a bundle of 200 ms every 50 ms, four times real time.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from handset.core.packets import PACKET_SAMPLES, CaptureData, encode

BUNDLE = 10
EVERY_S = 0.05


class TurnSender:
    """``send`` gives one binary message, or False while there is no room (or no link)."""

    def __init__(self, send: Callable[[bytes], bool]) -> None:
        self._send = send
        self._waiting: deque[CaptureData] = deque()
        self._task: asyncio.Task[None] | None = None
        self.sent = 0
        """Packets sent a second time."""

    def send(self, turn: int, packets: list[tuple[int, bytes]]) -> None:
        """Queues the packets, each with its capture sample, in bundles of neighbours. What
        waits already is not queued again."""
        waiting = {
            message.capture_sample + PACKET_SAMPLES * i
            for message in self._waiting
            if message.turn == turn
            for i in range(len(message.packets))
        }
        run: list[bytes] = []
        first = 0
        for sample, packet in packets:
            if sample in waiting:
                continue
            if run and (sample != first + PACKET_SAMPLES * len(run) or len(run) == BUNDLE):
                self._waiting.append(CaptureData(turn, first, tuple(run)))
                run = []
            if not run:
                first = sample
            run.append(packet)
        if run:
            self._waiting.append(CaptureData(turn, first, tuple(run)))
        if self._waiting and (self._task is None or self._task.done()):
            self._task = asyncio.ensure_future(self._work())

    def forget(self, turn: int) -> None:
        self._waiting = deque(message for message in self._waiting if message.turn != turn)

    async def _work(self) -> None:
        while self._waiting:
            message = self._waiting[0]
            if self._send(encode(message)):
                self.sent += len(message.packets)
                self._waiting.popleft()
            await asyncio.sleep(EVERY_S)

    def close(self) -> None:
        self._waiting.clear()
        if self._task is not None:
            self._task.cancel()
