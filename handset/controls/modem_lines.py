"""A wired button on a modem-control line of a serial adapter: CTS, DSR, DCD or RI.

Two wires and no microcontroller: the button closes an output (RTS, DTR, which are driven)
to an input. An output that is not needed for that can be a lamp.

Every adapter can be asked for its lines, which is done every 2 ms. Some do better: a thread
sleeps in TIOCMIWAIT until a line changes, and TIOCGICOUNT says how often it has, so that a
pulse between two looks is not missed: it is told as a pair of edges. What a driver promises
is not what it does (cp210x has the counters and never counts lines with them), so a line
is read every 2 ms until its counter was seen to move. ``how`` says which it is. RI is always
read: a UART counts one of its two edges only.
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
from typing import Protocol

from handset.core.keys import Key
from handset.errors import DeviceError
from handset.ports import Controls

from .line_lamp import LineLamp
from .serial_ports import close_port, open_port
from .watching import Watcher

TIOCMIWAIT, TIOCGICOUNT = 0x545C, 0x545D
LINES = {"cts": 0x020, "dcd": 0x040, "ri": 0x080, "dsr": 0x100}
"""TIOCM_* bits."""
_COUNTED = ("cts", "dsr", "ri", "dcd")
"""The first four of ``struct serial_icounter_struct``, in its order."""
_ICOUNT = struct.Struct("@20i")
_NOT_THERE = frozenset({errno.ENOTTY, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP})
_GONE = frozenset({errno.EIO, errno.ENODEV, errno.ENXIO, errno.EBADF, errno.ENOTTY})
POLL_S, LOOK_S = 0.002, 0.05
TRIES, TRY_S = 5, 0.02
"""A request over USB can fail once, near a motor, without the adapter being gone."""
MOST = 1_000
"""Edges between two looks. More of them is a line with nothing on it."""
BEHIND = 8
"""By how many edges a counter may lag behind the line before it counts for nothing."""
POLLED, WOKEN = "read every 2 ms", "kernel wake-up and counter"


@dataclass(frozen=True, slots=True)
class LineButton:
    """``active``: whether the line is on while the button is down."""

    line: str
    key: Key = Key.TALK
    active: bool = True


class Port(Protocol):
    """An open port as the button sees it. Each raises OSError when it is gone."""

    def lines(self) -> int: ...

    def changes(self) -> dict[str, int] | None: ...

    def wait(self, mask: int) -> None: ...

    def drive(self, line: str, on: bool) -> None: ...

    def close(self) -> None: ...


class ModemPort:
    """A serial port of the kernel. RTS and DTR are on: the button's supply."""

    def __init__(self, name: str) -> None:
        self._port = open_port(name)
        try:
            self.drive("rts", True)
            self.drive("dtr", True)
            self.lines()
        except OSError as error:
            close_port(self._port)
            if error.errno in _NOT_THERE:
                raise DeviceError(f"{self._port.port} has no modem-control lines") from error
            raise

    def lines(self) -> int:
        bits = array.array("i", [0])
        fcntl.ioctl(self._port.fileno(), termios.TIOCMGET, bits)
        return bits[0]

    def changes(self) -> dict[str, int] | None:
        """How often each line has changed; None where the driver does not count."""
        try:
            counts = fcntl.ioctl(self._port.fileno(), TIOCGICOUNT, bytes(_ICOUNT.size))
        except OSError as error:
            if error.errno in _NOT_THERE:
                return None
            raise
        return dict(zip(_COUNTED, _ICOUNT.unpack(counts), strict=False))

    def wait(self, mask: int) -> None:
        """Until one of the lines changes. OSError where the driver can't."""
        fcntl.ioctl(self._port.fileno(), TIOCMIWAIT, mask)

    def drive(self, line: str, on: bool) -> None:
        setattr(self._port, line, on)

    def close(self) -> None:
        close_port(self._port)


