"""A lamp of one LED on RTS or DTR of a serial adapter, which nothing else needs then.

It has no thread: whoever reads the port's buttons asks it, 20 times a second or more.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from handset.core.lamp import Pattern
from handset.errors import UsageError

from .led import DARK, MIX, phase

OUTPUTS = ("rts", "dtr")


class LineLamp:
    """A :class:`handset.ports.Lamp`. ``active``: whether the output is on while it is lit."""

    def __init__(
        self, line: str, active: bool = True, clock: Callable[[], int] = time.monotonic_ns
    ) -> None:
        if line not in OUTPUTS:
            raise UsageError(
                f"lamp on line {line!r}: it is one of {' and '.join(OUTPUTS)}, the outputs"
            )
        self.line = line
        self._active = active
        self._clock = clock
        self._shown: tuple[Pattern, int] = (DARK, 0)
        """With its begin. One reference, so that a reader never sees half a change."""

    def show(self, pattern: Pattern) -> None:
        """From its first step on. The pattern that is shown goes on undisturbed."""
        if pattern != self._shown[0]:
            self._shown = (pattern, self._clock())

    def lit(self, now_ns: int) -> bool:
        """What the output is to be."""
        pattern, since_ns = self._shown
        lit, _ = phase(pattern, max(0, now_ns - since_ns))
        return (lit and bool(MIX.get(pattern.colour, True))) is self._active
