"""What goes wrong on pins, in threads and at the import of lgpio; and faults planted in the
adapter, each of which turns a test red."""

from __future__ import annotations

import grp
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import test_gpio_buttons as guards
from recorder import Recorder
from test_gpio_buttons import MS, TALK, opened, pi

from handset.controls import gpio as adapter
from handset.controls.gpio import RETRY_NS, GpioButtons
from handset.controls.gpio_chip import Chip, Level, Pull, list_chips, load_lgpio, refusal
from handset.controls.gpio_wiring import Button, GpioSettings, Verdict
from handset.controls.led import GpioLamp, LampSettings, Led
from handset.core.keys import Key
from handset.core.lamp import Pattern
from handset.errors import DeviceError
from handset.fakes.gpio import FakeChip, FakeGpio, FakeLine

PATIENCE_S = 20


def test_a_line_that_the_chip_does_not_have_is_a_problem_and_the_others_work() -> None:
    gpio = pi()
    buttons, told = opened(gpio, Button(Key.TALK, 54), Button(Key.CANCEL, 27))
    assert told.life == [("back", "")]
    assert "has lines 0 to 53" in str(told.said("problem")[0])
    gpio.button(0, 27, True)
    assert told.edges(Key.CANCEL) == [True]
    buttons.close()


def test_with_every_pin_busy_the_control_is_lost_once_and_the_chip_is_opened_once() -> None:
    gpio = pi(g17=FakeLine(holder="spi0 CS1"))
    opens: list[int] = []
    original = gpio.gpiochip_open
    gpio.gpiochip_open = lambda number: opens.append(number) or original(number)  # type: ignore[method-assign, func-returns-value]
    buttons, told = opened(gpio)
    for _ in range(3):
        gpio.now_ns += RETRY_NS
        buttons.look()
    assert [what for what, _ in told.life] == ["lost"] and opens == [0]
    gpio.chips[0].lines[17].holder = ""
    gpio.now_ns += RETRY_NS
    buttons.look()
    assert told.life[-1] == ("back", "") and "works" in str(told.said("well"))
    buttons.close()


class SlowLines(FakeGpio):
    """A line that is claimed for edges with another pull is read before it has followed, and
    makes its edge then, with a bounce."""

    def __init__(self, chips: dict[int, FakeChip]) -> None:
        super().__init__(chips)
        self._behind: set[int] = set()

    def gpio_claim_alert(self, handle: int, gpio: int, eFlags: int, lFlags: int = 0) -> int:
        line = self._chip(handle).line(gpio)
        before = line.level()
        done = super().gpio_claim_alert(handle, gpio, eFlags, lFlags)
        if line.level() is not before:
            self._behind.add(gpio)
        return done

    def gpio_read(self, handle: int, gpio: int) -> int:
        now = super().gpio_read(handle, gpio)
        if gpio not in self._behind:
            return now
        self._behind.remove(gpio)
        for level in (now, 1 - now, now):
            self.now_ns += 1_000
            self._watching[handle, gpio](self._open[handle], gpio, level, self.now_ns)
        return 1 - now


@pytest.mark.parametrize("active", list(Level))
def test_the_change_of_pull_at_the_start_is_no_press(active: Level) -> None:
    pull = Pull.UP if active is Level.LOW else Pull.DOWN
    gpio = SlowLines({0: FakeChip("pinctrl-rp1")})
    buttons, told = opened(gpio, Button(Key.TALK, 17, pull, active))
    assert told.life == [("back", "")] and told.levels == []
    buttons.close()


class BetweenWatchAndRead(FakeGpio):
    """A finger comes down after the line is watched and before it is read."""

    def gpio_read(self, handle: int, gpio: int) -> int:
        line = self._chip(handle).line(gpio)
        if line.claimed == "alert" and not line.closed:
            self.button(self._open[handle], gpio, True, self.now_ns + MS)
            self.now_ns += MS
        return super().gpio_read(handle, gpio)


def test_a_press_while_the_line_is_opened_is_told_once() -> None:
    gpio = BetweenWatchAndRead({0: FakeChip("pinctrl-rp1")})
    buttons, told = opened(gpio)
    assert told.life == [("back", "talk")] and told.levels == []
    gpio.now_ns += 500 * MS
    gpio.button(0, 17, False)
    assert told.edges() == [False] and buttons.missed == 0
    buttons.close()


