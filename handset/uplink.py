"""The connection of the moment: opened, listened to, written to and closed for the core.

aiortc calls back on the event loop; what it says is put at the end of the loop's queue and
only then told to the core, so that no effect runs inside one of its handlers.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from handset.core import events as ev
from handset.core import messages as msg
from handset.core.packets import Malformed, decode
from handset.edge import codec
from handset.edge.mic import MicTrack
from handset.edge.peer import Binary, Channel, Closed, Link, LinkEvent, Text
from handset.edge.whip import Target
from handset.errors import HandsetError, PeerError

log = logging.getLogger(__name__)

BUFFERED = 4096
"""Bytes that may wait in ``aud``: what is queued can't be taken back."""
CLOSE_S = 5.0
MAP_AGAIN = 1 << 30
"""Capture samples, six hours, after which a connection's map is said anew."""

Tap = Callable[[str, str, str | bytes], None]
"""Given ``sent`` or ``received``, the channel, and the message as it is on the wire."""


class Uplink:
    """``target()`` says where to connect, ``tell(event)`` is the core, ``lookahead`` the
    microphone encoder's, ``position()`` how far its timeline has come."""

    def __init__(
        self,
        target: Callable[[], Target],
        tell: Callable[[ev.Event], None],
        lookahead: int,
        position: Callable[[], int],
    ) -> None:
        self.taps: list[Tap] = []
        self.unknown_fields = 0
        self._target = target
        self._tell = tell
        self._lookahead = lookahead
        self._position = position
        self._mapped = 0
        """The capture sample of the newest map."""
        self._link: Link | None = None
        self._track: MicTrack | None = None
        self._epoch = 0
        self._opening: asyncio.Task[None] | None = None
        self._opening_epoch = 0
        self._closing: set[asyncio.Task[None]] = set()

    # ---- life

    def open(self, epoch: int) -> None:
        """Begins to connect; ``LinkOpened`` or ``LinkClosed`` follows."""
        self._opening_epoch = epoch
        self._opening = asyncio.ensure_future(self._open(epoch))

    async def _open(self, epoch: int) -> None:
        track = MicTrack()
        try:
            link = await Link.open(
                self._target(), track, lambda event: self._on_event(epoch, event)
            )
        except PeerError as error:
            log.warning("%s", error)
            self._tell(ev.LinkClosed(epoch, str(error), permanent=error.permanent))
            return
        except HandsetError as error:  # a credential that can't be read, an address that is none
            log.error("%s", error)
            self._tell(ev.LinkClosed(epoch, str(error), permanent=True))
            return
        self._link, self._track, self._epoch = link, track, epoch
        self._tell(ev.LinkOpened(epoch))
        self._map(link, track, self._position())

    def _map(self, link: Link, track: MicTrack, sample: int) -> None:
        """Where RTP timestamps lie on the capture timeline, by one sample of it. Timestamps
        have 32 bits, so a map is good for 2**31 samples on either side: 12 hours."""
        self._mapped = sample
        origin, ssrc = track.origin(link.sender), track.ssrc(link.sender)
        timestamp = (origin + sample) % (1 << 32)
        self._tell(ev.MicMapped(self._epoch, ssrc, timestamp, sample, self._lookahead))

    def close(self, epoch: int, reason: str) -> None:
        """Ends the connection of that epoch, or the attempt."""
        if self._link is not None and epoch == self._epoch:
            task = asyncio.ensure_future(self._link.close(reason))
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)
            self._link = self._track = None
        elif self._opening is not None and epoch == self._opening_epoch:
            self._opening.cancel()

    async def end(self) -> None:
        """Closes everything; bounded in time."""
        if self._opening is not None:
            self._opening.cancel()
        self.close(self._epoch, "the handset stops")
        if self._closing:
            await asyncio.wait(self._closing, timeout=CLOSE_S)

    # ---- what arrives

    def _on_event(self, epoch: int, event: LinkEvent) -> None:
        asyncio.get_running_loop().call_soon(self._arrived, epoch, event)

    def _arrived(self, epoch: int, event: LinkEvent) -> None:
        match event:
            case Text(channel=channel, data=data):
                self._tap("received", channel, data)
                self._text(epoch, data)
            case Binary(channel=channel, data=data):
                self._tap("received", channel, data)
                try:
                    self._tell(ev.EdgeAudio(epoch, decode(data)))
                except Malformed as error:
                    self._tell(ev.EdgeNonsense(epoch, str(error)))
            case Closed(reason=reason):
                if epoch == self._epoch:
                    self._link = self._track = None
                    self._tell(ev.LinkClosed(epoch, reason))

    def _text(self, epoch: int, data: str) -> None:
        try:
            decoded = codec.decode_from_edge(data)
        except Malformed as error:
            self._tell(ev.EdgeNonsense(epoch, str(error)))
            return
        self.unknown_fields += len(decoded.unknown_fields)
        if isinstance(decoded.message, codec.Unknown):
            self._tell(ev.EdgeNonsense(epoch, decoded.message.type, kind="unknown_type"))
        else:
            self._tell(ev.EdgeSaid(epoch, decoded.message))

    # ---- what is sent

    def send(self, message: msg.FromHandset, tick: bool) -> None:
        if self._link is not None:
            channel: Channel = "tick" if tick else "ctl"
            data = codec.encode(message)
            self._tap("sent", channel, data)
            self._link.send(channel, data)

    def send_audio(self, data: bytes) -> bool:
        """One binary message, when the connection has room for it now."""
        link = self._link
        if link is None or link.buffered("aud") > BUFFERED:
            return False
        self._tap("sent", "aud", data)
        return link.send("aud", data)

    def send_packet(self, packet: bytes, capture_sample: int) -> None:
        """One packet of the microphone; lost when there is no connection, and backfilled."""
        if self._track is not None and self._link is not None:
            if capture_sample - self._mapped > MAP_AGAIN:
                self._map(self._link, self._track, capture_sample)
            self._track.put(packet, capture_sample)

    def _tap(self, way: str, channel: str, data: str | bytes) -> None:
        for tap in self.taps:
            tap(way, channel, data)
