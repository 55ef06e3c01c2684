"""Speaks items of the coded signal into a rig, and reads the card's tape."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from handset.bench.analyse import Queued, Reading, read
from handset.bench.rig import Rig
from handset.core.item import Item
from handset.core.ledger import Cut
from handset.core.messages import Cause
from handset.fakes.virtual_card import VirtualCard

PATIENCE_S = 20.0

MakeCard = Callable[..., VirtualCard]


class Voice:
    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.start = rig.card.sync()
        self.said: list[tuple[Item, int]] = []
        self.cuts: list[Cut] = []

    def say(self, tag: int, frames: int, ends: bool = True) -> Item:
        ledger = self.rig.ledger
        item = ledger.announce(f"item-{tag}", "response", 0, 1, ledger.timing.rate)
        self.said.append((item, tag))
        self.more(item, frames)
        if ends:
            ledger.end(item.item_id, frames)
        return item

    def more(self, item: Item, frames: int) -> None:
        tag = next(tag for each, tag in self.said if each is item)
        assert self.rig.write(item, tag, frames) == frames

    def clear(self, at_ns: int | None = None) -> Cut:
        """Asks for a clear and waits for its answer."""
        at_ns = time.monotonic_ns() if at_ns is None else at_ns
        number = self.rig.queue.clear()
        assert self.rig.ledger.clear(Cause("gesture", at_ns)) == number
        self.until(lambda: self.rig.ledger.answered == number)
        return self.cuts[-1]

    def until(self, condition: Callable[[], bool]) -> None:
        """Looks at the queue until it holds."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            self.cuts += self.rig.look()
            if condition():
                return
            assert time.monotonic() < deadline, "the condition never held"
            time.sleep(0.001)

    def until_handed(self, item: Item, frames: int) -> None:
        self.until(lambda: item.handed >= frames)

    def until_silent(self) -> None:
        def settled() -> bool:
            self.rig.ledger.finished(time.monotonic_ns())
            return not self.rig.ledger.items

        self.until(settled)

    def samples(self, extra: int = 0) -> tuple[int, np.ndarray]:
        """The tape since the beginning, up to ``extra`` frames from now."""
        end = self.rig.card.now_frame() + extra
        self.rig.card.wait_committed(end)
        return self.start, self.rig.card.record(self.start, end).samples

    def reading(self, extra: int = 0) -> Reading:
        start, samples = self.samples(extra)
        queued = [Queued(tag, item.frames) for item, tag in self.said]
        return read(samples, start, queued, self.rig.curve)
