"""Playing what the edge says: lane, ledger and receipts joined.

It turns arriving audio into decode effects, gestures and remote clears into clears of the
queue, and what the queue reports into durable events. It never looks at a clock and never
asks anyone how far playout got: only answers and snapshots move a cursor.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection
from dataclasses import replace

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
    SetVolume,
)
from handset.core.holds import Hold, Holds
from handset.core.item import Item
from handset.core.lane import Hole, Lane, Response
from handset.core.ledger import RESTARTED, Cut, Ledger
from handset.core.messages import (
    AudioWanted,
    Cause,
    Durable,
    Output,
    PlayoutCleared,
    ResponseCancel,
)
from handset.core.packets import ItemAudio, ItemEnd, ItemStart
from handset.core.receipts import Context
from handset.core.segments import DeviceTiming

OUR_CAUSES = ("gesture", "typed", "voice", "alert", "device_lost", "shutdown")
"""Clears that the edge has not asked for: what it still generates is cancelled there."""
KEEP_CLEARED = 256
END_DEADLINE_NS = 2_000_000_000
"""How long an item's end, or another item, is waited for: after ``response.done``, after
the last audio of it, and after the link came back, whichever is latest. ``response.done``
is on another channel than the audio and may overtake it by far."""
NO_DEVICE = DeviceTiming(rate=48_000, period=480, buffer=1_440, block=480)


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
        self.ledger = Ledger(NO_DEVICE, 0, first_clear)
        """Without a device it holds what was announced, and nothing is handed."""
        self.generation = first_clear
        """Number of the newest clear: what a new queue's numbers must begin with."""
        self._context = context
        self._keep = keep
        self._current: str | None = None
        self._output = Output(1.0, False, "", False)
        self._ready = False
        self._linked_ns: int | None = None
        self._asked: deque[tuple[str, list[str]]] = deque()
        """Of every clear without an answer: the session it was asked in, and responses."""
        self._said_queued: set[str] = set()
        self._losing: tuple[int, str] | None = None
        self._cleared: dict[str, PlayoutCleared] = {}
        self.holds = Holds()
        self._gain = 1.0
        self._loudness = 1.0
        """The newest volume above nothing: what notices have while the lane is muted."""
        self._finals: list[Item] = []

    # ---- volume and holds -----------------------------------------------------------------

    def hold(self, why: Hold, duck: bool = False) -> list[Effect]:
        """Playback pauses (or is ducked) until every reason is released, or a clear comes.
        Only a muted output holds what is not playing yet."""
        if why is not Hold.MUTED and not self.stoppable():
            return []
        return self.holds.hold(why, duck)

    def release(self, why: Hold) -> list[Effect]:
        return self.holds.release(why)

    def set_volume(self, gain: float) -> list[Effect]:
        """0.0 mutes: the lane is held, and nothing is handed into silence."""
        self._gain = gain
        self._loudness = gain or self._loudness
        muted = gain <= 0
        self._output = replace(self._output, gain=gain, muted=muted, changed=False)
        for item in self.ledger.items.values():
            if item.output is None or item.cut or item.complete:
                continue
            lowest = min(item.output.gain, gain) if item.handed else gain
            item.output = Output(
                lowest, item.output.muted or muted, item.output.route, item.handed > 0
            )
        effects: list[Effect] = [SetVolume(gain)] if not muted else []
        return effects + (self.hold(Hold.MUTED) if muted else self.release(Hold.MUTED))

    # ---- the device -----------------------------------------------------------------------

    def device_ready(self, timing: DeviceTiming, route: str, first_frame: int) -> list[Effect]:
        """A queue whose frames and clears count on from ``first_frame`` and
        :attr:`generation`. What was announced before waits for it."""
        before, self.ledger = self.ledger, Ledger(timing, first_frame, self.generation)
        self._output = Output(self._gain, self._gain <= 0, route, False)
        self._ready = True
        waiting = self.ledger.inherit(before)
        for item in waiting:
            item.output = self._output
        effects: list[Effect] = [Log(_announce_record(item)) for item in waiting]
        if self._loudness < 1:
            effects.append(SetVolume(self._loudness))
        return effects + self.holds.new_queue()

    def device_lost(self, frames: int, reason: str, now_ns: int) -> list[Effect]:
        """The stream is closed; the queue will be settled by the control side. What could
        not be queued any more stays with the edge: its response is dead."""
        if not self._ready:
            return []
        self._ready = False
        self._losing = (frames, reason)
        return self._stop(Cause("device_lost", now_ns), self.stoppable())

    # ---- what the edge says -----------------------------------------------------------------

    def linked(self, now_ns: int) -> None:
        self._linked_ns = now_ns

    def unlinked(self) -> None:
        """Nothing can arrive, so nothing is overdue."""
        self._linked_ns = None

    def end_session(self, session: str, now_ns: int) -> list[Effect]:
        """``session`` is over and another one has begun."""
        effects = self.clear(Cause("session_end", now_ns), session)
        self.lane.new_session()
        self._cleared.clear()
        self._current = None
        return effects

    def arrive(self, packet: ItemStart | ItemAudio | ItemEnd, now_ns: int) -> list[Effect]:
        if isinstance(packet, ItemStart) and self._is_taken(packet):
            self.lane.refuse(packet)
            return []
        taken = self.lane.arrive(packet)
        if isinstance(taken, Hole):
            return [Send(AudioWanted(item_id=taken.item_id, next_packet=taken.next_packet))]
        if taken is None:
            return []
        taken.heard_ns = now_ns
        if not isinstance(packet, ItemStart) or taken.held:
            return []
        return self._announce(packet, now_ns)

    def announce_held(self, response: Response, now_ns: int) -> list[Effect]:
        """The items of a response that was held back, now that it may be played."""
        return [
            effect
            for stream in response.streams.values()
            for effect in self._announce(stream.start, now_ns)
        ]

    def _is_taken(self, start: ItemStart) -> bool:
        """There is an item of that name already, and this is not the same one going on."""
        response = self.lane.responses.get(start.response_id)
        if response is None or start.item_id in response.streams:
            return False
        closed = self.ledger.closed.get(start.item_id)
        if closed is not None and closed.session != self._context().session:
            del self.ledger.closed[start.item_id]
            closed = None
        return closed is not None or start.item_id in self.ledger.items

    def _announce(self, start: ItemStart, now_ns: int) -> list[Effect]:
        item = self.ledger.announce(
            start.item_id, start.response_id, start.content_index, start.turn, start.rate
        )
        item.session = self._context().session
        item.output = self._output
        facts: dict[str, object] = {"item": start.item_id, "response": start.response_id}
        return [Log(_announce_record(item)), Observe("item.announced", now_ns, facts)]

    def pump(self, floor_taken: bool) -> list[Effect]:
        """Lets the audio go on that may be played now."""
        effects: list[Effect] = []
        while self._ready:
            if self._current is not None and self._is_over(self._current):
                self._current = None
            response = self.lane.playable(self._current, floor_taken)
            if response is None or not response.waiting:
                break
            self._current = response.response_id
            for item_id, packet in self.lane.take(response):
                if not self.ledger.open_for(item_id):
                    self.lane.fenced["closed_item"] += 1
                elif isinstance(packet, ItemStart):
                    effects.append(OpenDecoder(item_id, packet.rate, packet.pre_skip))
                elif isinstance(packet, ItemAudio):
                    effects.append(Decode(item_id, packet.packets))
                else:
                    effects.append(EndItem(item_id, packet.samples))
        return effects

    def _is_over(self, response_id: str) -> bool:
        """Nothing of it is to be handed any more, as far as is known."""
        response = self.lane.responses.get(response_id)
        if response is None:
            return True
        if any(not stream.ended for stream in response.streams.values()):
            return response.done_ns is not None and not self._items_of(response_id)
        return all(item.complete or item.cut for item in self._items_of(response_id))

    def _is_spent(self, response_id: str) -> bool:
        """The edge is done with it and all that came of it was handed."""
        response = self.lane.responses[response_id]
        done = response.done_ns is not None and not response.waiting
        return done and self._is_over(response_id)

    def _items_of(self, response_id: str) -> list[Item]:
        return [item for item in self.ledger.items.values() if item.response_id == response_id]

    def queued(self, event: AudioQueued, now_ns: int) -> list[Effect]:
        self.ledger.append(event.item_id, event.frames, event.samples)
        item = self.ledger.items[event.item_id]
        if event.frames == 0 or event.item_id in self._said_queued:
            return []
        self._said_queued.add(event.item_id)
        return self._keep([receipts.queued(self._context(), item, now_ns)])

    def item_queued(self, event: ItemQueued) -> list[Effect]:
        self.ledger.end(event.item_id, event.samples)
        return [Log({"k": "end", "item": event.item_id, "samples": event.samples})]

    def audio_fenced(self, event: AudioFenced) -> None:
        self.ledger.fenced(event.item_id, event.samples)
        self.lane.fenced["stopped_while_queuing"] += 1

    # ---- clears ---------------------------------------------------------------------------------

    def stoppable(self) -> list[str]:
        """Responses that a clear of the lane stops: with audio received or announced, and
        not over. One that nothing is there of yet is not stopped by a press; a commit
        makes it stale, an abandoned turn lets it play."""
        return [
            response_id
            for response_id, response in self.lane.responses.items()
            if response.streams and not response.held and not self._is_spent(response_id)
        ]

    def clear(
        self, cause: Cause, session: str = "", only: Collection[str] | None = None
    ) -> list[Effect]:
        """Stops everything on the lane, or ``only`` these responses of it; those that are not
        among them have nothing in the queue. Nothing there: nothing happens."""
        responses = self.stoppable()
        if only is not None:
            responses = [name for name in responses if name in only]
            if self._has_queue:
                return self._stop(cause, responses, only=responses) if responses else []
        for response_id in list(self.lane.responses):
            response = self.lane.responses[response_id]
            if response.streams and not response.held and response_id not in responses:
                self.lane.forget(response_id)  # heard whole; what may still come is late
        if not self._has_queue:
            return [
                effect
                for response_id in responses
                for effect in self._withdraw(response_id, cause, cause.at_ns, session)
            ]
        if not responses and not self.ledger.live():
            return []
        return self._stop(cause, responses, session=session)

    @property
    def _has_queue(self) -> bool:
        """There are callbacks to answer a clear, or the control side will settle it."""
        return self._ready or self._losing is not None

    def clear_response(self, response_id: str, cause: Cause, now_ns: int) -> list[Effect]:
        """Remote clear of one response; it touches no other. One that is dead already is
        answered with what its clear had found."""
        if response_id in self._cleared:
            again = receipts.repeated(self._context(), self._cleared[response_id], now_ns)
            return self._keep([again])
        if response_id not in self.lane.responses:
            return []
        if self._is_spent(response_id):
            self.lane.forget(response_id)
            return []
        if self._current == response_id:
            return self._stop(cause, [response_id], only=[response_id])
        return self._withdraw(response_id, cause, now_ns)

    def _withdraw(
        self, response_id: str, cause: Cause, now_ns: int, session: str = ""
    ) -> list[Effect]:
        """It has no frames in the queue, and another one may: so no clear of the queue."""
        self.lane.kill(response_id)
        items = self.ledger.withdraw(response_id)
        context = self._context().of(session)
        event = receipts.withdrawn(context, response_id, items, cause, now_ns)
        self._remember([response_id], event)
        finals = [receipts.final(context, item, now_ns, event.event_id) for item in items]
        return [
            *self._keep([event, *finals]),
            DropDecoders(tuple(item.item_id for item in items)),
            *self._closed(items, now_ns),
        ]

    def _remember(self, responses: list[str], event: PlayoutCleared) -> None:
        if event.session != self._context().session:
            return
        for response_id in responses:
            self._cleared[response_id] = event
        while len(self._cleared) > KEEP_CLEARED:
            self._cleared.pop(next(iter(self._cleared)))

    def _stop(
        self,
        cause: Cause,
        responses: list[str],
        only: Collection[str] | None = None,
        session: str = "",
    ) -> list[Effect]:
        stopped = tuple(
            item.item_id for item in self.ledger.live() if only is None or item.response_id in only
        )
        request = self.generation = self.ledger.clear(cause, only)
        cancels = [
            Send(ResponseCancel(response_id=response_id))
            for response_id in responses
            if (response := self.lane.kill(response_id)) is not None
            and response.done_ns is None
            and cause.kind in OUR_CAUSES
        ]
        if self._current in responses:
            self._current = None
        self._asked.append((session or self._context().session, responses))
        record: dict[str, object] = {
            "k": "clear",
            "request": request,
            "cause": cause.kind,
            "at": cause.at_ns,
            "only": list(only or ()),
            "responses": responses,
        }
        return [
            Log(record),
            Remember("clear", str(request)),
            ClearPlayout(request),
            *self.holds.cleared(),
            DropDecoders(stopped),
            *cancels,
            Observe("clear.asked", cause.at_ns, {"request": request, "cause": cause.kind}),
        ]

    # ---- what the queue says --------------------------------------------------------------------

    def seen(self, event: PlayoutSeen, now_ns: int) -> list[Effect]:
        if not self._has_queue:
            return []
        cuts = self.ledger.update(event.snapshot, event.answers, event.segments)
        effects: list[Effect] = [Log(_answer_record(cut)) for cut in cuts]
        holed = self.ledger.take_holed()
        effects += [Log(_hole_record(item)) for item in holed]
        lost: list[Item] = []
        sounding: list[Item] = []
        if self._losing is not None and self.ledger.answered == self.ledger.generation:
            just_cut = {item.item_id for cut in cuts for item in cut.items}
            sounding = [i for i in self.ledger.items.values() if i.item_id not in just_cut]
            cut_before = {item.item_id for item in sounding if item.cut}
            lost = self.ledger.lose(*self._losing)
            self._losing = None
            sounding = [item for item in sounding if item.lost]
        for cut in cuts:
            effects += self._cut(cut, now_ns, sounding if cut is cuts[-1] else [])
        if sounding:
            effects += self._lost(sounding, cut_before, now_ns)
        new = {item.item_id for cut in cuts for item in cut.items}
        for item in holed:
            if item.cut and item.stopped_by is not None and item.item_id not in new:
                context = self._context().of(item.session)
                cleared = receipts.cleared_id(context, item.stopped_by)
                effects += self._keep([receipts.truncate(context, item, cleared, now_ns, True)])
        return effects + self._finish(lost, now_ns)

    def tick(self, now_ns: int) -> list[Effect]:
        """Time has passed. With a device the next look at its queue says more."""
        return [] if self._has_queue else self._finish([], now_ns)

    def _finish(self, lost: list[Item], now_ns: int) -> list[Effect]:
        overdue = self._overdue(now_ns)
        finals = lost + self.ledger.finished(now_ns) + overdue
        effects: list[Effect] = []
        for item in finals:
            if item.reason == RESTARTED and item.stopped_by is None:
                context = self._context().of(item.session)
                effects += self._keep([*receipts.restarted(context, item, now_ns)])
        if finals:
            context = self._context()
            effects += self._keep([receipts.final(context, item, now_ns) for item in finals])
            effects += self._closed(finals, now_ns)
        if overdue:
            effects.append(DropDecoders(tuple(item.item_id for item in overdue)))
        self._settle_responses(now_ns)
        return effects

    def _cut(self, cut: Cut, now_ns: int, lost: list[Item]) -> list[Effect]:
        events: list[Durable] = []
        asked = [self._asked.popleft() for _ in cut.requests]
        for told in receipts.by_session(self._context(), cut, asked, now_ns, lost):
            self._remember(told[0].responses, told[0])
            events += told
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
        return [*self._keep(events), Observe("clear.answered", now_ns, facts)]

    def _lost(self, items: list[Item], cut_before: set[str], now_ns: int) -> list[Effect]:
        """Items that were on their way to the ear when the device went away. One that a
        clear had cut before gets a lower truncate, instead of the one it got then."""
        events: list[Durable] = []
        for item in items:
            item.stopped_by = self.generation
            context = self._context().of(item.session)
            cleared = receipts.cleared_id(context, self.generation)
            again = item.item_id in cut_before
            events.append(receipts.truncate(context, item, cleared, now_ns, again))
        return self._keep(events)

    def _overdue(self, now_ns: int) -> list[Item]:
        """Items whose end was promised by ``response.done`` and never came."""
        closed = []
        for response in self.lane.responses.values():
            if response.waiting or not self._is_overdue(response, now_ns):
                continue  # what waits may still be played: nothing of it is overdue
            for item in self._items_of(response.response_id):
                item_closed = self.ledger.give_up(item.item_id, now_ns, "no end")
                if item_closed is not None:
                    closed.append(item_closed)
        return closed

    def _is_overdue(self, response: Response, now_ns: int) -> bool:
        if response.done_ns is None or self._linked_ns is None:
            return False
        since = max(response.done_ns, response.heard_ns, self._linked_ns)
        return now_ns - since >= END_DEADLINE_NS

    def _closed(self, items: list[Item], now_ns: int) -> list[Effect]:
        effects: list[Effect] = []
        for item in items:
            self._said_queued.discard(item.item_id)
            self._finals.append(item)
            facts: dict[str, object] = {"cursor": item.cursor(), "reason": item.reason}
            effects.append(Observe("item.final", now_ns, facts))
        return effects

    def _settle_responses(self, now_ns: int) -> None:
        for response_id, response in list(self.lane.responses.items()):
            if response.waiting or self._items_of(response_id):
                continue
            if self._is_overdue(response, now_ns):
                self.lane.forget(response_id)

    def take_finals(self) -> list[Item]:
        """Items that became final since the last call."""
        finals, self._finals = self._finals, []
        return finals

    @property
    def ready(self) -> bool:
        """There is an output."""
        return self._ready

    @property
    def current(self) -> str | None:
        """The response whose frames are in the queue, or will be next."""
        return self._current

    @property
    def paused(self) -> bool:
        return self.holds.paused

    def progress(self) -> tuple[str | None, int]:
        """The item that sounds, and how many of its samples were handed."""
        for item in self.ledger.items.values():
            if item.handed and not item.cut:
                return item.item_id, item.samples(item.handed)
        return None, 0

    @property
    def silent(self) -> bool:
        """Nothing is playing or about to: no response has audio that may be played."""
        return not self.ledger.items and self._current is None

    @property
    def idle(self) -> bool:
        """No item is alive: the journal holds nothing that is still needed."""
        return not self.ledger.items and self.ledger.answered == self.ledger.generation


def _announce_record(item: Item) -> dict[str, object]:
    return {
        "k": "announce",
        "item": item.item_id,
        "response": item.response_id,
        "content": item.content_index,
        "turn": item.turn,
        "rate": item.rate,
        "session": item.session,
    }


def _hole_record(item: Item) -> dict[str, object]:
    start, until = item.hole or (0, 0)
    return {"k": "hole", "item": item.item_id, "from": start, "until": until}


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