class ModemLines:
    """The buttons of one port, read by :class:`Watcher`'s thread. A lamp on an output of
    the port is driven by the same."""

    def __init__(
        self,
        name: str,
        port: Port,
        buttons: tuple[LineButton, ...],
        controls: Controls,
        lamp: LineLamp | None = None,
    ) -> None:
        self._name = name
        self._port = port
        self._buttons = buttons
        self._controls = controls
        self._lamp = lamp
        self._lit: bool | None = None
        try:
            self._lines = port.lines()
            counts = port.changes()
        except BaseException:
            port.close()
            raise
        self._told = {
            button.line: counts[button.line]
            for button in buttons
            if counts is not None and button.line != "ri"
        }
        """By line whose counter is believed: the count up to which edges were told."""
        self._begin = dict(self._told)
        self._counting: set[str] = set()
        """Lines whose counter was seen to move."""
        self._waking = bool(self._told)
        self._lock = threading.Lock()
        """One look at a time: the waiting thread and the reading one share what was seen."""

    def keys_down(self) -> frozenset[Key]:
        return frozenset(b.key for b in self._buttons if self._is_down(b, self._lines))

    @property
    def woken(self) -> bool:
        """Every line is one that wakes us, so that looking now and then is enough."""
        return self._waking and all(b.line in self._counting for b in self._buttons)

    def read(self, stop: threading.Event) -> None:
        how = ""
        if self._waking:
            threading.Thread(target=self._wake, args=(stop,), daemon=True).start()
        while True:
            if how != (new := WOKEN if self.woken else POLLED):
                how = new
                self._controls.fact(self._name, "how", how)
            if stop.wait(LOOK_S if self.woken else POLL_S):
                return
            self._patiently(stop)
            self._light()

    def _patiently(self, stop: threading.Event) -> None:
        for left in reversed(range(TRIES)):
            try:
                return self._look()
            except OSError as error:
                if not left or error.errno in _GONE or error.errno is None:
                    raise
            stop.wait(TRY_S)

    def _wake(self, stop: threading.Event) -> None:
        mask = sum({LINES[button.line] for button in self._buttons})
        try:
            while not stop.is_set():
                self._port.wait(mask)
                self._look()
        except OSError:
            self._waking = False  # the reader finds out why, and looks more often

    def _look(self) -> None:
        with self._lock:
            at_ns = time.monotonic_ns()
            # In this order: an edge between the two is in the counter, and is told when the
            # line is next seen to agree.
            lines, changes = self._port.lines(), self._port.changes()
            before, self._lines = self._lines, lines
            for button in self._buttons:
                was, now = self._is_down(button, before), self._is_down(button, lines)
                for n in range(self._edges(button.line, was != now, changes)):
                    down = was ^ (n % 2 == 0)
                    self._controls.level(self._name, button.key, down, at_ns)

    def _edges(self, line: str, moved: bool, changes: dict[str, int] | None) -> int:
        """How many to tell: odd when the line is another now, even when it is the same."""
        if changes is None or line not in self._told:
            return int(moved)
        ahead = (changes[line] - self._told[line] + (1 << 31)) % (1 << 32) - (1 << 31)
        if ahead < -BEHIND or ahead > MOST:
            # It does not count this line, or counts what nobody's hand does.
            del self._told[line]
            self._counting.discard(line)
            if ahead > 0:
                self._controls.fact(
                    self._name,
                    "problem",
                    f"line {line} changed {ahead} times in a moment; is anything connected to it?",
                )
            return int(moved)
        if changes[line] != self._begin[line]:
            self._counting.add(line)
        edges = max(int(moved), ahead - (ahead - moved) % 2)
        self._told[line] += edges
        return edges

    def _light(self) -> None:
        if self._lamp is not None:
            lit = self._lamp.lit(time.monotonic_ns())
            if lit != self._lit:
                self._port.drive(self._lamp.line, lit)
                self._lit = lit

    @staticmethod
    def _is_down(button: LineButton, lines: int) -> bool:
        return bool(lines & LINES[button.line]) == button.active

    def close(self) -> None:
        self._port.close()


def watch(
    name: str,
    port: str,
    buttons: tuple[LineButton, ...],
    controls: Controls,
    lamp: LineLamp | None = None,
) -> Watcher:
    """Buttons on ``port`` (a USB id or a path), for as long as it is there."""

    def opened() -> ModemLines:
        return ModemLines(name, ModemPort(port), buttons, controls, lamp)

    return Watcher(name, controls, opened)
