"""A hand that notes what a control told it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from handset.core.messages import CommitSource


class Hand:
    """Takes edges; ``until`` waits for a condition on them."""

    def __init__(self) -> None:
        self.edges: list[tuple[str, int]] = []
        self.sources: list[CommitSource] = []
        self._changed = asyncio.Event()

    def _note(self, what: str, at_ns: int) -> None:
        self.edges.append((what, at_ns))
        self._changed.set()

    def press(self, at_ns: int, source: CommitSource = "ptt") -> None:
        self.sources.append(source)
        self._note("press", at_ns)

    def release(self, at_ns: int) -> None:
        self._note("release", at_ns)

    def control_lost(self, at_ns: int) -> None:
        self._note("lost", at_ns)

    @property
    def words(self) -> list[str]:
        return [what for what, _ in self.edges]

    async def until(self, met: Callable[[], bool]) -> None:
        async with asyncio.timeout(10):
            while not met():
                self._changed.clear()
                await self._changed.wait()
