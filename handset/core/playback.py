"""Playing what the edge says: lane, ledger and receipts joined.

It turns arriving audio into decode effects, gestures and remote clears into clears of the
queue, and what the queue reports into durable events. It never looks at a clock and never
asks anyone how far playout got: only answers and snapshots move a cursor.
"""

from __future__ import annotations

from collections.abc import Callable

from handset.core import receipts
from handset.core.events import (
    AudioFenced,
    AudioQueued,
    ClearPlayout,
    Decode,
    DropDecoders,
    Effect,
    EndItem,
    ItemQueued,
    Log,
    Observe,
    OpenDecoder,
    PlayoutSeen,
    Remember,
    Send,
)
from handset.core.item import Item
from handset.core.lane import Hole, Lane
from handset.core.ledger import Cut, Ledger
from handset.core.messages import AudioWanted, Cause, Durable, Output, PlayoutCleared
from handset.core.packets import ItemAudio, ItemEnd, ItemStart
from handset.core.receipts import Context
from handset.core.segments import DeviceTiming

KEEP_CLEARED = 256
END_DEADLINE_NS = 2_000_000_000
"""How long after ``response.done`` an item's end is waited for."""


class Playback:
    """``context()`` says which session and epoch it is; ``keep(events)`` makes durable
    events of them and returns the effects that send and store them."""

    def __init__(
        self,
        context: Callable[[], Context],
        keep: Callable[[list[Durable]], list[Effect]],
        first_clear: int = 0,
    ) -> None:
        self.lane = Lane()
        self.ledger: Ledger | None = None
        self.generation = first_clear
        """Number of the newest clear: what a new queue's numbers must begin with."""
        self._context = context
        self._keep = keep
        self._current: str | None = None
        self._output = Output(1.0, False, "", False)
        self._stopped: dict[int, list[str]] = {}
        self._said_queued: set[str] = set()
        self._losing: tuple[int, str] | None = None
        self._cleared: dict[str, PlayoutCleared] = {}

    # ---- the device -----------------------------------------------------------------------

    def device_ready(self, timing: DeviceTiming, route: str, first_frame: int) -> None:
        self.ledger = Ledger(timing, first_frame, self.generation)
        self._output = Output(1.0, False, route, False)

    def device_lost(self, frames: int, reason: str, now_ns: int) -> list[Effect]:
        """The stream is closed; the queue will be settled by the control side. What could
        not be queued any more stays with the edge: its response is dead."""
        if self.ledger is None:
            return []
        self._losing = (frames, reason)
        return self._stop(Cause("device_lost", now_ns), self._live_responses())

    # ---- what the edge says -----------------------------------------------------------------

    def arrive(self, packet: ItemStart | ItemAudio | ItemEnd, now_ns: int) -> list[Effect]:
        taken = self.lane.arrive(packet)
        if isinstance(taken, Hole):
            return [Send(AudioWanted(item_id=taken.item_id, next_packet=taken.next_packet))]
        if taken is None or not isinstance(packet, ItemStart):
            return []
        return self._announce(packet, now_ns)

    def _announce(self, start: ItemStart, now_ns: int) -> list[Effect]:
        if self.ledger is None:
            return []
        item = self.ledger.announce(
            start.item_id, start.response_id, start.content_index, start.turn, start.rate
        )
        item.output = self._output
        record: dict[str, object] = {
            "k": "announce",
            "item": start.item_id,
            "response": start.response_id,
            "content": start.content_index,
            "turn": start.turn,
            "rate": start.rate,
        }
        facts: dict[str, object] = {"item": start.item_id, "response": start.response_id}
        return [Log(record), Observe("item.announced", now_ns, facts)]

    def pump(self, floor_taken: bool) -> list[Effect]:
        """Lets the audio go on that may be played now."""
        effects: list[Effect] = []
        while self.ledger is not None and self._losing is None:
            if self._current is not None and self._is_over(self._current):
                self._current = None
            response = self.lane.playable(self._current, floor_taken)
            if response is None or not response.waiting:
                break
            self._current = response.response_id
            for item_id, packet in self.lane.take(response):
                if isinstance(packet, ItemStart):
                    effects.append(OpenDecoder(item_id, packet.rate, packet.pre_skip))
                elif isinstance(packet, ItemAudio):
                    effects.append(Decode(item_id, packet.packets))
                else:
                    effects.append(EndItem(item_id, packet.samples))
        return effects

    def _is_over(self, response_id: str) -> bool:
        """Nothing of it is to be handed any more, as far as is known."""
        assert self.ledger is not None
        response = self.lane.responses.get(response_id)
        if response is None:
            return True
        if any(not stream.ended for stream in response.streams.values()):
            return response.done_ns is not None and not self._items_of(response_id)
        return all(item.complete or item.cut for item in self._items_of(response_id))

    def _items_of(self, response_id: str) -> list[Item]:
        assert self.ledger is not None
        return [item for item in self.ledger.items.values() if item.response_id == response_id]

    def queued(self, event: AudioQueued, now_ns: int) -> list[Effect]:
        assert self.ledger is not None
        self.ledger.append(event.item_id, event.frames, event.samples)
        item = self.ledger.items[event.item_id]
        if event.frames == 0 or event.item_id in self._said_queued:
            return []
        self._said_queued.add(event.item_id)
        return self._keep([receipts.queued(self._context(), item, now_ns)])

    def item_queued(self, event: ItemQueued) -> list[Effect]:
        assert self.ledger is not None
        self.ledger.end(event.item_id, event.samples)
        return [Log({"k": "end", "item": event.item_id, "samples": event.samples})]

    def audio_fenced(self, event: AudioFenced) -> None:
        assert self.ledger is not None
        self.ledger.fenced(event.item_id, event.samples)
        self.lane.fenced["stopped_while_queuing"] += 1

    # ---- clears ---------------------------------------------------------------------------------

    def _live_responses(self) -> list[str]:
        """Responses that a clear of the lane stops: received or announced, not over."""
        assert self.ledger is not None
        return [
            response_id
            for response_id, response in self.lane.responses.items()
            if response.done_ns is None or not self._is_over(response_id) or response.waiting
        ]

    def clear(self, cause: Cause) -> list[Effect]:
        """Stops everything on the lane. Nothing there: nothing happens."""
        if self.ledger is None:
            return []
        responses = self._live_responses()
        if not responses and not self.ledger.live():
            return []
        return self._stop(cause, responses)

    def clear_response(self, response_id: str, cause: Cause, now_ns: int) -> list[Effect]:
        """Remote clear of one response; it touches no other. One that is dead already is
        answered with what its clear had found."""
        if self.ledger is None:
            return []
        if response_id in self._cleared:
            again = receipts.repeated(self._context(), self._cleared[response_id], now_ns)
            return self._keep([again])
        if response_id not in self.lane.responses:
            return []
        if self._current == response_id:
            return self._stop(cause, [response_id], only=response_id)
        # It has no frames in the queue, and another one may: so no clear of the queue.
        self.lane.kill(response_id)
        items = self.ledger.withdraw(response_id)
        event = receipts.withdrawn(self._context(), response_id, items, cause, now_ns)
        self._remember([response_id], event)
        return [*self._keep([event]), DropDecoders(tuple(item.item_id for item in items))]

    def _remember(self, responses: list[str], event: PlayoutCleared) -> None:
        for response_id in responses:
            self._cleared[response_id] = event
        while len(self._cleared) > KEEP_CLEARED:
            self._cleared.pop(next(iter(self._cleared)))

    def _stop(self, cause: Cause, responses: list[str], only: str | None = None) -> list[Effect]:
        assert self.ledger is not None
        stopped = tuple(
            item.item_id for item in self.ledger.live() if only is None or item.response_id == only
        )
        request = self.generation = self.ledger.clear(cause, only)
        for response_id in responses:
            self.lane.kill(response_id)
        if self._current in responses:
            self._current = None
        self._stopped.setdefault(request, []).extend(responses)
        record: dict[str, object] = {
            "k": "clear",
            "request": request,
            "cause": cause.kind,
            "at": cause.at_ns,
            "only": only or "",
            "responses": responses,
        }
        return [
            Log(record),
            Remember("clear", str(request)),
            ClearPlayout(request),
            DropDecoders(stopped),
            Observe("clear.asked", cause.at_ns, {"request": request, "cause": cause.kind}),
        ]

    # ---- what the queue says --------------------------------------------------------------------

    def seen(self, event: PlayoutSeen, now_ns: int) -> list[Effect]:
        if self.ledger is None:
            return []
        cuts = self.ledger.update(event.snapshot, event.answers, event.segments)
        effects: list[Effect] = [Log(_answer_record(cut)) for cut in cuts]
        lost: list[Item] = []
        if self._losing is not None and self.ledger.answered == self.ledger.generation:
            lost = self.ledger.lose(*self._losing)
            self._losing = None
        for cut in cuts:
            effects += self._cut(cut, now_ns)
        just_cut = {item.item_id for cut in cuts for item in cut.items}
        effects += self._lost([item for item in lost if item.item_id not in just_cut], now_ns)
        finals = lost + self.ledger.finished(now_ns) + self._overdue(now_ns)
        if finals:
            context = self._context()
            effects += self._keep([receipts.final(context, item, now_ns) for item in finals])
            effects += [Log({"k": "final", "item": item.item_id}) for item in finals]
            effects += [self._final(item, now_ns) for item in finals]
        self._settle_responses()
        return effects

    def _cut(self, cut: Cut, now_ns: int) -> list[Effect]:
        responses = [name for number in cut.requests for name in self._stopped.pop(number, [])]
        context = self._context()
        events = receipts.cleared(context, cut, responses, now_ns)
        self._remember(responses, events[0])
        answer = cut.answer
        facts: dict[str, object] = {
            "request": answer.request,
            "causes": [cause.kind for cause in cut.causes],
            "asked_ns": min((cause.at_ns for cause in cut.causes), default=now_ns),
            "ran_ns": answer.now_ns,
            "cut_ns": answer.dac_ns,
            "cursor": answer.cursor,
            "discarded": answer.discarded,
            "faded": answer.faded,
            "items": [item.cursor() for item in cut.items],
        }
        return [*self._keep([*events]), Observe("clear.answered", now_ns, facts)]

    def _lost(self, items: list[Item], now_ns: int) -> list[Effect]:
        """Items that were on their way to the ear when the device went away."""
        context = self._context()
        events: list[Durable] = []
        for item in items:
            if item.lost == 0 or not receipts.needs_truncate(item):
                continue
            again = item.stopped_by is not None
            cleared = receipts.cleared_id(context, item.stopped_by or self.generation)
            events.append(receipts.truncate(context, item, cleared, now_ns, again))
        return self._keep(events) if events else []

    def _overdue(self, now_ns: int) -> list[Item]:
        """Items whose end was promised by ``response.done`` and never came."""
        assert self.ledger is not None
        closed = []
        for response in self.lane.responses.values():
            if response.done_ns is None or now_ns - response.done_ns < END_DEADLINE_NS:
                continue
            for item in self._items_of(response.response_id):
                item_closed = self.ledger.give_up(item.item_id, now_ns, "no end")
                if item_closed is not None:
                    closed.append(item_closed)
        return closed

    def _final(self, item: Item, now_ns: int) -> Effect:
        self._said_queued.discard(item.item_id)
        return Observe("item.final", now_ns, {"cursor": item.cursor(), "reason": item.reason})

    def _settle_responses(self) -> None:
        for response_id, response in list(self.lane.responses.items()):
            if response.done_ns is None or response.waiting or self._items_of(response_id):
                continue
            self.lane.forget(response_id)

    def progress(self) -> tuple[str | None, int]:
        """The item that sounds, and how many of its samples were handed."""
        if self.ledger is not None:
            for item in self.ledger.items.values():
                if item.handed and not item.cut:
                    return item.item_id, item.samples(item.handed)
        return None, 0

    @property
    def idle(self) -> bool:
        """No item is alive: the journal holds nothing that is still needed."""
        ledger = self.ledger
        return ledger is None or (not ledger.items and ledger.answered == ledger.generation)


def _answer_record(cut: Cut) -> dict[str, object]:
    answer, anchor = cut.answer, cut.answer.anchor
    return {
        "k": "answer",
        "request": answer.request,
        "fence": answer.fence,
        "cursor": answer.cursor,
        "faded": answer.faded,
        "discarded": answer.discarded,
        "handed": answer.handed,
        "device_frame": answer.device_frame,
        "dac_ns": answer.dac_ns,
        "now_ns": answer.now_ns,
        "flags": answer.flags,
        "frame": anchor.frame,
        "ns": anchor.ns,
        "since": anchor.since,
        "since_ns": anchor.since_ns,
        "blocks": anchor.blocks,
    }
