"""GPIO chips, wires and hands, behind the few functions of lgpio that are used.

A line is what is soldered to it: a button to one rail or the other, a resistor of its own,
a short, or nothing. It reads the button while that is closed, else the board's resistor,
else the chip's pull, else noise (high). Edges carry the clock's time, as the kernel's do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from handset.controls.gpio_chip import Backend, ChipInfo

NO_DEVICE, BUSY, NOT_ALLOCATED = "no such device", "GPIO busy", "GPIO not allocated"


class FakeError(Exception):
    """As lgpio.error: one message."""


@dataclass(slots=True)
class FakeLine:
    """``button``: the level that it connects to when closed. ``resistor``: the level that one
    on the board pulls to. ``short``: a level that nothing can change."""

    button: bool = False
    resistor: bool | None = None
    short: bool | None = None
    holder: str = ""
    closed: bool = False
    claimed: str = ""
    pull: bool | None = None
    out: bool | None = None

    def level(self) -> bool:
        if self.short is not None:
            return self.short
        if self.closed:
            return self.button
        for each in (self.resistor, self.pull):
            if each is not None:
                return each
        return True


@dataclass(slots=True)
class FakeChip:
    label: str
    lines: dict[int, FakeLine] = field(default_factory=dict)
    size: int = 54

    def line(self, number: int) -> FakeLine:
        return self.lines.setdefault(number, FakeLine())


class _Subscription:
    def __init__(self, drop: Callable[[], None]) -> None:
        self._drop = drop

    def cancel(self) -> None:
        self._drop()


class FakeGpio:
    """Plays the module. ``chips`` by number; ``now_ns`` is the kernel's clock."""

    BOTH_EDGES = 3
    SET_PULL_UP, SET_PULL_DOWN, SET_PULL_NONE = 1, 2, 3
    error: type[Exception] = FakeError

    def __init__(self, chips: dict[int, FakeChip]) -> None:
        self.chips = chips
        self.now_ns = 1_000_000_000
        self.swallow = 0
        """So many edges to come that the kernel drops."""
        self._open: dict[int, int] = {}
        self._handles = 0
        self._watching: dict[tuple[int, int], Callable[..., None]] = {}

    @property
    def backend(self) -> Backend:
        return Backend(self, self.listed, lambda: None)

    def listed(self) -> list[ChipInfo]:
        return [ChipInfo(n, chip.label, chip.size) for n, chip in sorted(self.chips.items())]

    @property
    def claimed(self) -> list[int]:
        """Lines that somebody of ours holds."""
        return [n for chip in self.chips.values() for n, li in chip.lines.items() if li.claimed]

    # ---- the hand

    def button(self, chip: int, number: int, closed: bool, at_ns: int | None = None) -> None:
        """One contact, an edge if that changes the line's level."""
        self.now_ns = self.now_ns if at_ns is None else at_ns
        line = self.chips[chip].line(number)
        before = line.level()
        line.closed = closed
        if line.level() == before or line.claimed != "alert":
            return
        if self.swallow:
            self.swallow -= 1
            return
        for (handle, watched), call in list(self._watching.items()):
            if watched == number and self._open.get(handle) == chip:
                call(chip, number, int(line.level()), self.now_ns)

    # ---- the module

    def gpiochip_open(self, gpiochip: int) -> int:
        if gpiochip not in self.chips:
            raise FakeError("can not open gpiochip")
        self._handles += 1
        self._open[self._handles] = gpiochip
        return self._handles

    def gpiochip_close(self, handle: int) -> int:
        number = self._open.pop(handle)
        if number in self.chips:
            for line in self.chips[number].lines.values():
                line.claimed = ""
        return 0

    def gpio_get_chip_info(self, handle: int) -> list[Any]:
        chip = self._chip(handle)
        return [0, chip.size, "gpiochip", chip.label]

    def gpio_get_line_info(self, handle: int, gpio: int) -> list[Any]:
        line = self._chip(handle).line(gpio)
        user = line.holder or ("lg" if line.claimed else "")
        return [0, gpio, 1 if user else 0, f"GPIO{gpio}", user]

    def gpio_claim_input(self, handle: int, gpio: int, lFlags: int = 0) -> int:
        return self._claim(handle, gpio, "input", lFlags)

    def gpio_claim_output(self, handle: int, gpio: int, level: int = 0) -> int:
        self._claim(handle, gpio, "output", 0)
        return self.gpio_write(handle, gpio, level)

    def gpio_claim_alert(self, handle: int, gpio: int, eFlags: int, lFlags: int = 0) -> int:
        return self._claim(handle, gpio, "alert", lFlags)

    def gpio_free(self, handle: int, gpio: int) -> int:
        self._chip(handle).line(gpio).claimed = ""
        return 0

    def gpio_read(self, handle: int, gpio: int) -> int:
        line = self._chip(handle).line(gpio)
        if not line.claimed:
            raise FakeError(NOT_ALLOCATED)
        return int(line.level())

    def gpio_write(self, handle: int, gpio: int, level: int) -> int:
        self._chip(handle).line(gpio).out = bool(level)
        return 0

    def callback(
        self, handle: int, gpio: int, edge: int = 1, func: Callable[..., None] | None = None
    ) -> _Subscription:
        assert func is not None
        self._watching[handle, gpio] = func
        return _Subscription(lambda: self._forget(handle, gpio))

    # ---- inside

    def _forget(self, handle: int, gpio: int) -> None:
        self._watching.pop((handle, gpio), None)

    def _chip(self, handle: int) -> FakeChip:
        chip = self.chips.get(self._open.get(handle, -1))
        if chip is None:
            raise FakeError(NO_DEVICE)
        return chip

    def _claim(self, handle: int, gpio: int, how: str, flags: int) -> int:
        line = self._chip(handle).line(gpio)
        if line.holder:
            raise FakeError(BUSY)
        line.claimed = how
        line.pull = {self.SET_PULL_UP: True, self.SET_PULL_DOWN: False}.get(flags)
        return 0
