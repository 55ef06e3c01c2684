"""A puck on a pseudo terminal, through pyserial: no press lost, none invented."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from recorder import Recorder
from tiers import count

from handset.controls import puck as puck_module
from handset.controls.puck import PuckLamp
from handset.controls.serial_ports import find, open_port
from handset.core.keys import Key
from handset.core.lamp import Pattern
from handset.errors import DeviceError
from handset.fakes.puck import FakePuck


@contextmanager
def watched(path: str) -> Iterator[tuple[Recorder, PuckLamp]]:
    told = Recorder()
    watcher, lamp = puck_module.watch("puck", path, told)
    watcher.start()
    try:
        yield told, lamp
    finally:
        watcher.close()


def test_press_release_battery_and_lamp() -> None:
    fake = FakePuck([Key.TALK, Key.CANCEL])
    with watched(fake.path) as (told, lamp):
        told.until(lambda: told.life == [("back", "")])
        fake.press()
        fake.press(Key.CANCEL)
        fake.release()
        fake.battery(41)
        told.until(lambda: told.said("battery") == [41])
        assert [(key, down) for _, key, down, _ in told.levels] == [
            (Key.TALK, True),
            (Key.CANCEL, True),
            (Key.TALK, False),
        ]
        lamp.show(Pattern("talking", "red", ((True, 0),)))
        told.until(lambda: fake.lamps == ["L red 1:0"] or bool(fake.battery(40)))
    assert told.said("puck") == ["fake"]
    fake.unplug()


@pytest.mark.grows
@pytest.mark.parametrize(("loss", "garble"), [(0.0, 0.0), (0.2, 0.1)])
def test_every_press_arrives_once_and_in_order(loss: float, garble: float) -> None:
    """Over a line that loses and garbles; the counters repair it."""
    fake = FakePuck(loss=loss, garble=garble, seed=7)
    presses = count(2_000, 10_000, 10_000)
    with watched(fake.path) as (told, _):
        told.until(lambda: bool(told.life))
        for n in range(1, presses + 1):
            fake.press()
            fake.release()
            if n % 50 == 0:  # the counters are modulo 256
                told.until(lambda n=n: len(told.levels) >= 2 * n)
        told.until(lambda: len(told.levels) >= 2 * presses)
        assert told.edges() == [True, False] * presses
        times = [at_ns for *_, at_ns in told.levels]
        assert times == sorted(times)
        if garble:
            told.until(lambda: bool(told.said("wrong_lines")))
    assert told.life == [("back", "")]
    fake.unplug()


def test_noise_is_no_press() -> None:
    fake = FakePuck()
    with watched(fake.path) as (told, _):
        told.until(lambda: bool(told.life))
        fake.noise(os.urandom(50) + b"\nK 1 1*00\nK 1 999*AA\n" + b"x" * 1_000 + b"\n")
        fake.press()
        told.until(lambda: bool(told.levels))
        assert told.edges() == [True]
        told.until(lambda: bool(told.said("wrong_lines")))
    fake.unplug()


def test_a_dead_puck_is_lost_and_told_once() -> None:
    fake = FakePuck()
    with watched(fake.path) as (told, _):
        told.until(lambda: bool(told.life))
        fake.press()
        told.until(lambda: bool(told.levels))
        fake.die()
        told.until(lambda: len(told.life) == 2)
        assert told.life[1] == ("lost", "no heartbeat")
        told.until(lambda: bool(told.said("problem")))
        assert "says that it is a puck" in str(told.said("problem")[0])
        assert told.edges() == [True]  # it was not let go
    fake.unplug()


def test_unplugged_with_a_key_down_and_back_under_another_name(tmp_path: Path) -> None:
    """The name that it is known by leads to another device each time."""
    name = tmp_path / "by-id"
    first = FakePuck()
    name.symlink_to(first.path)
    with watched(str(name)) as (told, _):
        told.until(lambda: bool(told.life))
        first.press()
        told.until(lambda: bool(told.levels))
        first.unplug()
        told.until(lambda: len(told.life) == 2)
        assert told.life[1][0] == "lost"
        second = FakePuck()
        second.press()
        name.unlink()
        name.symlink_to(second.path)
        told.until(lambda: len(told.life) == 3)
        assert told.life[2] == ("back", "talk")  # held on
        second.release()
        told.until(lambda: len(told.levels) == 2)
        assert told.edges() == [True, False]
    second.unplug()


def test_a_port_is_ours_alone_and_its_holder_is_named() -> None:
    fake = FakePuck()
    port = open_port(fake.path)
    with pytest.raises(DeviceError, match=r"is in use|exclusively"):
        open_port(fake.path)
    port.close()
    open_port(fake.path).close()
    fake.unplug()


@pytest.mark.parametrize("name", ["dead:beef", "dead:beef:X1", "/dev/ttyNOBODY"])
def test_a_port_that_is_not_there_says_what_there_is(name: str) -> None:
    with pytest.raises(DeviceError, match=r"there (is|are)"):
        find(name)
