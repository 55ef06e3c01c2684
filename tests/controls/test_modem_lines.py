"""A button on a modem-control line: polled, or woken and counted by the driver."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from recorder import Recorder

from handset.controls.modem_lines import LINES, LineButton, ModemLines
from handset.controls.watching import Watcher
from handset.core.keys import Key


class Port:
    """The driver's side of a serial port. ``counts``: whether it has TIOCGICOUNT."""

    def __init__(self, counts: bool, on: str = "") -> None:
        self._bits = LINES[on] if on else 0
        self._counts = dict.fromkeys(LINES, 0) if counts else None
        self._changed = threading.Condition()
        self._gone = False

    def set(self, line: str, on: bool) -> None:
        with self._changed:
            if bool(self._bits & LINES[line]) != on:
                self._bits ^= LINES[line]
                if self._counts is not None:
                    self._counts[line] += 1
                self._changed.notify_all()

    def pulse(self, line: str) -> None:
        """So short that nobody who looks at the line sees it."""
        with self._changed:
            assert self._counts is not None
            self._counts[line] += 2
            self._changed.notify_all()

    def unplug(self) -> None:
        with self._changed:
            self._gone = True
            self._changed.notify_all()

    def lines(self) -> int:
        with self._changed:
            if self._gone:
                raise OSError(5, "Input/output error")
            return self._bits

    def changes(self) -> dict[str, int] | None:
        with self._changed:
            return None if self._counts is None else dict(self._counts)

    def wait(self, mask: int) -> None:
        with self._changed:
            self._changed.wait(0.5)
            if self._gone:
                raise OSError(5, "Input/output error")

    def close(self) -> None:
        pass


@contextmanager
def watched(port: Port, *buttons: LineButton) -> Iterator[Recorder]:
    told = Recorder()
    watcher = Watcher("wire", told, lambda: ModemLines("wire", port, buttons, told))  # type: ignore[arg-type]
    watcher.start()
    try:
        told.until(lambda: bool(told.said("how")))
        yield told
    finally:
        watcher.close()


@pytest.mark.parametrize("counts", [False, True])
@pytest.mark.parametrize("active", [False, True])
def test_press_and_release_with_either_polarity(counts: bool, active: bool) -> None:
    port = Port(counts, on="" if active else "cts")
    with watched(port, LineButton("cts", active=active)) as told:
        assert told.life == [("back", "")]
        for n in range(1, 21):
            port.set("cts", active == bool(n % 2))
            told.until(lambda n=n: len(told.levels) == n)
    assert told.edges() == [True, False] * 10
    assert told.said("how") == ["kernel wake-up and counter" if counts else "read every 2 ms"]


def test_a_pulse_between_two_looks_is_two_edges() -> None:
    port = Port(counts=True)
    with watched(port, LineButton("dsr"), LineButton("dcd", Key.CANCEL)) as told:
        port.pulse("dsr")
        told.until(lambda: len(told.levels) == 2)
        port.set("dcd", True)
        told.until(lambda: len(told.levels) == 3)
    assert told.edges() == [True, False]
    assert told.edges(Key.CANCEL) == [True]


def test_down_at_its_start_and_unplugged() -> None:
    port = Port(counts=False, on="cts")
    with watched(port, LineButton("cts")) as told:
        assert told.life == [("back", "talk")]
        port.unplug()
        told.until(lambda: bool(told.said("problem")))
        assert told.life[1] == ("lost", "[Errno 5] Input/output error")
        assert told.levels == []
