"""A hand that notes what a control told it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from handset.core.keys import Key


class Hand:
    """A :class:`handset.ports.Controls` on the loop's thread; ``until`` waits for a condition
    on what it was told. ``edges``: of the talk key, and the end of the control."""

    def __init__(self) -> None:
        self.edges: list[tuple[str, int]] = []
        self.keys: list[tuple[Key, bool]] = []
        """Edges of the other keys."""
        self.there = 0
        self._changed = asyncio.Event()

    def level(self, control: str, key: Key, down: bool, at_ns: int) -> None:
        if key is Key.TALK:
            self.edges.append(("press" if down else "release", at_ns))
        else:
            self.keys.append((key, down))
        self._changed.set()

    def lost(self, control: str, at_ns: int, reason: str) -> None:
        assert reason
        self.edges.append(("lost", at_ns))
        self._changed.set()

    def back(self, control: str, at_ns: int, down: frozenset[Key]) -> None:
        assert not down
        self.there += 1

    def fact(self, control: str, name: str, value: int | str) -> None:
        raise AssertionError(f"{control} told {name} = {value!r}")

    @property
    def words(self) -> list[str]:
        return [what for what, _ in self.edges]

    async def until(self, met: Callable[[], bool]) -> None:
        async with asyncio.timeout(10):
            while not met():
                self._changed.clear()
                await self._changed.wait()
