"""Durable events on their way to the edge.

Rules:

1. An event is kept from the moment it is known until the edge has settled it. Nothing
   else ever removes it: no epoch, no age, no other event.
2. Within one ``outbox_id`` events have seq 1, 2, 3 ... in the order they were made, and
   are sent in that order. Every start of the handset makes a new ``outbox_id``; what an
   earlier one left is sent first, under its own id and numbers, so that no number ever
   stands for two events.
3. The same fact has the same ``event_id``. A fact that was added or settled before is
   not added again: a crash may find it twice, the edge gets it once.
4. An acknowledgement settles a contiguous prefix of one ``outbox_id``, plus single
   events above it that took effect out of order. A rejection settles one event.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from handset.core.messages import Durable

KEEP_KNOWN = 20_000
"""Settled event ids remembered, newest first to stay: as many as the store keeps."""


class Outbox:
    def __init__(
        self,
        outbox_id: str,
        pending: Iterable[Durable] = (),
        settled: Iterable[str] = (),
    ) -> None:
        self.outbox_id = outbox_id
        self._pending: dict[str, Durable] = {event.event_id: event for event in pending}
        self._known: dict[str, None] = dict.fromkeys(settled)
        self._known.update(dict.fromkeys(self._pending))
        self._seq = 0
        self.refused_acks = 0
        """Acknowledgements of something that was never sent."""

    def __len__(self) -> int:
        return len(self._pending)

    def pending(self) -> list[Durable]:
        """In the order to be sent: earlier outboxes first."""
        return list(self._pending.values())

    def holds(self, event_id: str) -> bool:
        return event_id in self._pending

    def add(self, events: Iterable[Durable]) -> tuple[Durable, ...]:
        """Numbers the events that are new; returns those, ready to be kept and sent."""
        added = []
        for event in events:
            if event.event_id in self._known:
                continue
            self._seq += 1
            numbered = replace(event, outbox_id=self.outbox_id, seq=self._seq)
            self._pending[event.event_id] = numbered
            self._known[event.event_id] = None
            added.append(numbered)
        return tuple(added)

    def acknowledge(self, outbox_id: str, seq: int, applied: Iterable[str] = ()) -> list[str]:
        """Settles; returns the ids of the events that were still pending."""
        if outbox_id == self.outbox_id and seq > self._seq:
            self.refused_acks += 1
            return []
        early = set(applied)
        settled = [
            event.event_id
            for event in self._pending.values()
            if (event.outbox_id == outbox_id and event.seq <= seq) or event.event_id in early
        ]
        for event_id in settled:
            del self._pending[event_id]
        while len(self._known) > KEEP_KNOWN + len(self._pending):
            self._known.pop(next(name for name in self._known if name not in self._pending))
        return settled

    def reject(self, event_id: str) -> Durable | None:
        """The edge will not apply the event; it is settled. None when it was already."""
        return self._pending.pop(event_id, None)
