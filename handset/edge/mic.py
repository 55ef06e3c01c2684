"""The microphone track: packets that are encoded already, placed on the capture timeline.

aiortc takes pre-encoded packets from a track and sends each the moment it gets it, with
RTP time = pts + a random origin. The pts here is the capture sample, so one number per
connection (:meth:`MicTrack.origin`) says where every RTP packet lies on the timeline.

There is no pacing: capture paces. What a turn has from before its gesture leaves at once,
as a burst. When the connection does not take packets the oldest are dropped and counted;
the turn store has them all and sends again what the edge misses.
"""

from __future__ import annotations

import asyncio
from collections import deque
from fractions import Fraction
from typing import Any

import av
from aiortc import MediaStreamTrack, RTCRtpSender
from aiortc.mediastreams import MediaStreamError

from .aiortc_private import rtp_origin, ssrc

TIME_BASE = Fraction(1, 48_000)
LIMIT = 150
"""Packets that wait for the connection at most: 3 s."""


class MicTrack(MediaStreamTrack):
    """One per connection: it ends when the connection's sender ends. Not thread-safe."""

    kind = "audio"

    def __init__(self, limit: int = LIMIT) -> None:
        super().__init__()
        self._limit = limit
        self._queued: deque[tuple[bytes, int]] = deque()
        self._there = asyncio.Event()
        self._dropped = 0
        self._sent = 0

    @property
    def dropped(self) -> int:
        """Packets that were put and never went to the sender."""
        return self._dropped

    @property
    def sent(self) -> int:
        """Packets that the sender took. Whether they arrived, only the edge knows."""
        return self._sent

    @property
    def waiting(self) -> int:
        """Packets that the sender has not taken yet."""
        return len(self._queued)

    def put(self, packet: bytes, capture_sample: int) -> None:
        """Send one Opus packet whose first sample at the encoder is ``capture_sample``."""
        if self.readyState != "live":
            self._dropped += 1
            return
        if len(self._queued) >= self._limit:
            self._queued.popleft()
            self._dropped += 1
        self._queued.append((packet, capture_sample))
        self._there.set()

    async def recv(self) -> av.Packet[Any]:
        """The next packet, as soon as there is one. ``MediaStreamError`` after ``stop()``."""
        while not self._queued:
            if self.readyState != "live":
                raise MediaStreamError
            self._there.clear()
            await self._there.wait()
        data, capture_sample = self._queued.popleft()
        packet = av.Packet(data)
        packet.pts = capture_sample
        packet.time_base = TIME_BASE
        self._sent += 1
        return packet

    def stop(self) -> None:
        """End the track; what was waiting counts as dropped."""
        super().stop()
        self._dropped += len(self._queued)
        self._queued.clear()
        self._there.set()

    @staticmethod
    def origin(sender: RTCRtpSender) -> int:
        """RTP timestamp of capture sample 0, modulo 2**32. ``UsageError`` before the
        connection is up and after it has ended."""
        return rtp_origin(sender)

    @staticmethod
    def ssrc(sender: RTCRtpSender) -> int:
        """SSRC of the microphone's RTP packets on this connection."""
        return ssrc(sender)
