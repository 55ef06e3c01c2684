"""A puck on a pseudo terminal: firmware, cable and hand in one, with the faults of each.

``loss`` and ``garble``: of all lines, the part that is swallowed, or has a byte changed.
The lamp's lines that it got are in ``lamps``.
"""

from __future__ import annotations

import os
import random
import threading
import time
import tty
from collections.abc import Sequence

from handset.core.keys import Key
from handset.core.puck_lines import crc8, line

BEAT_S = 0.2


class FakePuck:
    """``path`` is what to open. Its thread answers and beats until ``die`` or ``unplug``."""

    def __init__(
        self,
        keys: Sequence[Key] = (Key.TALK,),
        *,
        loss: float = 0.0,
        garble: float = 0.0,
        seed: int = 1,
        started_ns: int | None = None,
    ) -> None:
        self.keys = list(keys)
        self.lamps: list[str] = []
        self._counts = [0] * len(self.keys)
        self._loss, self._garble = loss, garble
        self._random = random.Random(seed)
        self._started_ns = time.monotonic_ns() if started_ns is None else started_ns
        self._ours, theirs = os.openpty()
        tty.setraw(self._ours)
        tty.setraw(theirs)
        self.path = os.ttyname(theirs)
        self._theirs = theirs
        self._lock = threading.Lock()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._live, daemon=True)
        self._thread.start()

    # ---- the hand

    def press(self, key: Key = Key.TALK, down: bool = True) -> None:
        """One edge. A press of what is down is none."""
        index = self.keys.index(key)
        with self._lock:
            if (self._counts[index] % 2 == 1) == down:
                return
            self._counts[index] = (self._counts[index] + 1) % 256
            self._say(self._state())

    def release(self, key: Key = Key.TALK) -> None:
        self.press(key, down=False)

    def battery(self, percent: int) -> None:
        with self._lock:
            self._say(f"B {percent}")

    def noise(self, data: bytes) -> None:
        """Bytes that no puck would send."""
        os.write(self._ours, data)

    # ---- its ends

    def die(self) -> None:
        """It says nothing any more; the cable stays."""
        self._end.set()
        self._thread.join()

    def unplug(self) -> None:
        self.die()
        for fd in (self._ours, self._theirs):
            if fd >= 0:
                os.close(fd)
        self._ours = self._theirs = -1

    # ---- inside

    def _state(self) -> str:
        ms = (time.monotonic_ns() - self._started_ns) // 1_000_000 % (1 << 32)
        return f"K {ms} {' '.join(map(str, self._counts))}"

    def _say(self, body: str) -> None:
        data = bytearray(line(body))
        if self._random.random() < self._loss:
            return
        if self._random.random() < self._garble:
            data[self._random.randrange(len(data) - 1)] ^= 1 << self._random.randrange(7)
        os.write(self._ours, bytes(data))

    def _live(self) -> None:
        os.set_blocking(self._ours, False)
        rest, beat = b"", 0.0
        while not self._end.is_set():
            if time.monotonic() >= beat:
                beat = time.monotonic() + BEAT_S
                with self._lock:
                    self._say(self._state())
            try:
                rest += os.read(self._ours, 4096)
            except (BlockingIOError, OSError):
                self._end.wait(0.005)
                continue
            *lines, rest = rest.split(b"\n")
            for each in lines:
                self._heard(each)

    def _heard(self, raw: bytes) -> None:
        body, _, check = raw.rpartition(b"*")
        if check != f"{crc8(body):02X}".encode():
            return
        if body == b"?":
            with self._lock:
                self._say(f"H 1 fake {','.join(self.keys)}")
                self._say(self._state())
        elif body.startswith(b"L "):
            self.lamps.append(body.decode())
