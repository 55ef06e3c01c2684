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
5. An alert's response is no answer to a turn: nothing makes it stale. It is held until it
   has come whole and may be played, and what came of it is kept, to be played again when
   it was cut off. While the lane is gated (the person has not been told yet what they are
   talking to) only an exempt response is played.
6. Audio may overtake the message that announces its response, on another channel: what
   comes early waits for it, within bounds.
7. Every discard is counted, by its reason. Nothing is dropped without a count.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field, replace

from handset.core.packets import ItemAudio, ItemEnd, ItemStart

HOLD_BYTES = 4 << 20
"""Opus bytes kept of one waiting response: about 20 minutes."""
MOST_RESPONSES = 64
KEEP_DEAD = 4096
EARLY_MESSAGES = 512
"""Audio messages kept for responses that are not announced yet."""


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
    alert: bool = False
    exempt: bool = False
    held: bool = False
    kept: list[tuple[str, ItemStart | ItemAudio | ItemEnd]] = field(default_factory=list)
    """Of an alert: everything that came, for another time."""

    @property
    def whole(self) -> bool:
        """All of it has come: there are items, and each has ended."""
        return bool(self.streams) and all(stream.ended for stream in self.streams.values())

    def wait(self, item_id: str, packet: ItemStart | ItemAudio | ItemEnd) -> None:
        self.waiting.append((item_id, packet))
        if self.alert:
            self.kept.append((item_id, packet))


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
        self.gated = False
        self._handles: dict[int, Stream] = {}
        self._early: dict[str, list[ItemStart | ItemAudio | ItemEnd]] = {}
        """By response that is not announced yet."""

    def new_epoch(self) -> None:
        """Handles name items within one connection, and so do questions about holes."""
        self._handles.clear()
        if self._early:
            self.fenced["unknown_response"] += sum(map(len, self._early.values()))
            self._early.clear()
        for response in self.responses.values():
            for stream in response.streams.values():
                stream.asked = -1

    def new_session(self) -> None:
        self.responses.clear()
        self.new_epoch()
        self._dead.clear()

    # ---- responses -----------------------------------------------------------------------

    def created(
        self, response_id: str, turn: int, speculative: bool
    ) -> list[ItemStart | ItemAudio | ItemEnd]:
        """Announces a response; returns what came of it before, to be taken now."""
        self._announce(response_id, turn, speculative)
        return self._early.pop(response_id, [])

    def expect_alert(self, response_id: str) -> None:
        """An alert's response, announced or not yet; it is held."""
        if response_id not in self.responses and response_id not in self._dead:
            self.responses[response_id] = Response(response_id, self.committed_turn, False)
        if response_id in self.responses:
            response = self.responses[response_id]
            response.alert = response.held = True
            response.kept = list(response.waiting)

    def expect_exempt(self, response_id: str) -> None:
        """The one response that a gated lane lets through."""
        if response_id not in self.responses and response_id not in self._dead:
            self.responses[response_id] = Response(response_id, self.committed_turn, False)
        if response_id in self.responses:
            self.responses[response_id].exempt = True

    def replay(self, response: Response, times: int) -> Response:
        """An alert once more, under names of its own: ``~times`` is appended."""
        again = Response(f"{response.response_id}~{times}", response.turn, False, alert=True)
        again.done_ns, again.heard_ns, again.held = response.done_ns, response.heard_ns, True
        for item_id, packet in response.kept:
            name = f"{item_id}~{times}"
            if isinstance(packet, ItemStart):
                packet = replace(packet, item_id=name, response_id=again.response_id)
                again.streams[name] = Stream(packet, ended=True)
            again.wait(name, packet)
        self.responses[again.response_id] = again
        return again

    def _announce(self, response_id: str, turn: int, speculative: bool) -> None:
        known = self.responses.get(response_id)
        if known is not None and (known.alert or known.exempt):
            return
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
            if response.alert or response.exempt:
                continue
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
        first = sorted(self.responses.values(), key=lambda r: not (r.alert or r.exempt))
        for response in first:
            waits = response.speculative and response.turn > self.committed_turn
            waits = waits or response.held or (self.gated and not response.exempt)
            if response.waiting and not waits:
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
        if response is None and stream.start.response_id in self._early:
            self._keep_early(stream.start.response_id, packet)
            return None
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
            self._handles[packet.handle] = Stream(packet)
            if packet.response_id in self._dead:
                self.fenced["dead_response"] += 1
            else:
                self._keep_early(packet.response_id, packet)
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
        response.wait(packet.item_id, packet)
        return response

    def _keep_early(self, response_id: str, packet: ItemStart | ItemAudio | ItemEnd) -> None:
        if sum(map(len, self._early.values())) >= EARLY_MESSAGES:
            self.fenced["unknown_response"] += 1
            return
        self._early.setdefault(response_id, []).append(packet)

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
        response.wait(stream.start.item_id, part)
        response.waiting_bytes += size
        return response

    def _end(self, response: Response, stream: Stream, packet: ItemEnd) -> Response | Hole | None:
        if packet.packets > stream.next_packet:
            if stream.asked == stream.next_packet:
                return None
            stream.asked = stream.next_packet
            return Hole(stream.start.item_id, stream.next_packet)
        stream.ended = True
        response.wait(stream.start.item_id, packet)
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
