"""A serial adapter with a button on one of its modem-control lines, which bounces.

Adapters differ, and so does this one. ``counts``: the driver has TIOCGICOUNT. ``dumb``: it
has, but never counts a line with it (cp210x). ``waits``: it has TIOCMIWAIT. ``late``: the
counters are brought up to date by ``report`` only, after the line itself (ftdi_sio). RI counts,
and wakes, when it goes off only, as a UART's does.
"""

from __future__ import annotations

import errno
import threading
import time
from collections.abc import Callable

from handset.controls.modem_lines import LINES

from .contact import Contact

WAIT_S = 0.5


class FakeModemPort:
    """Stands in place of :class:`handset.controls.modem_lines.ModemPort`. ``edges``: how often
    each line has really changed."""

    def __init__(
        self,
        *,
        counts: bool = True,
        waits: bool = True,
        dumb: bool = False,
        late: bool = False,
        on: str = "",
        contact: Contact | None = None,
    ) -> None:
        self.edges = dict.fromkeys(LINES, 0)
        self.driven: list[tuple[str, bool]] = []
        self.closed = False
        self.dumb = dumb
        self.between: Callable[[], None] | None = None
        """Done once, after the lines were read and before the counters are."""
        self._bits = LINES[on] if on else 0
        self._has_counts, self._waits, self._late = counts, waits, late
        self._count = dict(self.edges)
        self._counted = dict(self.edges)
        self._contact = contact
        self._changed = threading.Condition()
        self._fails: list[int] = []

    # ---- the hand

    def set(self, line: str, on: bool) -> None:
        """The line is that now, after the contact has bounced, in real time."""
        levels = [(on, 0)] if self._contact is None else self._contact.edge(on, 0)
        began = time.monotonic_ns()
        for level, at_ns in levels:
            time.sleep(max(0, began + at_ns - time.monotonic_ns()) / 1e9)
            self._level(line, level)

    def pulse(self, line: str, times: int = 1) -> None:
        """So short that nobody who looks at the line sees it."""
        with self._changed:
            self.edges[line] += 2 * times
            self._tell(line, 2 * times)

    def glitch(self, line: str) -> None:
        """Shorter than the driver's own look: both edges are counted as one."""
        with self._changed:
            self._tell(line, 1)

    def report(self) -> None:
        """The adapter tells the driver of its lines."""
        with self._changed:
            self._report()

    def until(self, met: Callable[[], bool], patience_s: float = 20) -> None:
        """Waits for what is driven. ``TimeoutError`` when it does not come."""
        with self._changed:
            if not self._changed.wait_for(met, patience_s):
                raise TimeoutError(f"not driven so within {patience_s:g} s: {self.driven[-5:]}")

    def unplug(self) -> None:
        self.fail(*[errno.ENODEV] * 1_000)

    def fail(self, *errors: int) -> None:
        """The next requests end so."""
        with self._changed:
            self._fails += errors
            self._changed.notify_all()

    # ---- the driver

    def lines(self) -> int:
        with self._changed:
            self._fail()
            return self._bits

    def changes(self) -> dict[str, int] | None:
        with self._changed:
            between, self.between = self.between, None
            if between is not None:
                between()
            return dict(self._counted) if self._has_counts else None

    def wait(self, mask: int) -> None:
        with self._changed:
            if not self._waits:
                raise OSError(errno.ENOTTY, "Inappropriate ioctl for device")
            if not self._fails:
                self._changed.wait(WAIT_S)
            self._fail()

    def drive(self, line: str, on: bool) -> None:
        with self._changed:
            self.driven.append((line, on))
            self._changed.notify_all()

    def close(self) -> None:
        self.closed = True

    # ---- inside

    def _level(self, line: str, on: bool) -> None:
        with self._changed:
            if bool(self._bits & LINES[line]) != on:
                self._bits ^= LINES[line]
                self.edges[line] += 1
                if line != "ri" or not on:
                    self._tell(line, 1)

    def _tell(self, line: str, edges: int) -> None:
        if not self.dumb:
            self._count[line] += edges
            if not self._late:
                self._report()

    def _report(self) -> None:
        self._counted = dict(self._count)
        self._changed.notify_all()

    def _fail(self) -> None:
        if self._fails:
            number = self._fails.pop(0)
            raise OSError(number, errno.errorcode[number])
