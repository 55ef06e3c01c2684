"""Controls and lamps in the settings file."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest

from handset.controls.gpio_chip import Level, Pull
from handset.controls.modem_lines import LineButton
from handset.core.keys import Key
from handset.hardware import InputSettings
from handset.settings import EXAMPLE, TABLES, Settings, WrongSettings, parse

ALL = """
[[gpio]]
line = 17

[[gpio]]
key = "acknowledge"
line = 27
pull = "none"
active = "high"

[[led]]
line = 22

[[wire]]
port = "0403:6001"

[[wire]]
port = "0403:6001"
line = "dsr"
key = "cancel"
active = false
lamp = "rts"

[[puck]]
port = "2e8a:000a"

[[input]]
device = "Jabra"

[[input]]
device = "0b0e:0300"
hold = true
grab = false
"""


def made(text: str) -> Settings:
    return parse(tomllib.loads(EXAMPLE + text), "file")


def problems(text: str) -> list[str]:
    with pytest.raises(WrongSettings) as caught:
        made(text)
    return str(caught.value).splitlines()


def test_everything_at_once() -> None:
    hardware = made(ALL).hardware
    assert hardware.gpio is not None and hardware.lamp is not None
    talk, acknowledge = hardware.gpio.buttons
    assert (talk.key, talk.line, talk.pull, talk.active) == (Key.TALK, 17, Pull.UP, Level.LOW)
    assert (acknowledge.pull, acknowledge.active) == (Pull.NONE, Level.HIGH)
    assert [(led.colour, led.line) for led in hardware.lamp.leds] == [("red", 22)]
    assert hardware.wires == (
        ("0403:6001", (LineButton("cts"), LineButton("dsr", Key.CANCEL, False)), "rts"),
    )
    assert hardware.pucks == ("2e8a:000a",)
    assert hardware.inputs == (
        InputSettings("Jabra"),
        InputSettings("0b0e:0300", grab=False, hold=True),
    )


def test_what_can_t_be_held_is_a_switch_and_what_is_debounced_is_clean() -> None:
    keys = made(ALL).person.keys
    assert "input Jabra" in keys.switches and "input 0b0e:0300" not in keys.switches
    assert {"puck 2e8a:000a", "input Jabra", "keyboard"} <= keys.clean
    assert "gpio" not in keys.clean


def test_without_any_there_is_none() -> None:
    assert not made("").hardware.any


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[gpio]\nline = 17", "file: gpio: must be [[gpio]], with two brackets"),
        ("[[gpio]]\nkey = 'talk'", "file: gpio[1].line: is missing; the BCM number of the pin"),
        ("[[gpio]]\nline = 17\nkey = 'fire'", "gpio[1].key = 'fire': must be one of talk"),
        ("[[gpio]]\nline = 17\n[[gpio]]\nline = 17\nkey='cancel'", "are the same line"),
        ("[[gpio]]\nline = 17\n[[gpio]]\nline = 18", "are the same key"),
        ("[[gpio]]\nline = 17\npull = 'down'", "holds the line at its active level"),
        ("[[gpio]]\nline = 17\n[[led]]\nline = 17", "GPIO 17 is a button and a LED"),
        ("[[led]]\nline = 1\ncolour = 'pink'", "led[1].colour = 'pink': must be one of red"),
        ("[[wire]]\nport = '1'\nline = 'rts'", "wire[1].line = 'rts': must be one of cts"),
        ("[[puck]]\nprt = '1'\nport = '2'", "puck[1].prt: no such setting; do you mean 'port'?"),
        ("[[input]]\ndevice = ''", "input[1].device is empty"),
        ("[[buttn]]\nline = 1", "[buttn]: no such section"),
    ],
)
def test_what_is_wrong_is_told_with_its_cure(text: str, said: str) -> None:
    (line,) = problems(text)
    assert said in line


def test_every_section_is_named_where_one_is_unknown() -> None:
    (line,) = problems("[zzzz]")
    assert all(section in line for section in TABLES)


def test_all_entries_are_told_at_once() -> None:
    given: dict[str, Any] = tomllib.loads(EXAMPLE)
    given["gpio"] = [{"line": -1}, {}, {"line": 3, "active": 1}]
    with pytest.raises(WrongSettings) as caught:
        parse(given, "file")
    assert len(str(caught.value).splitlines()) == 3
