"""The real path from a ledger to a card: what every loopback measurement drives."""

from __future__ import annotations

import contextlib
import os

import numpy as np
from numpy.typing import NDArray

from handset.audio import devices
from handset.audio.playout import Playout, PlayoutConfig, fade_gain
from handset.audio.stream import Stream, StreamSettings
from handset.bench.signals import coded
from handset.core.item import Item
from handset.core.ledger import Cut, Ledger
from handset.fakes.virtual_card import CardControl, Direction, EventKind


class Rig:
    """A playout queue with its stream on ``card`` and its ledger. Close it."""

    def __init__(self, card: CardControl, settings: StreamSettings, fade_ms: float = 5.0) -> None:
        self.card = card
        card.activate()
        devices.rescan()
        device = devices.find(card.device, "playback", card.asound_root)
        self.queue = Playout(PlayoutConfig(settings.rate, settings.channels, fade_ms=fade_ms))
        self.queue.lock_memory()
        try:
            self.stream = Stream.open(self.queue, device, settings, card.asound_root)
        except BaseException:
            self.queue.close()
            raise
        self.ledger = Ledger(self.stream.timing)
        self.curve: NDArray[np.int32] = np.array(
            [fade_gain(i, self.queue.fade) for i in range(self.queue.fade)], np.int32
        )
        self.underflows = 0

    def look(self) -> list[Cut]:
        """One look at the queue; the ledger checks every identity."""
        seen = self.queue.look()
        if seen is None:
            return []
        self.underflows = seen[0].underflows
        return self.ledger.update(*seen)

    def write(self, item: Item, tag: int, frames: int) -> int:
        """Queues the item's next frames; fewer when there is no room."""
        samples = coded(tag, item.frames, frames)
        starts = self.ledger.starts_run(item.item_id)
        taken = self.queue.write(self.ledger.generation, samples, starts)
        self.ledger.append(item.item_id, taken, taken)
        return taken

    def restarts(self) -> int:
        """Underruns of the playback stream that the card saw."""
        return len(self.card.events(EventKind.XRUN, direction=Direction.PLAYBACK))

    def close(self) -> None:
        self.stream.close()
        self.queue.close()


class Urgent:
    """Makes this thread real-time for a few microseconds, where that is permitted: what is
    measured is when the clear was called, not when the measuring thread was preempted."""

    def __enter__(self) -> None:
        with contextlib.suppress(PermissionError):
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(PermissionError):
            os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
