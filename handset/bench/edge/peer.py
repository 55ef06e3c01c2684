"""One connection of a handset, as the edge has it: an aiortc peer and its queue.

Handlers of aiortc only put on the queue: one that raised would end the connection without
a word to the other side. A task takes from it, in order.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass

from aiortc import (
    MediaStreamTrack,
    RTCBundlePolicy,
    RTCCertificate,
    RTCConfiguration,
    RTCDataChannel,
    RTCPeerConnection,
    RTCSessionDescription,
)
from aiortc.exceptions import InvalidStateError

from .rtc import tap, use_certificate

INBOX_MAX = 8192
CHANNELS = ("ctl", "aud", "tick")
CLOSE_SECONDS = 3.0
CONNECT_SECONDS = 15.0
"""A peer that is not connected by then gives its place away."""


@dataclass(frozen=True, slots=True)
class Text:
    """JSON of ``ctl`` or ``tick``."""

    channel: str
    data: str
    at_ns: int


@dataclass(frozen=True, slots=True)
class Binary:
    channel: str
    data: bytes
    at_ns: int


@dataclass(frozen=True, slots=True)
class Rtp:
    ssrc: int
    timestamp: int
    payload: bytes
    at_ns: int


@dataclass(frozen=True, slots=True)
class Gone:
    """Nothing more comes."""

    at_ns: int


Inbound = Text | Binary | Rtp | Gone


class Peer:
    """``number`` counts connections; ``receive`` is called for each thing that comes in."""

    def __init__(
        self, number: int, certificate: RTCCertificate, receive: Callable[[Peer, Inbound], None]
    ) -> None:
        self.number = number
        self.overrun = 0
        """Things that came in when the queue was full."""
        self._receive = receive
        self._inbox: asyncio.Queue[Inbound] = asyncio.Queue()
        self._channels: dict[str, RTCDataChannel] = {}
        self._gone = False
        self._pc = RTCPeerConnection(
            RTCConfiguration(iceServers=[], bundlePolicy=RTCBundlePolicy.MAX_BUNDLE)
        )
        use_certificate(self._pc, certificate)
        self._pc.on("track", self._on_track)
        self._pc.on("datachannel", self._on_channel)
        self._pc.on("connectionstatechange", self._on_state)
        self._pump = asyncio.ensure_future(self._run())
        self._deadline = asyncio.get_running_loop().call_later(CONNECT_SECONDS, self._overdue)
        self._closing: asyncio.Task[None] | None = None

    async def answer(self, offer: str) -> str:
        """SDP of the answer, complete. Raises whatever aiortc makes of a bad offer."""
        await self._pc.setRemoteDescription(RTCSessionDescription(sdp=offer, type="offer"))
        if self._pc.sctp is None:
            raise ValueError("the offer has no data channels")
        for transceiver in self._pc.getTransceivers():
            transceiver.direction = "recvonly"
        await self._pc.setLocalDescription(await self._pc.createAnswer())
        return self._pc.localDescription.sdp

    def send(self, channel: str, data: str | bytes) -> bool:
        """False when the channel is not open."""
        target = self._channels.get(channel)
        if target is None or target.readyState != "open":
            return False
        try:
            target.send(data)
        except InvalidStateError:
            return False
        return True

    def buffered(self, channel: str) -> int:
        """Bytes on the channel that have not left."""
        target = self._channels.get(channel)
        return 0 if target is None else target.bufferedAmount

    def has(self, channel: str) -> bool:
        return channel in self._channels and self._channels[channel].readyState == "open"

    @property
    def gone(self) -> bool:
        """The connection has ended; nothing more comes of it."""
        return self._gone

    async def close(self) -> None:
        """End the connection; done within 3 s."""
        self._deadline.cancel()
        self._end()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._pc.close(), CLOSE_SECONDS)
        await self._pump

    # ---- handlers of aiortc: they queue, and can't raise

    def _put(self, inbound: Inbound) -> None:
        if self._inbox.qsize() >= INBOX_MAX and not isinstance(inbound, Gone):
            self.overrun += 1
        else:
            self._inbox.put_nowait(inbound)

    def _on_track(self, track: MediaStreamTrack) -> None:
        for receiver in self._pc.getReceivers():
            if receiver.track is track and track.kind == "audio":
                tap(receiver, self._on_rtp)

    def _on_rtp(self, ssrc: int, timestamp: int, payload: bytes) -> None:
        self._put(Rtp(ssrc, timestamp, payload, time.monotonic_ns()))

    def _on_channel(self, channel: RTCDataChannel) -> None:
        name = channel.label
        if name not in CHANNELS or name in self._channels:
            return
        self._channels[name] = channel

        def on_message(data: str | bytes) -> None:
            now_ns = time.monotonic_ns()
            if isinstance(data, str):
                self._put(Text(name, data, now_ns))
            else:
                self._put(Binary(name, data, now_ns))

        channel.on("message", on_message)

    def _overdue(self) -> None:
        if self._pc.connectionState != "connected" and not self._gone:
            self._closing = asyncio.ensure_future(self.close())

    def _on_state(self) -> None:
        if self._pc.connectionState in ("failed", "closed"):
            self._end()

    def _end(self) -> None:
        if not self._gone:
            self._gone = True
            self._put(Gone(time.monotonic_ns()))

    async def _run(self) -> None:
        while True:
            inbound = await self._inbox.get()
            self._receive(self, inbound)
            if isinstance(inbound, Gone):
                return
