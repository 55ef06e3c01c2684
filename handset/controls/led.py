"""A lamp of one to three LEDs on GPIO lines.

Lines are on or off, without brightness, so ``amber`` is red and green together. A lamp that has
none of a colour's LEDs lights all that it has: with one LED only the steps matter.
A line that somebody else has, or a chip that is gone, is told as ``problem`` and tried again; the
pattern goes on from where it would be.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from handset.controls.gpio_chip import LABELS, Backend, Chip, ChipGone, Level
from handset.core.lamp import Pattern
from handset.errors import DeviceError, UsageError
from handset.ports import Controls

MILLISECOND = 1_000_000
SECOND = 1_000_000_000
RETRY_NS = 2 * SECOND

MIX: dict[str, frozenset[str]] = {
    "off": frozenset(),
    "white": frozenset({"red", "green", "blue", "white"}),
    "red": frozenset({"red"}),
    "green": frozenset({"green"}),
    "blue": frozenset({"blue"}),
    "amber": frozenset({"red", "green"}),
    "cyan": frozenset({"green", "blue"}),
    "magenta": frozenset({"red", "blue"}),
}
"""The LEDs of each colour."""


@dataclass(frozen=True, slots=True)
class Led:
    """``colour``: red, green, blue or white; for a lamp of one LED it does not matter."""

    colour: str
    line: int
    active: Level = Level.HIGH


@dataclass(frozen=True, slots=True)
class LampSettings:
    leds: tuple[Led, ...]
    chip: tuple[str, ...] = LABELS
    name: str = "lamp"

    def __post_init__(self) -> None:
        if not self.leds:
            raise UsageError(f"lamp {self.name!r}: it has no LED. Add one, or remove it.")
        for led in self.leds:
            if led.colour not in MIX["white"]:
                raise UsageError(
                    f"lamp {self.name!r}: LED colour {led.colour!r} on GPIO {led.line}: it is "
                    f"one of {', '.join(sorted(MIX['white']))}."
                )
        for what, of in (("line", [d.line for d in self.leds]), ("colour", self._colours)):
            if len(set(of)) < len(of):
                raise UsageError(f"lamp {self.name!r}: two LEDs with the same {what}.")

    @property
    def _colours(self) -> list[str]:
        return [led.colour for led in self.leds]

    def lit(self, colour: str) -> frozenset[str]:
        """The LEDs that are on for a colour."""
        has = frozenset(self._colours)
        return has & MIX[colour] or (has if MIX[colour] else frozenset())


def phase(pattern: Pattern, since_ns: int) -> tuple[bool, int | None]:
    """Whether a pattern is lit ``since_ns`` after its begin, and the ns until that may change;
    None for never."""
    period = sum(length for _, length in pattern.steps) * MILLISECOND
    if not period:
        return pattern.steps[0][0], None
    rest = since_ns % period
    for lit, length in pattern.steps:
        rest -= length * MILLISECOND
        if rest < 0:
            return lit, -rest
    raise AssertionError("a period ends with its last step")


DARK = Pattern("off", "off", ((False, 0),))


class GpioLamp:
    """``with GpioLamp(...)``: a thread of its own follows the pattern. Dark at the end."""

    def __init__(
        self,
        settings: LampSettings,
        backend: Backend,
        controls: Controls,
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self.problems: dict[int, str] = {}
        """What is wrong now, by line; -1 is the chip."""
        self._settings = settings
        self._backend = backend
        self._controls = controls
        self._clock = clock
        self._pattern, self._since_ns = DARK, 0
        self._shown = DARK
        self._chip: Chip | None = None
        self._on: dict[int, bool] = {}
        """The lines that are ours, and whether their LED is on."""
        self._try_ns = 0
        self._changed = threading.Condition()
        self._ended = False
        self._thread: threading.Thread | None = None

    def __enter__(self) -> GpioLamp:
        self._thread = threading.Thread(target=self._run, name=self._settings.name, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def show(self, pattern: Pattern) -> None:
        """From its first step on, at once. The pattern that is shown goes on undisturbed."""
        if pattern.colour not in MIX:
            raise UsageError(f"pattern {pattern.name!r}: colour {pattern.colour!r} is not known.")
        with self._changed:
            if pattern != self._pattern:
                self._pattern, self._since_ns = pattern, self._clock()
                self._changed.notify()

    def step(self) -> int:
        """Sets the LEDs for now. Returns the ns until it is to be called again."""
        now_ns = self._clock()
        if now_ns >= self._try_ns and len(self._on) < len(self._settings.leds):
            self._try_ns = now_ns + RETRY_NS
            self._claim()
        with self._changed:
            pattern, since_ns = self._pattern, self._since_ns
        self._shown = pattern
        lit, left_ns = phase(pattern, max(0, now_ns - since_ns))
        self._set(self._settings.lit(pattern.colour) if lit else frozenset())
        return RETRY_NS if left_ns is None else min(left_ns, RETRY_NS)

    def close(self) -> None:
        with self._changed:
            self._ended = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        self._set(frozenset())
        self._release()

    # ---- inside -------------------------------------------------------------------------------

    def _claim(self) -> None:
        try:
            if self._chip is None:
                self._chip = Chip.open(self._backend, self._settings.chip)
            self._problem(-1, None)
            for led in self._settings.leds:
                if led.line not in self._on:
                    self._claim_one(self._chip, led)
        except DeviceError as error:
            self._lose(error)

    def _claim_one(self, chip: Chip, led: Led) -> None:
        try:
            chip.claim_output(led.line, led.active is Level.LOW)
        except ChipGone:
            raise
        except DeviceError as error:
            self._problem(led.line, f"LED {led.colour} on GPIO {led.line} stays dark: {error}")
            return
        self._on[led.line] = False
        self._problem(led.line, None)

    def _set(self, colours: frozenset[str]) -> None:
        if self._chip is None:
            return
        try:
            for led in self._settings.leds:
                on = led.colour in colours
                if self._on.get(led.line, on) is not on:
                    self._chip.write(led.line, on is (led.active is Level.HIGH))
                    self._on[led.line] = on
        except DeviceError as error:
            self._lose(error)

    def _lose(self, error: DeviceError) -> None:
        self._release()
        self._try_ns = self._clock() + RETRY_NS
        self._problem(-1, f"the lamp is dark: {error}")

    def _release(self) -> None:
        chip, self._chip = self._chip, None
        self._on.clear()
        if chip is not None:
            chip.close()

    def _problem(self, line: int, problem: str | None) -> None:
        """Tells a problem once."""
        if problem is None:
            self.problems.pop(line, None)
        elif self.problems.get(line) != problem:
            self.problems[line] = problem
            self._controls.fact(self._settings.name, "problem", problem)

    def _run(self) -> None:
        while not self._ended:
            wait_ns = self.step()
            with self._changed:
                self._changed.wait_for(
                    lambda: self._ended or self._pattern is not self._shown, wait_ns / SECOND
                )
