"""Controls that note everything, from any thread, and wait for a condition on it."""

from __future__ import annotations

import threading
from collections.abc import Callable

from handset.core.keys import Key

PATIENCE_S = 20


class Recorder:
    """A :class:`handset.ports.Controls`."""

    def __init__(self) -> None:
        self.levels: list[tuple[str, Key, bool, int]] = []
        self.life: list[tuple[str, str]] = []
        """``lost`` with its reason, ``back`` with the keys that are down."""
        self.facts: list[tuple[str, str, int | str]] = []
        self._changed = threading.Condition()

    def level(self, control: str, key: Key, down: bool, at_ns: int) -> None:
        with self._changed:
            self.levels.append((control, key, down, at_ns))
            self._changed.notify_all()

    def lost(self, control: str, at_ns: int, reason: str) -> None:
        with self._changed:
            self.life.append(("lost", reason))
            self._changed.notify_all()

    def back(self, control: str, at_ns: int, down: frozenset[Key]) -> None:
        with self._changed:
            self.life.append(("back", ",".join(sorted(down))))
            self._changed.notify_all()

    def fact(self, control: str, name: str, value: int | str) -> None:
        with self._changed:
            self.facts.append((control, name, value))
            self._changed.notify_all()

    def edges(self, key: Key = Key.TALK) -> list[bool]:
        return [down for _, each, down, _ in self.levels if each is key]

    def said(self, name: str) -> list[int | str]:
        return [value for _, each, value in self.facts if each == name]

    def until(self, met: Callable[[], bool]) -> None:
        with self._changed:
            assert self._changed.wait_for(met, PATIENCE_S), (self.life, self.facts[-5:])
