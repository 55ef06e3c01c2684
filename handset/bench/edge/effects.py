"""What the session owner wants done. The desk carries it out, in order."""

from __future__ import annotations

from dataclasses import dataclass, field

from handset.core.messages import CaptureMap, FromEdge


@dataclass(frozen=True, slots=True)
class Send:
    """A message on ``ctl``: on the connection it answers, or (null) on the newest one."""

    message: FromEdge
    connection: int | None = None


@dataclass(frozen=True, slots=True)
class Attach:
    """Take up audio on this connection, both ways. ``have``: the next packet the handset
    wants of each item it knows; items that are not in it begin from the start."""

    connection: int
    session: str
    have: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Generate:
    """Have the provider answer a turn. ``nth`` counts admitted turns of the session from 0;
    null for speech that nobody asked for. ``clips``: what to say; null leaves that to the
    script."""

    response_id: str
    turn: int
    nth: int | None
    clips: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class StopItems:
    """Generate and send no more of a response, now. ``end``: tell the handset that its items
    end where they are (it plays what it has); else they are dead there already."""

    response_id: str
    end: bool


@dataclass(frozen=True, slots=True)
class Continue:
    """Send an item again from a packet on."""

    connection: int
    item_id: str
    next_packet: int


@dataclass(frozen=True, slots=True)
class Forget:
    """The item has its final receipt: its packets are not needed any more."""

    item_id: str


@dataclass(frozen=True, slots=True)
class Credit:
    """How much more audio the handset has room for, in ms."""

    room_ms: int


@dataclass(frozen=True, slots=True)
class MapCapture:
    connection: int
    message: CaptureMap


Effect = Send | Attach | Generate | StopItems | Continue | Forget | Credit | MapCapture
