"""The microphone track by itself; on the wire it is in test_peer."""

from __future__ import annotations

import asyncio

import pytest
from aiortc.mediastreams import MediaStreamError

from handset.edge.mic import TIME_BASE, MicTrack


async def test_packets_leave_as_they_come_and_the_oldest_are_dropped() -> None:
    mic = MicTrack(limit=3)
    reading = asyncio.ensure_future(mic.recv())
    await asyncio.sleep(0)
    mic.put(b"a", 7)
    packet = await reading
    assert (bytes(packet), packet.pts, packet.time_base) == (b"a", 7, TIME_BASE)
    for i in range(5):
        mic.put(b"%d" % i, 960 * i)
    assert (mic.waiting, mic.dropped) == (3, 2)
    got = [await mic.recv() for _ in range(3)]
    assert [(bytes(each), each.pts) for each in got] == [(b"2", 1920), (b"3", 2880), (b"4", 3840)]
    assert mic.sent == 4


async def test_a_track_that_ended_drops_and_says_so() -> None:
    mic = MicTrack()
    reading = asyncio.ensure_future(mic.recv())
    await asyncio.sleep(0)
    mic.stop()
    with pytest.raises(MediaStreamError):
        await reading
    mic.put(b"a", 0)
    assert (mic.waiting, mic.dropped) == (0, 1)
