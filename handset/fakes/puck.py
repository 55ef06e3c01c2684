"""A puck on a pseudo terminal: firmware, cable and hand in one, with the faults of each.

``loss`` and ``garble``: of all lines, the part that is swallowed, or has a bit changed.
``holes``: of all bytes, the part that the cable loses. The lamp's lines that it got are in
``lamps``.
"""

from __future__ import annotations

import contextlib
import os
import random
import threading
import time
import tty
from collections.abc import Sequence

from handset.core.keys import Key
from handset.core.puck_lines import crc16, line

BEAT_S = 0.2


class FakePuck:
    """``path`` is what to open. Its thread answers and beats until ``die`` or ``unplug``.
    ``deaf``: it never reads what is sent to it, and says hello by itself."""

    def __init__(
        self,
        keys: Sequence[Key] = (Key.TALK,),
        *,
        loss: float = 0.0,
        garble: float = 0.0,
        holes: float = 0.0,
        seed: int = 1,
        protocol: int = 1,
        deaf: bool = False,
    ) -> None:
        self.keys = list(keys)
        self.lamps: list[str] = []
        self.lost = 0
        """Lines that were harmed or swallowed."""
        self._counts = [0] * len(self.keys)
        self._loss, self._garble, self._holes = loss, garble, holes
        self._random = random.Random(seed)
        self._protocol = protocol
        self._deaf = deaf
        self._started_ns = time.monotonic_ns()
        self._ours, theirs = os.openpty()
        tty.setraw(self._ours)
        tty.setraw(theirs)
        os.set_blocking(self._ours, False)
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
        with self._lock:
            self._write(data)

    # ---- its ends

    def restart(self) -> None:
        """Its supply dipped: counters and clock begin anew; keys that are down stay down."""
        with self._lock:
            self._counts = [count % 2 for count in self._counts]
            self._started_ns = time.monotonic_ns()
            self.lamps.clear()
            self._hello()

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

    def _hello(self) -> None:
        self._say(f"H {self._protocol} fake {','.join(self.keys)}")
        self._say(self._state())

    def _say(self, body: str) -> None:
        data, whole = bytearray(line(body)), line(body)
        if self._random.random() < self._garble:
            data[self._random.randrange(len(data) - 1)] ^= 1 << self._random.randrange(7)
        if self._holes:
            data = bytearray(byte for byte in data if self._random.random() >= self._holes)
        if self._random.random() < self._loss:
            data.clear()
        self.lost += bytes(data) != whole
        self._write(bytes(data))

    def _write(self, data: bytes) -> None:
        try:
            os.write(self._ours, data)
        except BlockingIOError:
            self.lost += 1  # a serial line does not wait for who is slow

    def _live(self) -> None:
        rest, beat = b"", 0.0
        while not self._end.is_set():
            if time.monotonic() >= beat:
                beat = time.monotonic() + BEAT_S
                with self._lock:
                    self._hello() if self._deaf else self._say(self._state())
            with contextlib.suppress(OSError):  # nothing there, or nobody listens
                rest += b"" if self._deaf else os.read(self._ours, 4096)
            *lines, rest = rest.split(b"\n")
            for each in lines:
                self._heard(each)
            if not lines:
                self._end.wait(0.005)

    def _heard(self, raw: bytes) -> None:
        body, _, check = raw.rpartition(b"*")
        if check != f"{crc16(body):04X}".encode():
            return
        with self._lock:
            if body == b"?":
                self._hello()
            elif body.startswith(b"L "):
                self.lamps.append(body.decode())
