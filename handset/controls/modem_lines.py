"""A wired button on a modem-control line of a serial adapter: CTS, DSR, DCD or RI.

Two wires and no microcontroller: the button closes an output (RTS, DTR, which are driven)
to an input. Where the driver can, a thread sleeps in TIOCMIWAIT until a line changes, and
TIOCGICOUNT says how often it has, so that a pulse between two looks is not missed: it is
told as a pair of edges. Elsewhere the lines are read every 2 ms; ``how`` says which it is.
"""

from __future__ import annotations

import array
import errno
import fcntl
import struct
import termios
import threading
import time
from dataclasses import dataclass

from handset.core.keys import Key
from handset.ports import Controls

from .serial_ports import open_port
from .watching import Watcher

TIOCMIWAIT, TIOCGICOUNT = 0x545C, 0x545D
LINES = {"cts": 0x020, "dcd": 0x040, "ri": 0x080, "dsr": 0x100}
"""TIOCM_* bits."""
_COUNTED = ("cts", "dsr", "ri", "dcd")
"""The first four of ``struct serial_icounter_struct``, in its order."""
_ICOUNT = struct.Struct("@20i")
POLL_S, LOOK_S = 0.002, 0.05


@dataclass(frozen=True, slots=True)
class LineButton:
    """``active``: whether the line is on while the button is down."""

    line: str
    key: Key = Key.TALK
    active: bool = True


class ModemPort:
    """An open port as the button sees it; a fake one stands in its place in tests."""

    def __init__(self, name: str) -> None:
        self._port = open_port(name)
        self._port.rts = self._port.dtr = True

    def lines(self) -> int:
        bits = array.array("i", [0])
        fcntl.ioctl(self._port.fileno(), termios.TIOCMGET, bits)
        return bits[0]

    def changes(self) -> dict[str, int] | None:
        """How often each line has changed; None where the driver does not count."""
        try:
            counts = fcntl.ioctl(self._port.fileno(), TIOCGICOUNT, bytes(_ICOUNT.size))
        except OSError as error:
            if error.errno in (errno.ENOTTY, errno.EINVAL, errno.ENOSYS):
                return None
            raise
        return dict(zip(_COUNTED, _ICOUNT.unpack(counts), strict=False))

    def wait(self, mask: int) -> None:
        """Until one of the lines changes, or a signal comes."""
        fcntl.ioctl(self._port.fileno(), TIOCMIWAIT, mask)

    def close(self) -> None:
        self._port.close()


class ModemLines:
    """The buttons of one port, read by :class:`Watcher`'s thread."""

    def __init__(
        self, name: str, port: ModemPort, buttons: tuple[LineButton, ...], controls: Controls
    ) -> None:
        self._name = name
        self._port = port
        self._buttons = buttons
        self._controls = controls
        self._lines = port.lines()
        self._changes = port.changes()
        self._lock = threading.Lock()
        """One look at a time: the waiting thread and the reading one share what was seen."""

    def keys_down(self) -> frozenset[Key]:
        return frozenset(b.key for b in self._buttons if self._is_down(b, self._lines))

    def read(self, stop: threading.Event) -> None:
        how = "kernel wake-up and counter" if self._changes is not None else "read every 2 ms"
        self._controls.fact(self._name, "how", how)
        if self._changes is not None:
            # TIOCMIWAIT sleeps until a line changes; this thread looks whether to stop, and
            # at the counters, so nothing is missed between two sleeps either.
            threading.Thread(target=self._wake, args=(stop,), daemon=True).start()
        while not stop.wait(POLL_S if self._changes is None else LOOK_S):
            self._look()

    def _wake(self, stop: threading.Event) -> None:
        mask = sum(LINES[button.line] for button in self._buttons)
        while not stop.is_set():
            try:
                self._port.wait(mask)
            except OSError:
                return  # the reader finds out why
            self._look()

    def _look(self) -> None:
        with self._lock:
            at_ns = time.monotonic_ns()
            lines, changes = self._port.lines(), self._port.changes()
            before, self._lines = self._lines, lines
            counted, self._changes = self._changes, changes
            for button in self._buttons:
                was, now = self._is_down(button, before), self._is_down(button, lines)
                seen = 1 if was != now else 0
                if counted is not None and changes is not None:
                    times = (changes[button.line] - counted[button.line]) & 0xFFFFFFFF
                    seen = max(seen, times if times % 2 == seen else seen)
                for n in range(seen):
                    down = was ^ (n % 2 == 0)
                    self._controls.level(self._name, button.key, down, at_ns)

    @staticmethod
    def _is_down(button: LineButton, lines: int) -> bool:
        return bool(lines & LINES[button.line]) == button.active

    def close(self) -> None:
        self._port.close()


def watch(name: str, port: str, buttons: tuple[LineButton, ...], controls: Controls) -> Watcher:
    """Buttons on ``port`` (a USB id or a path), for as long as it is there."""
    return Watcher(name, controls, lambda: ModemLines(name, ModemPort(port), buttons, controls))
