"""A thread that has a device open for as long as it is there, and looks for it while it is
not: opened by name again and again, with waits of 0.2 to 2 s.

``lost`` and ``back`` are told once each; a device that is there from the start is ``back``.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Protocol

from handset.core.keys import Key
from handset.errors import DeviceError
from handset.ports import Controls

FIRST_WAIT_S, LONGEST_WAIT_S = 0.2, 2.0


class Device(Protocol):
    """``read`` serves the device until it is gone (``OSError``, ``DeviceError``) or stopped."""

    def keys_down(self) -> frozenset[Key]: ...

    def read(self, stop: threading.Event) -> None: ...

    def close(self) -> None: ...


class Watcher:
    """``open_device()`` raises DeviceError while it is not there."""

    def __init__(self, name: str, controls: Controls, open_device: Callable[[], Device]) -> None:
        self.name = name
        self._controls = controls
        self._open = open_device
        self._stop = threading.Event()
        self._problem = ""
        self._thread = threading.Thread(target=self._run, name=f"control {name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Ends the thread. A control that is closed is not lost."""
        self._stop.set()
        self._thread.join(timeout=5)

    def _run(self) -> None:
        wait = FIRST_WAIT_S
        while not self._stop.is_set():
            try:
                device = self._open()
            except (DeviceError, OSError) as error:
                self._tell_problem(str(error))
                self._stop.wait(wait)
                wait = min(wait * 2, LONGEST_WAIT_S)
                continue
            wait, self._problem = FIRST_WAIT_S, ""
            self._serve(device)

    def _serve(self, device: Device) -> None:
        reason = ""
        try:
            self._controls.back(self.name, time.monotonic_ns(), device.keys_down())
            device.read(self._stop)
        except (DeviceError, OSError) as error:
            reason = str(error) or type(error).__name__
        finally:
            device.close()
        if not self._stop.is_set():
            self._controls.lost(self.name, time.monotonic_ns(), reason or "it ended")

    def _tell_problem(self, problem: str) -> None:
        if problem != self._problem:
            self._problem = problem
            self._controls.fact(self.name, "problem", problem)
