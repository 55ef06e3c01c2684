"""Connections (epochs) of a session: when to connect, when a link is dead, when to try
again.

Rules:

1. One link at a time is current; what arrives on another one is ignored. Epoch numbers
   rise by one per attempt and are never used twice within a run.
2. A link is dead when the edge was not heard for ``silence``. The connection's own idea
   of its state comes half a minute too late and is only a hint.
3. A greeting that is not answered in ``greeting`` is a dead link as well.
4. Trying again never stops, with back-off and jitter, except where the same settings
   can't help (refused credential, wrong fingerprint): those wait the longest step.
5. A link loss is a fact about the link. It cancels nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

SECOND = 1_000_000_000


class SessionState(StrEnum):
    WAITING = "waiting"
    CONNECTING = "connecting"
    GREETING = "greeting"
    OPEN = "open"
    ENDED = "ended"


class SessionInput(StrEnum):
    DUE = "due"
    OPENED = "opened"
    WELCOME = "welcome"
    LOST = "lost"
    END = "end"


TABLE: dict[tuple[SessionState, SessionInput], SessionState] = {
    (SessionState.WAITING, SessionInput.DUE): SessionState.CONNECTING,
    (SessionState.WAITING, SessionInput.END): SessionState.ENDED,
    (SessionState.CONNECTING, SessionInput.OPENED): SessionState.GREETING,
    (SessionState.CONNECTING, SessionInput.LOST): SessionState.WAITING,
    (SessionState.CONNECTING, SessionInput.END): SessionState.ENDED,
    (SessionState.GREETING, SessionInput.WELCOME): SessionState.OPEN,
    (SessionState.GREETING, SessionInput.LOST): SessionState.WAITING,
    (SessionState.GREETING, SessionInput.END): SessionState.ENDED,
    (SessionState.OPEN, SessionInput.LOST): SessionState.WAITING,
    (SessionState.OPEN, SessionInput.END): SessionState.ENDED,
}


@dataclass(frozen=True, slots=True)
class SessionSettings:
    connect_ns: int = 10 * SECOND
    greeting_ns: int = 5 * SECOND
    silence_ns: int = 3 * SECOND
    ping_ns: int = SECOND // 2
    steps_ns: tuple[int, ...] = (SECOND // 4, SECOND, 2 * SECOND, 4 * SECOND, 10 * SECOND)


class Session:
    """``jitter`` gives a number in [0, 1) per retry; up to half a step is added."""

    def __init__(self, settings: SessionSettings, jitter: Callable[[], float]) -> None:
        self.settings = settings
        self.state = SessionState.WAITING
        self.epoch = 0
        self.session = ""
        self.token = ""
        self._jitter = jitter
        self._due_ns = 0
        self._since_ns = 0
        self._heard_ns = 0
        self._failures = 0

    @property
    def open(self) -> bool:
        return self.state is SessionState.OPEN

    @property
    def origin_epoch(self) -> int | None:
        """The epoch to name in events made now, None when there is no link."""
        return self.epoch if self.open else None

    def _step(self, what: SessionInput, now_ns: int) -> bool:
        following = TABLE.get((self.state, what))
        if following is None:
            return False
        self.state = following
        self._since_ns = self._heard_ns = now_ns
        return True

    def due(self, now_ns: int) -> bool:
        """Whether to connect now; if so the epoch has a new number."""
        if self.state is not SessionState.WAITING or now_ns < self._due_ns:
            return False
        self.epoch += 1
        return self._step(SessionInput.DUE, now_ns)

    def opened(self, epoch: int, now_ns: int) -> bool:
        return epoch == self.epoch and self._step(SessionInput.OPENED, now_ns)

    def welcome(self, epoch: int, session: str, token: str, now_ns: int) -> bool:
        """True when the session is open; :attr:`session` may have changed."""
        if epoch != self.epoch or not self._step(SessionInput.WELCOME, now_ns):
            return False
        self.session = session
        self.token = token
        self._failures = 0
        return True

    def heard(self, epoch: int, now_ns: int) -> bool:
        """Something came from the edge. False: not from the current link."""
        if epoch != self.epoch or self.state in (SessionState.WAITING, SessionState.ENDED):
            return False
        self._heard_ns = now_ns
        return True

    def lost(self, epoch: int, now_ns: int, permanent: bool = False) -> bool:
        if epoch != self.epoch or not self._step(SessionInput.LOST, now_ns):
            return False
        steps = self.settings.steps_ns
        step = steps[-1] if permanent else steps[min(self._failures, len(steps) - 1)]
        self._failures += 1
        self._due_ns = now_ns + step + int(step * self._jitter() / 2)
        return True

    def end(self, now_ns: int) -> None:
        self._step(SessionInput.END, now_ns)

    def dead(self, now_ns: int) -> str | None:
        """Why the current link must be given up, None while it is fine."""
        waited = now_ns - self._since_ns
        if self.state is SessionState.CONNECTING and waited > self.settings.connect_ns:
            return f"not connected after {waited // 1_000_000} ms"
        if self.state is SessionState.GREETING and waited > self.settings.greeting_ns:
            return f"no welcome after {waited // 1_000_000} ms"
        silent = now_ns - self._heard_ns
        if self.state is SessionState.OPEN and silent > self.settings.silence_ns:
            return f"nothing heard for {silent // 1_000_000} ms"
        return None
