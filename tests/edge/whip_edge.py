"""A real edge's end of the wire, as small as it can be: WHIP, and a peer that listens.

Both ends are aiortc in one process. ``Air`` sits on aioice's ``sendto``, so that what it
loses is lost between two real peers; connectivity checks pass.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from aiortc import RTCConfiguration, RTCPeerConnection, RTCSessionDescription
from aiortc.rtcdtlstransport import RTCCertificate

from handset.edge.peer import LinkEvent
from handset.edge.whip import Target

CREDENTIAL = "s3cret-credential"


class Air:
    """Loss and delay of everything after ICE, both ways. Off until ``start``."""

    def __init__(self) -> None:
        self.loss = 0.0
        self.delay = 0.0
        self.dead = False
        self.random = random.Random(0)
        self.lost_rtp: list[bytes] = []
        self.sent = 0
        self.lost = 0

    def start(self, loss: float, delay: float, seed: int = 1) -> None:
        self.loss, self.delay, self.random = loss, delay, random.Random(seed)

    def stop(self) -> None:
        self.loss = self.delay = 0.0

    def patched(self, original: Any) -> Any:
        async def sendto(connection: Any, data: bytes, component: int) -> None:
            self.sent += 1
            if self.dead or (self.loss and self.random.random() < self.loss):
                self.lost += 1
                if 128 <= data[0] <= 191 and not 192 <= data[1] <= 223:
                    self.lost_rtp.append(data[:12])
                return
            if not self.delay:
                await original(connection, data, component)
                return
            pair = connection._nominated.get(component)
            if pair is None:
                raise ConnectionError("not connected")

            def deliver() -> None:
                transport = pair.protocol.transport
                if transport is not None and not transport.is_closing():
                    transport.sendto(data, pair.remote_addr)

            asyncio.get_running_loop().call_later(self.delay, deliver)

        return sendto


@dataclass
class Session:
    """What the edge saw of one connection."""

    pc: RTCPeerConnection
    rtp: list[tuple[int, int, int, bytes]] = field(default_factory=list)
    """SSRC, sequence number, timestamp, payload, in order of arrival."""
    messages: list[tuple[str, str | bytes]] = field(default_factory=list)
    channels: dict[str, Any] = field(default_factory=dict)
    on_message: Callable[[str, str | bytes], None] | None = None
    deleted: bool = False


class Edge:
    """A WHIP endpoint. ``status``, ``delay``, ``rewrite`` make it misbehave."""

    def __init__(self) -> None:
        self.sessions: list[Session] = []
        self.status = 201
        self.headers: dict[str, str] = {}
        self.delay = 0.0
        self.rewrite: Callable[[str], str] = str
        self.greeting: str | None = None
        self.certificate = RTCCertificate.generateCertificate()
        self.port = 0
        self.requests: list[tuple[str, str, str | None]] = []

    @property
    def fingerprint(self) -> str:
        prints = {each.algorithm: each.value for each in self.certificate.getFingerprints()}
        return prints["sha-256"]

    def target(self, **changes: Any) -> Target:
        values: dict[str, Any] = {
            "url": f"http://127.0.0.1:{self.port}/whip",
            "credential": CREDENTIAL,
            "fingerprint": self.fingerprint,
            "allow_loopback": True,
        }
        return Target(**(values | changes))

    async def post(self, request: web.Request) -> web.Response:
        self.requests.append((request.method, request.path, request.headers.get("Authorization")))
        await asyncio.sleep(self.delay)
        if request.headers.get("Authorization") != f"Bearer {CREDENTIAL}":
            return web.Response(status=401)
        if self.status != 201:
            return web.Response(status=self.status, headers=self.headers)
        pc = RTCPeerConnection(RTCConfiguration(iceServers=[]))
        pc._RTCPeerConnection__certificates = [self.certificate]  # type: ignore[attr-defined]
        session = Session(pc)
        self.sessions.append(session)
        self._listen(session)
        offer = RTCSessionDescription(await request.text(), "offer")
        await pc.setRemoteDescription(offer)
        await pc.setLocalDescription(await pc.createAnswer())
        return web.Response(
            status=201,
            text=self.rewrite(pc.localDescription.sdp),
            content_type="application/sdp",
            headers={"Location": f"/whip/{len(self.sessions) - 1}"},
        )

    def _listen(self, session: Session) -> None:
        @session.pc.on("track")
        def on_track(track: Any) -> None:
            receiver = session.pc.getReceivers()[0]

            async def tap(packet: Any, arrival_time_ms: int) -> None:
                session.rtp.append(
                    (packet.ssrc, packet.sequence_number, packet.timestamp, packet.payload)
                )

            receiver._handle_rtp_packet = tap

        @session.pc.on("datachannel")
        def on_channel(channel: Any) -> None:
            session.channels[channel.label] = channel
            if self.greeting and channel.label == "ctl":
                channel.send(self.greeting)

            @channel.on("message")
            def on_message(data: str | bytes) -> None:
                session.messages.append((channel.label, data))
                if session.on_message:
                    session.on_message(channel.label, data)

    async def delete(self, request: web.Request) -> web.Response:
        self.requests.append((request.method, request.path, request.headers.get("Authorization")))
        await asyncio.sleep(self.delay)
        session = self.sessions[int(request.match_info["index"])]
        session.deleted = True
        return web.Response()

    async def close(self) -> None:
        for session in self.sessions:
            await session.pc.close()


class Events:
    """A sink that keeps everything and can be waited on."""

    def __init__(self) -> None:
        self.all: list[LinkEvent] = []

    def __call__(self, event: LinkEvent) -> None:
        self.all.append(event)

    def of(self, kind: type) -> list[Any]:
        return [event for event in self.all if isinstance(event, kind)]


async def until(condition: Callable[[], bool], seconds: float = 10.0) -> None:
    """Wait for something that another task brings about."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - what it watches has no event
            await asyncio.sleep(0.005)
