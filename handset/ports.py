"""What adapters need of the application, in one to three methods."""

from __future__ import annotations

from typing import Protocol

from handset.core.messages import CommitSource


class Talk(Protocol):
    """Takes the edges of a talk control, each with its CLOCK_MONOTONIC time in ns."""

    def press(self, at_ns: int, source: CommitSource = "ptt") -> None: ...

    def release(self, at_ns: int) -> None: ...

    def control_lost(self, at_ns: int) -> None: ...
