"""What competes with the audio while it is measured: a busy machine, and a held GIL."""

from __future__ import annotations

import ctypes
import random
import subprocess
import sys
import threading
from types import TracebackType
from typing import Self

_SPIN = "import os\nparent = os.getppid()\nwhile os.getppid() == parent: sum(range(1000))"


class BusyMachine:
    """``processes`` that each keep one core busy, until the end of the block."""

    def __init__(self, processes: int) -> None:
        self.processes = processes
        self._running: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        for _ in range(self.processes):
            self._running.append(subprocess.Popen([sys.executable, "-I", "-S", "-c", _SPIN]))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for process in self._running:
            process.kill()
        for process in self._running:
            process.wait()
        self._running.clear()


class HeldGil:
    """A thread that holds the GIL for ``stall_ms`` at a time, with pauses of up to twice that
    in between. What a slow C extension does to every other Python thread."""

    def __init__(self, stall_ms: float, seed: int = 0) -> None:
        self.stalls = 0
        self._stall_us = round(stall_ms * 1000)
        self._random = random.Random(seed)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="held-gil", daemon=True)
        # PyDLL, unlike CDLL, does not release the GIL around a call.
        self._sleep = ctypes.PyDLL(None).usleep

    def _run(self) -> None:
        while not self._over.wait(self._random.uniform(0, 2e-6 * self._stall_us)):
            self._sleep(self._stall_us)
            self.stalls += 1

    def __enter__(self) -> Self:
        if self._stall_us:
            self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()
        if self._stall_us:
            self._thread.join()
