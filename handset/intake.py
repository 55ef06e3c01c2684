"""From the threads of controls to the one thread of the application, losing nothing.

A control's callback appends to a queue and rings a bell; it never waits. How late the
application takes it out changes nothing: each edge carries its own time.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable

from handset.core import events as ev
from handset.core.keys import Key
from handset.core.messages import Estimate

SampleAt = Callable[[int], Estimate | None]


class Intake:
    """A :class:`handset.ports.Controls`. ``wake_fd``: an eventfd, or -1 for none."""

    def __init__(self, wake_fd: int = -1) -> None:
        self._wake_fd = wake_fd
        self._queue: deque[ev.KeyLevel | ev.ControlGone | ev.ControlThere | ev.ControlTold] = (
            deque()
        )

    def _put(self, event: ev.KeyLevel | ev.ControlGone | ev.ControlThere | ev.ControlTold) -> None:
        self._queue.append(event)  # atomic in every Python, and unbounded on purpose
        if self._wake_fd >= 0:
            os.eventfd_write(self._wake_fd, 1)

    def level(self, control: str, key: Key, down: bool, at_ns: int) -> None:
        self._put(ev.KeyLevel(control, key, down, at_ns))

    def lost(self, control: str, at_ns: int, reason: str) -> None:
        self._put(ev.ControlGone(control, at_ns, reason))

    def back(self, control: str, at_ns: int, down: frozenset[Key]) -> None:
        self._put(ev.ControlThere(control, at_ns, down))

    def fact(self, control: str, name: str, value: int | str) -> None:
        self._put(ev.ControlTold(control, name, value))

    def drain(self, sample_at: SampleAt) -> list[ev.Event]:
        """Everything told so far, in order, each edge with its place in the capture."""
        taken: list[ev.Event] = []
        while self._queue:
            event = self._queue.popleft()
            if isinstance(event, ev.KeyLevel):
                sample = sample_at(event.at_ns)
                event = ev.KeyLevel(event.control, event.key, event.down, event.at_ns, sample)
            taken.append(event)
        return taken
