"""Sending items over ``aud``: ahead of playout, but never far.

What has been given to a data channel can't be taken back, and both channels of a peer
connection share one queue. So audio goes out in bundles of 100 to 200 ms, at a few times
real time, only while little is buffered, and never more than the handset has room for.

The credit. ``room_ms`` was true when the handset wrote it, and what was sent within the
last ``FLIGHT_NS`` may not have reached it by then: that much is taken off.

Rules. Items go in the order in which they were generated; of one item start, audio, end.
A new connection has new handles, and items begin on it where the handset says, with their
start again. A stopped response sends nothing more, except the end of its items where that
is asked for.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from handset.core.packets import ItemAudio, ItemEnd, ItemStart, encode

from .provider import samples_in

BUNDLE = 5
"""Packets of 20 ms in a bundle, at least, where there are as many."""
BUNDLE_MAX = 10
WINDOW = 4096
"""Bytes buffered on the channel, at most."""
SPEED = 3.0
"""Sent time over played time."""
CREDIT_MS = 2000
"""What a handset is taken to have room for before it has said so."""
FLIGHT_NS = 250_000_000
PACKET_MS = 20


@dataclass(slots=True)
class PacedItem:
    """``next``: the packet to send next on this connection; ``sent``: one past the highest
    that was ever sent. ``handle`` is null until the item was begun on this connection."""

    item_id: str
    response_id: str
    turn: int
    rate: int
    pre_skip: int
    total: int
    packets: list[bytes] = field(default_factory=list)
    complete: bool = False
    next: int = 0
    sent: int = 0
    handle: int | None = None
    end_sent: bool = False

    @property
    def sent_samples(self) -> int:
        return samples_in(self.sent, self.rate, self.pre_skip, self.total)

    @property
    def finished(self) -> bool:
        return self.end_sent and self.next >= len(self.packets)


@dataclass(slots=True)
class Pacer:
    """All items of one session. ``pump`` says what to send now."""

    speed: float = SPEED
    credit_ms: int = CREDIT_MS
    bundles: int = 0
    sent_packets: int = 0
    buffered_max: int = 0
    """Most bytes on the channel after a message of ours."""
    _items: dict[str, PacedItem] = field(default_factory=dict)
    _handles: int = 0
    _attached: bool = False
    _budget_ms: float = 0.0
    _pumped_ns: int | None = None
    _flight: deque[tuple[int, int]] = field(default_factory=deque)

    def add(self, item: PacedItem) -> None:
        self._items[item.item_id] = item

    def feed(self, item_id: str, packets: tuple[bytes, ...], ended: bool) -> bool:
        """More of an item. False: it is not sent any more (stopped, or played already)."""
        item = self._items.get(item_id)
        if item is None or item.complete:
            return False
        item.packets += packets
        item.complete = ended
        return True

    def find(self, item_id: str) -> PacedItem | None:
        return self._items.get(item_id)

    def attach(self, have: dict[str, int]) -> None:
        """A new connection. ``have``: the next packet of items that the handset knows."""
        self._attached, self._handles, self._pumped_ns = True, 0, None
        self._flight.clear()
        for item in self._items.values():
            item.handle, item.end_sent = None, False
            item.next = min(have.get(item.item_id, 0), len(item.packets))

    def detach(self) -> None:
        self._attached = False

    def resume(self, item_id: str, next_packet: int) -> bool:
        """Send an item again from a packet on. False: there is no such item, or packet."""
        item = self._items.get(item_id)
        if item is None or not 0 <= next_packet <= item.sent:
            return False
        item.next, item.end_sent = min(next_packet, item.next), False
        return True

    def stop(self, response_id: str) -> None:
        """The response is dead at the handset: nothing more of it, from now on."""
        for item in self._of(response_id):
            del self._items[item.item_id]

    def end(self, response_id: str) -> dict[str, int]:
        """No more is generated: items end with what was sent, and what was not begun is
        dropped. Samples of each item that is left."""
        left: dict[str, int] = {}
        for item in self._of(response_id):
            if item.sent == 0:
                del self._items[item.item_id]
                continue
            if not item.finished:
                item.total = item.sent_samples
                item.packets = item.packets[: item.sent]
                item.complete = True
            left[item.item_id] = item.total
        return left

    def forget(self, item_id: str) -> None:
        self._items.pop(item_id, None)

    def unsent(self, response_id: str) -> bool:
        """Whether something of the response waits to be sent."""
        return any(not item.finished for item in self._of(response_id))

    def credit(self, room_ms: int, now_ns: int) -> None:
        """What ``playout.progress`` said, arrived now."""
        while self._flight and self._flight[0][0] < now_ns - FLIGHT_NS:
            self._flight.popleft()
        self.credit_ms = room_ms - sum(ms for _, ms in self._flight)

    def pump(self, now_ns: int, buffered: int) -> list[bytes]:
        """Messages to send now, given what the channel has buffered, in bytes."""
        if self._pumped_ns is not None:
            passed_ms = (now_ns - self._pumped_ns) / 1e6
            self._budget_ms = min(BUNDLE_MAX * PACKET_MS, self._budget_ms + passed_ms * self.speed)
        self._pumped_ns = now_ns
        out: list[bytes] = []
        while self._attached and (message := self._message(buffered)) is not None:
            data, packets = message
            out.append(data)
            buffered += len(data)
            self.buffered_max = max(self.buffered_max, buffered)
            if packets:
                self.bundles += 1
                self.sent_packets += packets
                self._budget_ms -= packets * PACKET_MS
                self.credit_ms -= packets * PACKET_MS
                self._flight.append((now_ns, packets * PACKET_MS))
        return out

    def _message(self, buffered: int) -> tuple[bytes, int] | None:
        """The next message, and how many packets are in it; null when it has to wait."""
        item = next((item for item in self._items.values() if not item.finished), None)
        if item is None or (item.handle is None and not item.packets):
            return None
        if item.handle is not None and item.next < len(item.packets):
            return self._audio(item, item.handle, buffered)
        if item.handle is None:
            handle = self._handles + 1
            data = encode(
                ItemStart(
                    handle, item.item_id, 0, item.response_id, item.turn, item.rate, item.pre_skip
                )
            )
        elif item.complete:
            handle = item.handle
            data = encode(ItemEnd(handle, len(item.packets), item.total))
        else:
            return None
        if buffered + len(data) > WINDOW:
            return None
        item.end_sent = item.handle is not None
        item.handle = handle
        self._handles = max(self._handles, handle)
        return data, 0

    def _audio(self, item: PacedItem, handle: int, buffered: int) -> tuple[bytes, int] | None:
        rest = len(item.packets) - item.next
        if rest < BUNDLE and not item.complete:
            return None
        allowed = int(min(self._budget_ms, self.credit_ms) // PACKET_MS)
        if allowed < min(BUNDLE, rest):
            return None
        packets = tuple(item.packets[item.next : item.next + min(BUNDLE_MAX, allowed, rest)])
        while packets:
            data = encode(ItemAudio(handle, item.next, packets))
            if buffered + len(data) <= WINDOW:
                item.next += len(packets)
                item.sent = max(item.sent, item.next)
                return data, len(packets)
            if buffered > 0:
                return None
            packets = packets[:-1]
        return None

    def _of(self, response_id: str) -> list[PacedItem]:
        return [item for item in self._items.values() if item.response_id == response_id]