def test_an_error_behind_a_callback_is_raised_by_the_next_look() -> None:
    class Broken(Recorder):
        def level(self, *_: object) -> None:
            raise ZeroDivisionError

    gpio = pi()
    buttons = GpioButtons(Broken(), GpioSettings((TALK,)), gpio.backend, lambda: gpio.now_ns)
    buttons.look()
    gpio.button(0, 17, True)  # lgpio's thread lives on
    with pytest.raises(ZeroDivisionError):
        buttons.look()
    buttons.close()


def test_with_a_thread_of_its_own_it_opens_tells_and_ends() -> None:
    gpio, told = pi(), Recorder()
    with GpioButtons(told, GpioSettings((TALK,)), gpio.backend, lambda: gpio.now_ns) as buttons:
        told.until(lambda: told.life == [("back", "")])
        gpio.button(0, 17, True)
        told.until(lambda: told.edges() == [True])
        assert buttons.there
    assert gpio.claimed == [] and [what for what, _ in told.life] == ["back"]


def test_a_pattern_that_comes_while_another_is_set_is_shown_at_once() -> None:
    """The first pattern is steady: its next step would be in seconds."""
    gpio, shown = pi(), threading.Event()
    lamp = GpioLamp(
        LampSettings((Led("red", 5), Led("green", 6))),
        gpio.backend,
        Recorder(),
        lambda: gpio.now_ns,
    )
    original = gpio.gpio_write

    def write(handle: int, line: int, level: int) -> int:
        if (line, level) == (5, 1):
            lamp.show(Pattern("second", "green", ((True, 0),)))
        if (line, level) == (6, 1):
            shown.set()
        return original(handle, line, level)

    gpio.gpio_write = write  # type: ignore[method-assign]
    with lamp:
        lamp.show(Pattern("first", "red", ((True, 0),)))
        assert shown.wait(RETRY_NS / 2 / 1e9)


def test_a_lamp_whose_chip_vanishes_says_so_once_and_lights_again() -> None:
    gpio, told = pi(), Recorder()
    lamp = GpioLamp(LampSettings((Led("red", 5),)), gpio.backend, told, lambda: gpio.now_ns)
    lamp.show(Pattern("p", "red", ((True, 100), (False, 100))))
    chip = gpio.chips.pop(0)
    for _ in range(3):
        lamp.step()
        gpio.now_ns += RETRY_NS
    assert len(told.said("problem")) == 1 and "the lamp is dark" in str(told.said("problem"))
    gpio.chips[4] = chip
    lamp.step()
    assert chip.lines[5].out is True and lamp.problems == {}
    lamp.close()
    assert chip.lines[5].out is False


# ---- the machine's own chips ----------------------------------------------------------------

IMPORTS = """
import os, sys, threading
from handset.controls.gpio_chip import load_lgpio
from handset.errors import DeviceError
where = os.stat('.').st_ino
load_lgpio()
assert os.stat('.').st_ino == where
"""


