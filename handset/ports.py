"""What adapters need of the application, in one to four methods."""

from __future__ import annotations

from typing import Protocol

from handset.core.keys import Key
from handset.core.lamp import Pattern


class Controls(Protocol):
    """Takes what controls say. Never blocks, loses nothing, callable from any thread.

    ``control`` names the device, the same in every call. Times are CLOCK_MONOTONIC in ns,
    taken as near the hardware as can be had.
    """

    def level(self, control: str, key: Key, down: bool, at_ns: int) -> None:
        """A contact changed, bounces included: nothing is filtered before this."""

    def lost(self, control: str, at_ns: int, reason: str) -> None:
        """Unplugged, dead, or unreadable."""

    def back(self, control: str, at_ns: int, down: frozenset[Key]) -> None:
        """There, for the first time or again, with these keys down now."""

    def fact(self, control: str, name: str, value: int | str) -> None:
        """Anything else worth telling: ``battery``, ``problem``."""


class Lamp(Protocol):
    def show(self, pattern: Pattern) -> None:
        """From now on. Idempotent, never blocks."""
