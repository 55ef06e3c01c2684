"""Why the speech lane is held, and what the queue is told when that changes.

Several reasons may hold it at once; it goes on when the last one is gone. A clear ends every
hold but that of a muted output, which is asked for again behind it: what is muted is not
handed into silence.
"""

from __future__ import annotations

from enum import StrEnum

from handset.core.events import Effect, HoldPlayout, ResumePlayout


class Hold(StrEnum):
    PRESS = "press"
    SUSPICION = "suspicion"
    WORDS = "words"
    """Of a notice, over a reply: it is ducked."""
    MUTED = "muted"


class Holds:
    def __init__(self) -> None:
        self._ducks: dict[Hold, bool] = {}
        """Each reason in effect, and whether it only ducks."""

    def __contains__(self, hold: Hold) -> bool:
        return hold in self._ducks

    @property
    def paused(self) -> bool:
        return bool(self._ducks) and not all(self._ducks.values())

    def hold(self, why: Hold, duck: bool) -> list[Effect]:
        before = self._mode()
        self._ducks[why] = duck
        return self._change(before)

    def release(self, why: Hold) -> list[Effect]:
        before = self._mode()
        self._ducks.pop(why, None)
        return self._change(before)

    def cleared(self) -> list[Effect]:
        """A clear of the queue was asked for: the queue holds nothing back any more."""
        self._ducks = {why: duck for why, duck in self._ducks.items() if why is Hold.MUTED}
        return self._change("")

    def new_queue(self) -> list[Effect]:
        """Another device, with a queue that nothing holds yet."""
        return self._change("")

    def _mode(self) -> str:
        if not self._ducks:
            return ""
        return "pause" if self.paused else "duck"

    def _change(self, before: str) -> list[Effect]:
        mode = self._mode()
        if mode == before:
            return []
        return [HoldPlayout(duck=mode == "duck")] if mode else [ResumePlayout()]
