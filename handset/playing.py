"""From Opus packets of the edge to frames in the playout queue.

One thread, one order: a range is journalled, then written, then told to the core, before
anything else happens. What the queue has no room for waits here, in order; a chunk that
was decoded before a clear is refused by the queue itself (its generation is old).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from handset.audio.playout import STALE, Frames, Playout
from handset.core.events import AudioFenced, AudioQueued, Event, ItemQueued
from handset.core.packets import Malformed
from handset.core.recovery import append_record
from handset.edge.opus import ItemDecoder


@dataclass(slots=True)
class _Chunk:
    """``samples`` of the item stand for ``frames``; ``total`` when it is the last one."""

    item_id: str
    generation: int
    frames: Frames
    samples: int
    total: int | None = None


class Speaker:
    """``tell`` gives an event to the core and carries out what it asks for;
    ``starts_run(item_id)`` is the ledger's."""

    def __init__(
        self,
        playout: Playout,
        journal: Callable[[dict[str, object]], None],
        tell: Callable[[Event], None],
        starts_run: Callable[[str], bool],
    ) -> None:
        self.playout = playout
        self.damaged = 0
        """Items whose packets did not add up to the length that was announced."""
        self._journal = journal
        self._tell = tell
        self._starts_run = starts_run
        self._decoders: dict[str, ItemDecoder] = {}
        self._backlog: deque[_Chunk] = deque()

    @property
    def waiting(self) -> int:
        """Frames that the queue has no room for yet."""
        return sum(len(chunk.frames) for chunk in self._backlog)

    def open(self, item_id: str, rate: int, pre_skip: int) -> None:
        self._decoders[item_id] = ItemDecoder(rate, pre_skip, self.playout.config.rate)

    def decode(self, item_id: str, packets: tuple[bytes, ...]) -> None:
        decoder = self._decoders.get(item_id)
        if decoder is None:
            return
        before = decoder.samples
        frames = decoder.packets(list(packets))
        self._add(item_id, frames, decoder.samples - before)

    def end(self, item_id: str, samples: int) -> None:
        decoder = self._decoders.pop(item_id, None)
        if decoder is None:
            return
        before = decoder.samples
        try:
            frames = decoder.end(samples)
            total = samples
        except Malformed:
            # What came is played; an item is never longer than what was received of it.
            self.damaged += 1
            frames, total = np.zeros(0, np.int16), before
        self._add(item_id, frames, max(total - before, 0), total)

    def drop(self, item_ids: tuple[str, ...]) -> None:
        """These are stopped: what waits of them never sounds, and is counted."""
        gone = set(item_ids)
        for item_id in item_ids:
            self._decoders.pop(item_id, None)
        kept = deque(chunk for chunk in self._backlog if chunk.item_id not in gone)
        dropped = [chunk for chunk in self._backlog if chunk.item_id in gone]
        self._backlog = kept
        for chunk in dropped:
            self._tell(AudioFenced(chunk.item_id, chunk.samples))

    def _add(self, item_id: str, frames: Frames, samples: int, total: int | None = None) -> None:
        chunk = _Chunk(item_id, self.playout.generation, frames, samples, total)
        self._backlog.append(chunk)
        self.flush()

    def flush(self) -> None:
        """Writes what there is room for."""
        while self._backlog:
            chunk = self._backlog[0]
            room = self.playout.space
            n = min(len(chunk.frames), room)
            if n < len(chunk.frames) and n == 0:
                return
            samples = chunk.samples
            if n < len(chunk.frames):
                samples = chunk.samples * n // len(chunk.frames)
            if not self._write(chunk, n, samples):
                continue
            chunk.frames = chunk.frames[n:]
            chunk.samples -= samples
            if len(chunk.frames) == 0:
                self._backlog.popleft()
                if chunk.total is not None:
                    self._tell(ItemQueued(chunk.item_id, chunk.total))

    def _write(self, chunk: _Chunk, n: int, samples: int) -> bool:
        if chunk.generation != self.playout.generation:
            self._backlog.popleft()
            self._tell(AudioFenced(chunk.item_id, chunk.samples))
            return False
        self._journal(append_record(chunk.item_id, n, samples))
        starts = self._starts_run(chunk.item_id)
        taken = self.playout.write(chunk.generation, chunk.frames[:n], starts) if n else 0
        if taken == STALE or taken != n:
            raise AssertionError(f"the queue took {taken} of {n} frames it had room for")
        self._tell(AudioQueued(chunk.item_id, n, samples))
        return True
