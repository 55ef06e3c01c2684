"""One connection to the edge: microphone track, three data channels, one life.

A :class:`Link` is one epoch: it is opened once, closes once and never restarts (aiortc
has no ICE restart). A planned change opens the next link beside it.

=======  =====================  ====================================================
channel  delivery               carries
=======  =====================  ====================================================
ctl      ordered, reliable      JSON
aud      ordered, reliable      binary, :mod:`handset.core.packets`
tick     unordered, reliable    JSON: copies, clock, progress
=======  =====================  ====================================================

Why ``tick`` is unordered: at 5 % loss and 60 ms round trip, beside events with three
copies each, 90 % of 960 clock pings arrive within 34 ms, and within 134 ms when ordered,
where each waits for a lost one before it. For the copies it makes no difference: the
first of four (``ctl``, and ``tick`` at 0, 20 and 60 ms) arrives within 57 ms in 480 of 480
cases either way, while ``ctl`` alone takes up to 433 ms.

Theory of operation. aiortc ends a connection without a word when a handler raises, so its
handlers here do one thing: give a :class:`LinkEvent` to the ``sink``, which puts it on a
queue. ``Opened`` comes first, when all channels are open; before it nothing can be sent.
``Closed`` comes once and last; everything is released then. A path that goes silent shows
as ``Closed`` only after about 28 s: watch it with a heartbeat of your own.

Everything sent shares one queue inside aiortc, in order of sending, across channels, and
what is queued can't be taken back: keep ``buffered`` low (4 kB) by pacing.

Where there is no interface but ``lo``, aioice has no candidates and ``open`` fails;
``Target.allow_loopback`` then uses 127.0.0.1 (the other end has to as well).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from aiortc import (
    RTCBundlePolicy,
    RTCConfiguration,
    RTCDataChannel,
    RTCIceServer,
    RTCPeerConnection,
    RTCRtpSender,
    RTCSessionDescription,
)
from aiortc.exceptions import InvalidStateError

from handset.core.packets import MAX_MESSAGE
from handset.errors import EdgeUnreachable, ProtocolMismatch, UsageError

from .aiortc_private import allow_loopback
from .mic import MicTrack
from .whip import Target, Whip

log = logging.getLogger(__name__)

Channel = Literal["ctl", "aud", "tick"]
CHANNELS: dict[Channel, bool] = {"ctl": True, "aud": True, "tick": False}
"""Name and whether it is ordered; all are reliable."""
OPEN_SECONDS = 10.0
CLOSE_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class Opened:
    """All channels are open."""


@dataclass(frozen=True, slots=True)
class Text:
    channel: str
    data: str


@dataclass(frozen=True, slots=True)
class Binary:
    data: bytes
    channel: str = "aud"


@dataclass(frozen=True, slots=True)
class Closed:
    """The link is gone, whoever ended it."""

    reason: str


LinkEvent = Opened | Text | Binary | Closed
Sink = Callable[[LinkEvent], None]


class Link:
    """A connection that is, or was, open. Made by :meth:`open`; not thread-safe."""

    def __init__(self, target: Target, mic: MicTrack, sink: Sink) -> None:
        self._sink = sink
        self._whip = Whip(target)
        self._resource: str | None = None
        self._closed: str | None = None
        self._closing: asyncio.Task[None] | None = None
        self._opened = asyncio.Event()
        self._early: list[LinkEvent] = []
        self._refused = 0
        self._strangers = 0
        self._sink_faults = 0
        self._pc = RTCPeerConnection(
            RTCConfiguration(
                iceServers=[
                    RTCIceServer(each.url, username=each.username, credential=each.password)
                    for each in target.ice_servers
                ],
                bundlePolicy=RTCBundlePolicy.MAX_BUNDLE,
            )
        )
        # The track comes first: else aiortc 1.16 with MAX_BUNDLE never leaves "new", silently.
        self._mic = self._pc.addTransceiver(mic, direction="sendonly")
        codecs = RTCRtpSender.getCapabilities("audio").codecs
        # Only Opus: were another codec chosen, our packets would be sent as if they were it.
        self._mic.setCodecPreferences([c for c in codecs if c.mimeType.lower() == "audio/opus"])
        self._channels = {
            name: self._pc.createDataChannel(name, ordered=ordered)
            for name, ordered in CHANNELS.items()
        }
        for channel in self._channels.values():
            self._listen(channel)
        self._pc.on("connectionstatechange", self._on_state)
        self._pc.on("datachannel", self._on_stranger)

    # ---- life

    @classmethod
    async def open(
        cls, target: Target, mic: MicTrack, sink: Sink, seconds: float = OPEN_SECONDS
    ) -> Link:
        """Connect, and give the link once all its channels are open.

        Raises what :class:`handset.edge.whip.Whip` raises, ``ProtocolMismatch`` when the
        answer can't be used, ``EdgeUnreachable`` after ``seconds`` or when the connection
        fails. The sink then has heard ``Closed`` at most, and nothing is left open.
        """
        if target.allow_loopback:
            allow_loopback()
        link = cls(target, mic, sink)
        try:
            async with asyncio.timeout(seconds):
                await link._connect()
        except TimeoutError:
            pass
        except BaseException:
            await link.close("not opened")
            raise
        else:
            return link
        await link.close("not opened")
        raise EdgeUnreachable(
            f"the edge answered, but no connection came up within {seconds:g} s; "
            "check that UDP passes between handset and edge"
            if link._pc.remoteDescription
            else f"the edge did not answer within {seconds:g} s"
        )

    async def _connect(self) -> None:
        await self._pc.setLocalDescription(await self._pc.createOffer())
        if "a=candidate:" not in self._pc.localDescription.sdp:
            raise EdgeUnreachable("this machine has no network address; connect it to a network")
        answer = await self._whip.offer(self._pc.localDescription.sdp)
        self._resource = answer.resource
        try:
            await self._pc.setRemoteDescription(RTCSessionDescription(answer.sdp, "answer"))
        except Exception as error:  # aiortc's SDP parser raises whatever its input leads to
            raise ProtocolMismatch(
                f"the edge's answer can't be used ({type(error).__name__}: {str(error)[:200]})"
            ) from None
        if self._mic.currentDirection != "sendonly":
            raise ProtocolMismatch(
                f"the edge takes no microphone (direction {self._mic.currentDirection}); "
                "it has to receive Opus by RTP"
            )
        await self._opened.wait()
        if self._closed is not None:
            raise EdgeUnreachable(
                f"the edge answered, but then: {self._closed}; see the log of the edge, and check "
                "that UDP passes between handset and edge"
            )

    async def close(self, reason: str = "closed by the handset") -> None:
        """End the connection and tell the edge; done within 3 s, whatever the network does."""
        self._gone(reason)
        assert self._closing is not None
        await asyncio.shield(self._closing)

    async def _shut(self) -> None:
        ends: list[asyncio.Task[Any]] = [asyncio.ensure_future(self._pc.close())]
        if self._resource is not None:
            ends.append(asyncio.ensure_future(self._whip.delete(self._resource)))
        done, late = await asyncio.wait(ends, timeout=CLOSE_SECONDS)
        for task in late:
            task.cancel()
        for task in done:
            if error := task.exception():
                log.warning("closing a link: %s: %s", type(error).__name__, error)

    def _gone(self, reason: str) -> None:
        if self._closed is None:
            self._closed = reason
            self._opened.set()
            self._early.clear()
            self._closing = asyncio.ensure_future(self._shut())
            self._deliver(Closed(reason))

    # ---- what aiortc calls

    def _listen(self, channel: RTCDataChannel) -> None:
        name = channel.label

        def on_message(data: str | bytes) -> None:
            event = Text(name, data) if isinstance(data, str) else Binary(data, name)
            if self.is_open:
                self._deliver(event)
            elif self._closed is None:
                self._early.append(event)

        channel.on("open", self._on_open)
        channel.on("message", on_message)
        channel.on("close", lambda: self._gone(f"the edge closed the channel {name}"))

    def _on_open(self) -> None:
        ready = all(channel.readyState == "open" for channel in self._channels.values())
        if ready and not self._opened.is_set():
            self._opened.set()
            self._deliver(Opened())
            for event in self._early:
                self._deliver(event)
            self._early.clear()

    def _on_state(self) -> None:
        if (state := self._pc.connectionState) in ("failed", "closed"):
            self._gone(f"the connection is {state}")

    def _on_stranger(self, channel: RTCDataChannel) -> None:
        self._strangers += 1

    def _deliver(self, event: LinkEvent) -> None:
        try:
            self._sink(event)
        except Exception:
            # Were it to reach aiortc, the connection would end without notice.
            self._sink_faults += 1
            log.exception("the sink of a link raised on %s", type(event).__name__)

    # ---- what the application calls

    @property
    def is_open(self) -> bool:
        return self._opened.is_set() and self._closed is None

    @property
    def sender(self) -> RTCRtpSender:
        """What :meth:`MicTrack.origin` needs."""
        return self._mic.sender

    @property
    def refused(self) -> int:
        """Messages that were not sent because the link was not open."""
        return self._refused

    @property
    def strangers(self) -> int:
        """Channels that the edge made; they are not listened to."""
        return self._strangers

    @property
    def sink_faults(self) -> int:
        """Events that were lost because the sink raised."""
        return self._sink_faults

    def send(self, channel: Channel, data: str | bytes) -> bool:
        """Queue one message. False, and counted, when the link is not open.

        True says nothing about arrival. ``UsageError`` for a message that is too long.
        """
        size = len(data.encode() if isinstance(data, str) else data)
        if not 0 < size <= MAX_MESSAGE:
            raise UsageError(f"a message of {size} bytes on {channel}; 1 to {MAX_MESSAGE} fit")
        if self.is_open:
            try:
                self._channels[channel].send(data)
                return True
            except InvalidStateError:
                pass
        self._refused += 1
        return False

    def buffered(self, channel: Channel) -> int:
        """Bytes of the channel that SCTP has not taken yet; what is in flight is not in it."""
        return self._channels[channel].bufferedAmount
