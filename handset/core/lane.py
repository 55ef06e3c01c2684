"""The fence: which audio may be played, and which is waiting or dead.

Rules:

1. Audio is accepted if its response is live. A clear kills responses by id, and an id
   stays dead for the session. A response to a turn older than the newest committed one
   is stale from the start.
2. A live response waits, with what arrived of it, while it is speculative and its turn
   is not committed; while the person has the floor; while what a crash left behind is
   not acknowledged; and while another response still has frames to be handed. So the
   queue only ever holds one response, and a clear of one touches no other.
3. An abandoned turn kills nothing that was not heard yet.
4. Packets of an item are taken in order: what is below the next one is a duplicate, a
   hole is asked for again.
5. Every discard is counted, by its reason. Nothing is dropped without a count.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field

from handset.core.packets import ItemAudio, ItemEnd, ItemStart

HOLD_BYTES = 4 << 20
"""Opus bytes kept of one waiting response: about 20 minutes."""
MOST_RESPONSES = 64
KEEP_DEAD = 4096


@dataclass(slots=True)
class Stream:
    """One item as it arrives."""

    start: ItemStart
    next_packet: int = 0
    ended: bool = False
    asked: int = -1


@dataclass(slots=True)
class Response:
    response_id: str
    turn: int
    speculative: bool
    done_ns: int | None = None
    heard_ns: int = 0
    """When audio of it last arrived."""
    waiting: deque[tuple[str, ItemStart | ItemAudio | ItemEnd]] = field(default_factory=deque)
    """With the item that each piece belongs to."""
    waiting_bytes: int = 0
    streams: dict[str, Stream] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Hole:
    """Packets of the item are missing from ``next_packet`` on."""

    item_id: str
    next_packet: int


class Lane:
    def __init__(self) -> None:
        self.responses: dict[str, Response] = {}
        self.committed_turn = 0
        self.fenced: Counter[str] = Counter()
        """Discards by reason."""
        self._dead: dict[str, None] = {}
        self._handles: dict[int, Stream] = {}

    def new_epoch(self) -> None:
        """Handles name items within one connection, and so do questions about holes."""
        self._handles.clear()
        for response in self.responses.values():
            for stream in response.streams.values():
                stream.asked = -1

    def new_session(self) -> None:
        self.responses.clear()
        self.new_epoch()
        self._dead.clear()

    # ---- responses -----------------------------------------------------------------------

    def created(self, response_id: str, turn: int, speculative: bool) -> None:
        if response_id in self.responses or response_id in self._dead:
            self.fenced["duplicate_response"] += 1
        elif turn < self.committed_turn:
            self.fenced["stale_response"] += 1
            self._bury(response_id)
        elif len(self.responses) >= MOST_RESPONSES:
            self.fenced["too_many_responses"] += 1
            self._bury(response_id)
        else:
            self.responses[response_id] = Response(response_id, turn, speculative)

    def done(self, response_id: str, now_ns: int) -> None:
        if response_id in self.responses:
            self.responses[response_id].done_ns = now_ns

    def kill(self, response_id: str) -> Response | None:
        """Dead for the session. What was waiting of it is counted."""
        response = self.responses.pop(response_id, None)
        if response is not None:
            self.fenced["killed_while_waiting"] += len(response.waiting)
            self._bury(response_id)
        return response

    def is_dead(self, response_id: str) -> bool:
        return response_id in self._dead

    def forget(self, response_id: str) -> None:
        """All of it was settled; late audio of it is a dead response's."""
        if self.responses.pop(response_id, None) is not None:
            self._bury(response_id)

    def turn_committed(self, turn: int) -> list[str]:
        """Returns the responses that are stale now: ids that the caller kills."""
        self.committed_turn = max(self.committed_turn, turn)
        stale = []
        for response in self.responses.values():
            if response.turn < turn:
                stale.append(response.response_id)
            elif response.turn == turn:
                response.speculative = False
        return stale

    def playable(self, current: str | None, floor_taken: bool) -> Response | None:
        """The response whose audio may go to the queue now, in order of creation.
        ``current``: the one that has frames to be handed or more audio to come."""
        if current is not None:
            return self.responses.get(current)
        if floor_taken:
            return None
        for response in self.responses.values():
            waits_for_turn = response.speculative and response.turn > self.committed_turn
            if response.waiting and not waits_for_turn:
                return response
        return None

    # ---- what arrives --------------------------------------------------------------------

    def arrive(self, packet: ItemStart | ItemAudio | ItemEnd) -> Response | Hole | None:
        """Takes one message. The response that has something new waiting, a hole to ask
        for, or None when it was discarded (and counted)."""
        if isinstance(packet, ItemStart):
            return self._start(packet)
        stream = self._handles.get(packet.handle)
        if stream is None:
            self.fenced["unknown_handle"] += 1
            return None
        response = self.responses.get(stream.start.response_id)
        if response is None:
            self.fenced["dead_response"] += 1
            return None
        if stream.ended:
            self.fenced["after_end"] += 1
            return None
        if isinstance(packet, ItemEnd):
            return self._end(response, stream, packet)
        return self._audio(response, stream, packet)

    def refuse(self, packet: ItemStart) -> None:
        """An item that there is already: what comes of it is counted and thrown away."""
        self.fenced["duplicate_item"] += 1
        self._handles[packet.handle] = Stream(packet, ended=True)

    def wanted(self) -> list[Hole]:
        """Where every unfinished item goes on: asked for after a reconnect."""
        return [
            Hole(item_id, stream.next_packet)
            for response in self.responses.values()
            for item_id, stream in response.streams.items()
            if not stream.ended
        ]

    def _start(self, packet: ItemStart) -> Response | None:
        if len(self._handles) >= KEEP_DEAD:
            self._handles.pop(next(iter(self._handles)))
        response = self.responses.get(packet.response_id)
        if response is None:
            dead = packet.response_id in self._dead
            self.fenced["dead_response" if dead else "unknown_response"] += 1
            self._handles[packet.handle] = Stream(packet)
            return None
        known = response.streams.get(packet.item_id)
        if known is not None and known.start.content_index != packet.content_index:
            self.refuse(packet)
            return None
        if known is not None:  # the item goes on after a reconnect
            self._handles[packet.handle] = known
            return None
        stream = Stream(packet)
        response.streams[packet.item_id] = stream
        self._handles[packet.handle] = stream
        response.waiting.append((packet.item_id, packet))
        return response

    def _audio(
        self, response: Response, stream: Stream, packet: ItemAudio
    ) -> Response | Hole | None:
        old = stream.next_packet - packet.first_packet
        if old < 0:
            self.fenced["gap"] += len(packet.packets)
            if stream.asked == stream.next_packet:
                return None
            stream.asked = stream.next_packet
            return Hole(stream.start.item_id, stream.next_packet)
        if old:
            self.fenced["duplicate"] += min(old, len(packet.packets))
        fresh = packet.packets[old:]
        if not fresh:
            return None
        size = sum(map(len, fresh))
        if response.waiting_bytes + size > HOLD_BYTES:
            self.fenced["no_room"] += len(fresh)
            return None
        stream.next_packet += len(fresh)
        part = ItemAudio(packet.handle, packet.first_packet + old, fresh)
        response.waiting.append((stream.start.item_id, part))
        response.waiting_bytes += size
        return response

    def _end(self, response: Response, stream: Stream, packet: ItemEnd) -> Response | Hole | None:
        if packet.packets > stream.next_packet:
            if stream.asked == stream.next_packet:
                return None
            stream.asked = stream.next_packet
            return Hole(stream.start.item_id, stream.next_packet)
        stream.ended = True
        response.waiting.append((stream.start.item_id, packet))
        return response

    @staticmethod
    def take(response: Response) -> list[tuple[str, ItemStart | ItemAudio | ItemEnd]]:
        """Everything that waits of the response, with the item each piece belongs to."""
        taken = list(response.waiting)
        response.waiting.clear()
        response.waiting_bytes = 0
        return taken

    def _bury(self, response_id: str) -> None:
        self._dead[response_id] = None
        while len(self._dead) > KEEP_DEAD:
            self._dead.pop(next(iter(self._dead)))
