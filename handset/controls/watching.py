"""A thread that has a device open for as long as it is there, and looks for it while it is
not: opened by name again and again, with waits of 0.2 to 2 s.

``lost`` and ``back`` are told once each; a device that is there from the start is ``back``.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Protocol

from handset.core.keys import Key
from handset.errors import DeviceError
from handset.ports import Controls

log = logging.getLogger(__name__)

FIRST_WAIT_S, LONGEST_WAIT_S = 0.2, 2.0
SETTLED_S = 5.0
"""One that stayed for so long is looked for soon when it goes; one that comes and goes at
once is not, or a broken plug would fill the journal."""


class Device(Protocol):
    """``read`` serves the device until it is gone (``OSError``, ``DeviceError``) or stopped."""

    def keys_down(self) -> frozenset[Key]: ...

    def read(self, stop: threading.Event) -> None: ...

    def close(self) -> None: ...


class Watcher:
    """``open_device()`` raises DeviceError while it is not there. ``stop``: set by ``close``."""

    def __init__(self, name: str, controls: Controls, open_device: Callable[[], Device]) -> None:
        self.name = name
        self.stop = threading.Event()
        self._controls = controls
        self._open = open_device
        self._problem = ""
        self._thread = threading.Thread(target=self._run, name=f"control {name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Ends the thread. A control that is closed is not lost."""
        self.stop.set()
        self._thread.join(timeout=5)

    def _run(self) -> None:
        wait = FIRST_WAIT_S
        while not self.stop.is_set():
            try:
                device = self._open()
            except (DeviceError, OSError) as error:
                self._tell_problem(str(error) or type(error).__name__)
            except Exception as error:
                log.exception("control %s: it can't be opened", self.name)
                self._tell_problem(f"{type(error).__name__}: {error}")
            else:
                self._problem = ""
                began = time.monotonic()
                self._serve(device)
                if time.monotonic() - began > SETTLED_S:
                    wait = FIRST_WAIT_S
            self.stop.wait(wait)
            wait = min(wait * 2, LONGEST_WAIT_S)

    def _serve(self, device: Device) -> None:
        reason = ""
        try:
            self._controls.back(self.name, time.monotonic_ns(), device.keys_down())
            device.read(self.stop)
        except (DeviceError, OSError) as error:
            reason = str(error) or type(error).__name__
        except Exception as error:
            # Whatever went wrong, nobody reads its keys now, and that must be told.
            log.exception("control %s: it can't be read", self.name)
            reason = f"{type(error).__name__}: {error}"
        finally:
            device.close()
        if not self.stop.is_set():
            self._controls.lost(self.name, time.monotonic_ns(), reason or "it ended")

    def _tell_problem(self, problem: str) -> None:
        if problem != self._problem:
            self._problem = problem
            self._controls.fact(self.name, "problem", problem)
