"""All handsets of one edge: gives what comes in to the right desk, and lets time pass."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections import Counter, deque

from handset.core.messages import Fault, Hello
from handset.core.packets import Malformed
from handset.edge.codec import Decoded, Unknown, decode_from_handset, encode

from .desk import Desk
from .peer import Binary, Gone, Inbound, Peer, Rtp, Text
from .provider import Script

log = logging.getLogger(__name__)

TICK_S = 0.01
EARLY_MAX = 500
"""RTP packets of a connection kept until its hello: 10 s."""
DESKS_MAX = 64


def new_id(kind: str) -> str:
    """An id, or a token that can't be guessed."""
    return secrets.token_urlsafe(24) if kind == "token" else f"{kind}_{secrets.token_hex(6)}"


class Edge:
    def __init__(self, script: Script) -> None:
        self.script = script
        self.desks: dict[str, Desk] = {}
        self.latest: Desk | None = None
        self.counters: Counter[str] = Counter()
        self._of: dict[int, Desk] = {}
        self._early: dict[int, deque[Rtp]] = {}

    def receive(self, peer: Peer, inbound: Inbound) -> None:
        """One thing from one connection. Never raises: a fault of ours is logged, counted,
        and costs this message only."""
        try:
            self._receive(peer, inbound)
        except Exception:
            self.counters["edge_faults"] += 1
            log.exception("connection %d: %s could not be handled", peer.number, type(inbound))

    def use(self, script: Script) -> None:
        """Another script, for the turns to come."""
        self.script = script
        for desk in self.desks.values():
            desk.script = script

    async def run(self) -> None:
        """Let time pass, until cancelled."""
        while True:
            await asyncio.sleep(TICK_S)
            for desk in self.desks.values():
                try:
                    desk.tick(time.monotonic_ns())
                except Exception:
                    self.counters["edge_faults"] += 1
                    log.exception("handset %s: tick failed", desk.handset_id)

    def _receive(self, peer: Peer, inbound: Inbound) -> None:
        number = peer.number
        desk = self._of.get(number)
        match inbound:
            case Gone():
                self._of.pop(number, None)
                self._early.pop(number, None)
                if desk is not None:
                    desk.gone(number)
            case Rtp(ssrc, timestamp, payload):
                if desk is None:
                    self._early.setdefault(number, deque(maxlen=EARLY_MAX)).append(inbound)
                else:
                    desk.rtp(number, ssrc, timestamp, payload)
            case Text(channel, data, at_ns) if channel != "aud":
                self._text(peer, desk, data, at_ns)
            case Binary("aud", data, at_ns) if desk is not None:
                desk.binary(number, data, at_ns)
            case _:
                self._refuse(peer, desk, f"{type(inbound).__name__} has no place here")

    def _text(self, peer: Peer, desk: Desk | None, data: str, at_ns: int) -> None:
        try:
            decoded = decode_from_handset(data)
        except Malformed as error:
            self._refuse(peer, desk, str(error))
            return
        if desk is None:
            desk = self._seat(peer, decoded)
        if desk is None:
            self._refuse(peer, None, "session.hello comes first")
        else:
            desk.text(peer.number, decoded, at_ns)

    def _seat(self, peer: Peer, decoded: Decoded[object]) -> Desk | None:
        """The desk of a connection whose first message this is, when it is a hello."""
        hello = decoded.message
        if isinstance(hello, Unknown) or not isinstance(hello, Hello):
            return None
        desk = self.desks.get(hello.handset_id)
        if desk is None:
            if len(self.desks) >= DESKS_MAX:
                return None
            desk = Desk(hello.handset_id, self.script, new_id, time.monotonic_ns)
            self.desks[hello.handset_id] = desk
        self.latest = self._of[peer.number] = desk
        desk.connected(peer)
        for rtp in self._early.pop(peer.number, ()):
            desk.rtp(peer.number, rtp.ssrc, rtp.timestamp, rtp.payload)
        return desk

    def _refuse(self, peer: Peer, desk: Desk | None, why: str) -> None:
        if desk is not None:
            desk.malformed(peer.number, why)
            return
        self.counters["malformed"] += 1
        peer.send("ctl", encode(Fault(code="malformed", message=why[:400])))
