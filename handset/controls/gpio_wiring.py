"""Buttons on GPIO lines, and what a line's answer to both pulls tells about its wiring.

A line is read with the chip's pull-up and with its pull-down (some 50 kOhm each):

| with pull-up | with pull-down | what it is |
|---|---|---|
| high | low | it *follows*: nothing outside holds it; the button is open |
| high | high | held *high*: a button to 3.3 V that is pressed, or a resistor or output |
| low | low | held *low*: a button to ground that is pressed, or a resistor or output |
| low | high | *unsteady*: it changed in between |

A pressed button and a wrong resistor look the same; the message names both. A chip without
pulls of its own (many port expanders) never follows, so nothing is found on it but a line that
reads pressed.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from handset.controls.gpio_chip import LABELS, Level, Pull
from handset.core.keys import Key
from handset.errors import UsageError


class Answer(StrEnum):
    FOLLOWS = "follows"
    HIGH = "held high"
    LOW = "held low"
    UNSTEADY = "unsteady"


@dataclass(frozen=True, slots=True)
class Button:
    """``line``: BCM number. ``active``: the level while it is pressed. ``pull``: the chip's own
    resistor; with ``none`` there is one on the board."""

    key: Key
    line: int
    pull: Pull = Pull.UP
    active: Level = Level.LOW

    def __post_init__(self) -> None:
        if self.line < 0:
            raise UsageError(f"{self}: lines are BCM numbers from 0 on.")
        if self.pull == self._towards_pressed:
            raise UsageError(
                f"{self}: pull {self.pull.value!r} holds the line at its active level "
                f"{self.active.value!r}, so a press changes nothing. Set pull = "
                f"{self.towards_idle.value!r}, or the other active level."
            )

    def __str__(self) -> str:
        return f"button {self.key.value} on GPIO {self.line}"

    def is_down(self, high: bool) -> bool:
        return high is (self.active is Level.HIGH)

    @property
    def towards_idle(self) -> Pull:
        return Pull.UP if self.active is Level.LOW else Pull.DOWN

    @property
    def _towards_pressed(self) -> Pull:
        return Pull.DOWN if self.active is Level.LOW else Pull.UP


@dataclass(frozen=True, slots=True)
class GpioSettings:
    """``chip``: labels to look for, best first; shell patterns are allowed. ``name``: what
    the control is called."""

    buttons: tuple[Button, ...]
    chip: tuple[str, ...] = LABELS
    name: str = "gpio"

    def __post_init__(self) -> None:
        if not self.buttons:
            raise UsageError(f"control {self.name!r}: it has no button. Add one, or remove it.")
        seen: dict[object, Button] = {}
        for button in self.buttons:
            for what in (button.line, button.key):
                if what in seen:
                    raise UsageError(
                        f"control {self.name!r}: {button} and {seen[what]} are the same "
                        f"{'line' if what == button.line else 'key'}. Remove one of them."
                    )
                seen[what] = button


@dataclass(frozen=True, slots=True)
class Verdict:
    """``pull`` to use, and what is wrong with the wiring, if anything."""

    pull: Pull
    problem: str | None = None


def answer(with_up: bool, with_down: bool) -> Answer:
    """Of a line that was high (True) or low with each pull."""
    if with_up and not with_down:
        return Answer.FOLLOWS
    if with_down and not with_up:
        return Answer.UNSTEADY
    return Answer.HIGH if with_up else Answer.LOW


def judge(button: Button, found: Answer) -> Verdict:
    rail, other = ("ground", "3.3 V") if button.active is Level.LOW else ("3.3 V", "ground")
    pressed = Answer.LOW if button.active is Level.LOW else Answer.HIGH
    if found is pressed:
        other_level = "high" if button.active is Level.LOW else "low"
        return Verdict(
            button.pull,
            f"{button} reads pressed at start: {found.value} against both pulls. Let it go. If "
            f"nobody presses it, it is stuck, shorted to {rail}, or has a resistor to {rail}; a "
            f"button wired to {other} needs active = {other_level!r}.",
        )
    if found is Answer.FOLLOWS and button.pull is Pull.NONE:
        return Verdict(
            button.towards_idle,
            f"{button} floats: pull is 'none' and nothing on the board holds the line. The "
            f"chip's pull-{button.towards_idle.value} is used; set pull = "
            f"{button.towards_idle.value!r}, or fit a resistor.",
        )
    if found is Answer.UNSTEADY:
        return Verdict(
            button.pull,
            f"{button} changes while it is looked at: noise, or it was pressed just then. If "
            "this comes again, look for a loose wire.",
        )
    return Verdict(button.pull)
