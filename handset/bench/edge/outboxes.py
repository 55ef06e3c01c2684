"""Settling durable events: each takes effect once, whatever the network does.

Theory of operation. A handset numbers its events from 1 without holes, per outbox. It
sends them again until they are acknowledged, after a crash perhaps under a new number or
from a new outbox; the ``event_id`` stays.

1. An event is known by its id. A known one has no second effect; its number is settled.
2. Events are applied in the order of their numbers. One above a hole waits, except
   ``playout.cleared`` and ``conversation.item.truncate``: they apply at once, since they
   only ever lower what history holds.
3. The id is kept together with the effect: either both or neither.
4. The acknowledgement is the highest number below which there is no hole. Above it the
   applied ids are listed.
5. A refused event is settled too. Asked again, it is refused again in the same words.
6. An outbox that is new to this edge may have been settled up to some number by an edge
   before it. The first event that may not overtake tells where it goes on: it comes on an
   ordered channel, lowest first. Should one from below turn up all the same, it is applied
   then: order is given up before an event is.
7. A handset that connects says how many events it has. When all of them are there, a hole
   that is left was settled by an edge before this one: what waited above it is applied.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum

from handset.core.messages import Durable, EventAck, EventRejected, PlayoutCleared, Truncate
from handset.core.packets import Malformed

OVERTAKES: tuple[type[Durable], ...] = (PlayoutCleared, Truncate)
HELD_MAX = 256
"""Events kept above a hole; the ones beyond are not settled and have to come again."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why an event has no effect. ``limit_ms``: the length that a truncate exceeded."""

    code: str
    message: str
    limit_ms: int | None = None


class Outcome(Enum):
    APPLIED = "applied"
    REJECTED = "rejected"
    DUPLICATE = "duplicate"
    HELD = "held"
    DROPPED = "dropped"


@dataclass(frozen=True, slots=True)
class Settled:
    event: Durable
    outcome: Outcome
    refusal: Refusal | None = None


Apply = Callable[[Durable], Refusal | None]


@dataclass(slots=True)
class _Outbox:
    settled: int | None = None
    above: dict[int, str] = field(default_factory=dict)
    held: dict[int, Durable] = field(default_factory=dict)


@dataclass(slots=True)
class Outboxes:
    """All outboxes of one handset. ``apply`` carries out one event, or says why not; it
    must not have changed anything when it refuses."""

    apply: Apply
    _boxes: dict[str, _Outbox] = field(default_factory=dict)
    _known: dict[str, Refusal | None] = field(default_factory=dict)

    def take(self, event: Durable) -> list[Settled]:
        """One event from the wire. What happened to it, and to those it had kept waiting."""
        if not event.outbox_id or event.seq < 1 or not event.event_id:
            raise Malformed(
                f"{type(event).__name__} without identity: outbox_id {event.outbox_id!r}, "
                f"seq {event.seq}, event_id {event.event_id!r}"
            )
        box = self._boxes.setdefault(event.outbox_id, _Outbox())
        if box.settled is None and (event.seq == 1 or not isinstance(event, OVERTAKES)):
            box.settled = min((event.seq, *box.above)) - 1
        if box.settled is None:
            return [self._above(box, event)]
        if event.seq <= box.settled or event.event_id in self._known:
            done = [self._settle(event)]
            if event.seq > box.settled:
                box.above.setdefault(event.seq, event.event_id)
        elif event.seq == box.settled + 1:
            done = [self._settle(event)]
            box.settled = event.seq
        elif isinstance(event, OVERTAKES):
            done = [self._above(box, event)]
        elif event.seq in box.held:
            done = [Settled(event, Outcome.DUPLICATE)]
        elif len(box.held) >= HELD_MAX:
            done = [Settled(event, Outcome.DROPPED)]
        else:
            box.held[event.seq] = event
            done = [Settled(event, Outcome.HELD)]
        return done + self._drain(box)

    def release(self) -> list[Settled]:
        """The handset has sent all it has: nothing waits for a hole any more (rule 7)."""
        done: list[Settled] = []
        for box in self._boxes.values():
            if box.settled is None and box.above:
                box.settled = min(box.above) - 1
                done += self._drain(box)
            while box.held:
                box.settled = min((*box.held, *box.above)) - 1
                done += self._drain(box)
        return done

    def ack(self, outbox_id: str) -> EventAck:
        """The acknowledgement to send now."""
        box = self._boxes.get(outbox_id, _Outbox())
        applied = [box.above[seq] for seq in sorted(box.above)]
        return EventAck(outbox_id=outbox_id, seq=box.settled or 0, applied=applied)

    def rejection(self, settled: Settled) -> EventRejected | None:
        """The message for an event that is, or was, refused."""
        refusal = settled.refusal
        if refusal is None:
            return None
        return EventRejected(
            outbox_id=settled.event.outbox_id,
            seq=settled.event.seq,
            event_id=settled.event.event_id,
            code=refusal.code,
            message=refusal.message,
            limit_ms=refusal.limit_ms,
        )

    def acks(self) -> list[EventAck]:
        return [self.ack(outbox_id) for outbox_id in self._boxes]

    def _settle(self, event: Durable) -> Settled:
        if event.event_id in self._known:
            return Settled(event, Outcome.DUPLICATE, self._known[event.event_id])
        refusal = self.apply(event)
        self._known[event.event_id] = refusal
        return Settled(event, Outcome.REJECTED if refusal else Outcome.APPLIED, refusal)

    def _above(self, box: _Outbox, event: Durable) -> Settled:
        box.above.setdefault(event.seq, event.event_id)
        return self._settle(event)

    def _drain(self, box: _Outbox) -> list[Settled]:
        done: list[Settled] = []
        assert box.settled is not None
        while True:
            following = box.settled + 1
            if following in box.above:
                del box.above[following]
                if (other := box.held.pop(following, None)) is not None:
                    done.append(self._settle(other))  # two events under one number
            elif following in box.held:
                done.append(self._settle(box.held.pop(following)))
            else:
                return done
            box.settled = following