@pytest.mark.parametrize("removed", [False, True])
def test_the_import_of_lgpio_leaves_the_folder_as_it_was(removed: bool, tmp_path: Path) -> None:
    """Alone, lgpio leaves a named pipe behind, and fails where it may not make one."""
    try:
        load_lgpio()
    except DeviceError as error:
        pytest.skip(str(error))
    source = f"import os; os.rmdir({str(tmp_path)!r})\n{IMPORTS}" if removed else IMPORTS
    done = subprocess.run(
        [sys.executable, "-c", source], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert removed or list(tmp_path.iterdir()) == []


def test_nodes_that_are_no_chips_are_listed_as_refused_and_links_are_left_out(
    tmp_path: Path,
) -> None:
    (tmp_path / "gpiochip3").touch()
    (tmp_path / "gpiochip4").symlink_to("gpiochip3")
    (chip,) = list_chips(tmp_path)
    assert (chip.number, chip.lines) == (3, 0) and "ioctl" in chip.refused


def test_a_chip_without_rights_names_the_group(tmp_path: Path) -> None:
    node = tmp_path / "gpiochip0"
    node.touch()
    group = grp.getgrgid(node.stat().st_gid).gr_name
    said = refusal(node, PermissionError(13, "Permission denied"))
    assert ("udev rule" if group == "root" else repr(group)) in said


# ---- planted faults -------------------------------------------------------------------------

Fault = Callable[[pytest.MonkeyPatch], None]


def instead(owner: Any, name: str, wrong: Callable[..., Any]) -> Fault:
    """``wrong(original, *args)`` in the place of a function or method."""
    original = getattr(owner, name)

    def plant(monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(owner, name, lambda *args: wrong(original, *args))

    return plant


def debounced(original: Any, buttons: Any, line: Any, high: bool, at_ns: int) -> None:
    if at_ns - line.after_ns > 5 * MS:
        line.before_ns = line.after_ns = at_ns
        original(buttons, line, high, at_ns)


def only_changes(original: Any, buttons: Any, line: Any, high: bool, at_ns: int) -> None:
    if high is not line.high:
        original(buttons, line, high, at_ns)


def pull_at_last(original: Any, buttons: Any, chip: Chip) -> Any:
    pulls = original(buttons, chip)
    for button in pulls:
        chip.claim_input(button.line, Pull.NONE)
        wrong = Pull.DOWN if button.active is Level.LOW else Pull.UP
        chip.claim_input(button.line, wrong)
    return pulls


def told_early(original: Any, buttons: Any, line: Any, high: bool, at_ns: int) -> None:
    line.before_ns = line.after_ns = 0
    original(buttons, line, high, at_ns)


def low(test: Callable[[Level], None]) -> Callable[[], None]:
    return lambda: test(Level.LOW)


def pressed_at_start() -> None:
    guards.test_wrong_wiring_is_found_and_said(FakeLine(closed=True), TALK, "reads pressed")


every_contact = low(guards.test_every_contact_arrives_once_in_order_and_makes_the_right_presses)
moved = guards.test_a_chip_that_vanishes_is_lost_once_and_comes_back_elsewhere
busy = guards.test_a_busy_pin_names_its_holder_and_the_others_work
dropped = guards.test_an_edge_that_the_kernel_dropped_is_made_up_for
dark = guards.test_a_lamp_follows_its_pattern_and_is_dark_at_the_end
fifty = guards.test_opened_and_closed_fifty_times_nothing_stays_claimed

PLANTED: list[tuple[str, Fault, Callable[[], None]]] = [
    ("edges are debounced", instead(GpioButtons, "_take", debounced), every_contact),
    ("two edges alike are one", instead(GpioButtons, "_take", only_changes), dropped),
    ("a look reads nothing", instead(GpioButtons, "_check", lambda *_: None), moved),
    ("a loss is told again", instead(GpioButtons, "_tell_lost", lambda _, b, why: b._controls.lost("gpio", 0, why)), moved),  # noqa: E501
    ("lines stay claimed", instead(Chip, "close", lambda *_: None), fifty),
    ("a holder has no name", instead(Chip, "holder", lambda *_: "somebody"), busy),
    ("wiring is not judged", instead(adapter, "judge", lambda _, b, __: Verdict(b.pull)), pressed_at_start),  # noqa: E501
    ("the lamp is left lit", instead(GpioLamp, "_set", lambda set_, lamp, on: lamp._ended or set_(lamp, on)), dark),  # noqa: E501
    ("the pull changes as edges begin", instead(GpioButtons, "_try_pulls", pull_at_last), low(test_the_change_of_pull_at_the_start_is_no_press)),  # noqa: E501
    ("edges from before the reading count", instead(GpioButtons, "_take", told_early), test_a_press_while_the_line_is_opened_is_told_once),  # noqa: E501
]  # fmt: skip


@pytest.mark.parametrize(
    ("fault", "guard"), [row[1:] for row in PLANTED], ids=[row[0] for row in PLANTED]
)
def test_a_planted_fault_is_found(
    fault: Fault, guard: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    fault(monkeypatch)
    with pytest.raises((AssertionError, DeviceError, ValueError)):
        guard()
