"""A lossy path for tests and the bench: seeded loss and delay of aioice's datagrams.

    >>> with impaired(Path(loss=0.05, delay_ms=30)) as tally:
    ...     ...                                     # tally.lost, tally.passed

It acts after ICE, on what a peer connection sends and receives: DTLS, and in it SCTP, and
SRTP. STUN is not touched, nor (unless ``setup`` is set) the DTLS handshake: what is
measured is a connection under loss, not how long it took to make one. (The association
of SCTP is set up inside DTLS and is hit: a burst there can cost some seconds.)

``out`` is what this process sends, ``in`` what it receives. With both, one impaired
process gives a path that is lossy in both directions; where both peers live in one
process take ``out`` alone, or every datagram is tried twice.

Loss is uniform, or comes in bursts (Gilbert): with a mean burst of ``burst`` datagrams, of
which all are lost, the path turns bad so often that ``loss`` is lost on average. Each
direction draws from a generator of its own, so the n-th datagram of a direction has the
same fate in every run with that seed.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import aioice.ice

_HANDSHAKE = range(20, 23)
"""First byte of a datagram: change cipher spec, alert, handshake (RFC 5764, 5.1.2)."""


@dataclass(frozen=True, slots=True)
class Path:
    """``loss`` 0 to 1 of the datagrams; ``burst`` datagrams, 1 is uniform loss; each is late
    by ``delay_ms`` plus up to ``jitter_ms``, so that jitter reorders."""

    loss: float = 0.0
    burst: float = 1.0
    delay_ms: float = 0.0
    jitter_ms: float = 0.0
    seed: int = 1
    directions: tuple[str, ...] = ("out", "in")
    setup: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.loss < 1 or self.burst < 1 or min(self.delay_ms, self.jitter_ms) < 0:
            raise ValueError(f"no such path: {self}")
        if not set(self.directions) <= {"out", "in"}:
            raise ValueError(f"directions {self.directions}: there are out and in")

    @classmethod
    def parse(cls, text: str) -> Path:
        """From ``loss=0.05,delay_ms=30,burst=4,seed=7``."""
        numbers: dict[str, Any] = {}
        for part in filter(None, text.split(",")):
            name, _, value = part.partition("=")
            if name not in ("loss", "burst", "delay_ms", "jitter_ms", "seed"):
                raise ValueError(f"a path has no {name!r}")
            numbers[name] = int(value) if name == "seed" else float(value)
        return cls(**numbers)


class Fate:
    """Which datagrams of one direction are lost, and how late the others are."""

    def __init__(self, path: Path, direction: str) -> None:
        self._path = path
        self._random = random.Random(f"{path.seed}/{direction}")
        self._bad = False

    def lost(self) -> bool:
        path = self._path
        if path.burst == 1:
            return self._random.random() < path.loss
        leave = 1 / path.burst
        enter = path.loss * leave / (1 - path.loss)
        self._bad = self._random.random() < ((1 - leave) if self._bad else enter)
        return self._bad

    def late_s(self) -> float:
        return (self._path.delay_ms + self._random.random() * self._path.jitter_ms) / 1000


@dataclass(slots=True)
class Tally:
    """What happened so far. ``off`` lets everything pass while it is set; ``cut`` nothing."""

    passed: int = 0
    lost: int = 0
    off: bool = False
    cut: bool = False
    _fates: dict[str, Fate] = field(default_factory=dict)


@contextmanager
def impaired(path: Path) -> Iterator[Tally]:
    """Impair every peer connection of this process until the block is left."""
    connection: Any = aioice.ice.Connection
    send, receive = connection.sendto, connection.data_received
    tally = Tally(_fates={name: Fate(path, name) for name in path.directions})

    def delay(direction: str, data: bytes) -> float | None:
        """Seconds this datagram is late; null when it is lost."""
        if tally.off or direction not in tally._fates:
            return 0.0
        if not path.setup and data and data[0] in _HANDSHAKE:
            return 0.0
        fate = tally._fates[direction]
        if tally.cut or fate.lost():
            tally.lost += 1
            return None
        tally.passed += 1
        return fate.late_s()

    async def sendto(self: Any, data: bytes, component: int) -> None:
        late = delay("out", data)
        if late is None:
            return
        if late == 0:
            await send(self, data, component)
            return
        pair = self._nominated.get(component)
        if pair is None:
            raise ConnectionError("Cannot send data, not connected")

        def later() -> None:
            transport = pair.protocol.transport
            if transport is not None and not transport.is_closing():
                transport.sendto(data, pair.remote_addr)

        asyncio.get_running_loop().call_later(late, later)

    def data_received(self: Any, data: bytes, component: int) -> None:
        late = delay("in", data)
        if late == 0:
            receive(self, data, component)
        elif late is not None:
            asyncio.get_running_loop().call_later(late, receive, self, data, component)

    connection.sendto, connection.data_received = sendto, data_received
    try:
        yield tally
    finally:
        connection.sendto, connection.data_received = send, receive
