"""A puck on a pseudo terminal, through pyserial: no press lost, none invented."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import tty
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from recorder import Recorder
from tiers import count

from handset.controls import puck as puck_module
from handset.controls.puck import PuckLamp
from handset.controls.serial_ports import close_port, find, open_port
from handset.controls.watching import Watcher
from handset.core.keys import Key
from handset.core.lamp import Pattern
from handset.core.puck_lines import line
from handset.errors import DeviceError
from handset.fakes.puck import FakePuck


@contextmanager
def watched(
    path: str, told: Recorder | None = None, hello_s: float = 1.0
) -> Iterator[tuple[Recorder, PuckLamp]]:
    told = told or Recorder()
    watcher, lamp = puck_module.watch("puck", path, told, hello_s)
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
        lamp.show(Pattern("talking", "red", ((True, 0),)))
        lamp.show(Pattern("done", "green", ((True, 0),)))
        told.until(lambda: len(fake.lamps) > 1 or bool(fake.battery(40)))
    assert fake.lamps == ["L red 1:0", "L green 1:0"]
    assert told.said("puck") == ["fake"]
    fake.unplug()


@pytest.mark.grows
@pytest.mark.parametrize(
    ("loss", "garble", "holes"), [(0.0, 0.0, 0.0), (0.2, 0.1, 0.0), (0.0, 0.1, 0.02)]
)
def test_every_press_arrives_once_and_in_order(loss: float, garble: float, holes: float) -> None:
    """Over a line that loses and garbles; the counters repair it."""
    fake = FakePuck(loss=loss, garble=garble, holes=holes, seed=7)
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
            assert fake.lost > presses * garble
            told.until(lambda: bool(told.said("wrong_lines")))
    assert told.life == [("back", "")]
    fake.unplug()


def test_noise_is_no_press() -> None:
    fake = FakePuck()
    with watched(fake.path) as (told, _):
        told.until(lambda: bool(told.life))
        fake.noise(os.urandom(50) + b"\nK 1 1*0000\nK 1 999*AAAA\n" + b"x" * 1_000 + b"\n")
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


def test_the_lamp_is_said_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """One line of it may have been lost; there is no answer to it."""
    monkeypatch.setattr(puck_module, "LAMP_S", 0.01)
    fake = FakePuck()
    with watched(fake.path) as (told, lamp):
        told.until(lambda: bool(told.life))
        lamp.show(Pattern("on", "red", ((True, 0),)))
        told.until(lambda: len(fake.lamps) > 2 or bool(fake.battery(40)))
    assert set(fake.lamps) == {"L red 1:0"}
    fake.unplug()


def test_a_puck_that_was_started_anew_presses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(puck_module, "LAMP_S", 1e9)  # only because it has forgotten
    fake = FakePuck()
    with watched(fake.path) as (told, lamp):
        told.until(lambda: told.life == [("back", "")])
        lamp.show(Pattern("on", "red", ((True, 0),)))
        for _ in range(3):
            fake.press()
            fake.release()
        fake.press()
        told.until(lambda: len(told.levels) == 7)
        told.until(lambda: bool(fake.lamps) or bool(fake.battery(40)))
        fake.restart()
        told.until(lambda: len(told.life) == 3)
        assert told.life[1:] == [("lost", "started anew"), ("back", "talk")]
        fake.release()
        told.until(lambda: len(told.levels) == 8)
        assert told.edges() == [True, False] * 4
        told.until(lambda: fake.lamps == ["L red 1:0"] or bool(fake.battery(40)))
    fake.unplug()


def test_what_comes_in_one_piece_with_the_hello_is_not_lost() -> None:
    """The first state, an edge and a battery, before anybody has read a byte of them."""
    ours, theirs = os.openpty()
    tty.setraw(ours)
    tty.setraw(theirs)
    parts = ["H 1 north talk", "K 5 0", "K 9 1", "B 33"]
    told = Recorder()

    def answer() -> None:
        os.read(ours, 100)  # its question
        os.write(ours, b"".join(line(part) for part in parts))

    puck = threading.Thread(target=answer, daemon=True)
    puck.start()
    with watched(os.ttyname(theirs), told):
        told.until(lambda: told.said("battery") == [33])
        assert told.life[0] == ("back", "") and told.edges() == [True]
    puck.join()
    os.close(ours)
    os.close(theirs)


def test_a_puck_that_never_reads_is_read() -> None:
    """Its line's buffer is full of lamps; nobody waits for it, or its keys would be lost."""
    fake = FakePuck(deaf=True)
    with watched(fake.path) as (told, lamp):
        told.until(lambda: bool(told.life))
        for n in range(1, 401):
            steps = tuple((bool(n % 2), n) for _ in range(10))
            lamp.show(Pattern(str(n), "red", steps))
            fake.press(down=bool(n % 2))
            told.until(lambda n=n: len(told.levels) == n)
        assert told.edges() == [True, False] * 200
    assert told.life == [("back", "")]
    fake.unplug()


class Held(Recorder):
    """Takes nothing until it may: the process was stopped, or had other things to do."""

    def __init__(self) -> None:
        super().__init__()
        self.may = threading.Event()

    def level(self, control: str, key: Key, down: bool, at_ns: int) -> None:
        assert self.may.wait(60)
        super().level(control, key, down, at_ns)


def test_a_slow_reader_loses_no_edge() -> None:
    fake, told = FakePuck(), Held()
    with watched(fake.path, told):
        told.until(lambda: bool(told.life))
        for _ in range(100):
            fake.press()
            fake.release()
        told.may.set()
        told.until(lambda: len(told.levels) == 200)
        assert told.edges() == [True, False] * 100
        spread = told.levels[-1][3] - told.levels[0][3]
        assert spread < 2_000_000_000  # when they were made, not when they were read
    assert told.life == [("back", "")] and fake.lost == 0
    fake.unplug()


def test_another_protocol_is_named() -> None:
    fake = FakePuck(protocol=2)
    with watched(fake.path, hello_s=0.3) as (told, _):
        told.until(lambda: bool(told.said("problem")))
        assert "speaks protocol 2, this handset 1" in str(told.said("problem")[0])
    fake.unplug()


def test_a_watcher_that_looks_for_a_hello_ends_at_once() -> None:
    ours, theirs = os.openpty()
    tty.setraw(theirs)
    told = Recorder()
    watcher, _ = puck_module.watch("puck", os.ttyname(theirs), told, 600)
    watcher.start()
    assert os.read(ours, 100) == line("?")
    watcher.close()
    assert "control puck" not in [thread.name for thread in threading.enumerate()]
    os.close(ours)
    os.close(theirs)


def test_an_error_of_our_own_is_a_lost_control_too() -> None:
    """Whatever ends the thread's reading, the person is told that nobody reads the key."""

    class Broken:
        def keys_down(self) -> frozenset[Key]:
            return frozenset()

        def read(self, stop: threading.Event) -> None:
            raise ValueError("planted")

        def close(self) -> None:
            pass

    told = Recorder()
    watcher = Watcher("x", told, Broken)
    watcher.start()
    told.until(lambda: len(told.life) == 4)
    watcher.close()
    assert told.life == [("back", ""), ("lost", "ValueError: planted")] * 2


def test_a_port_is_ours_alone_and_its_holder_is_named() -> None:
    fake = FakePuck()
    port = open_port(fake.path)
    with pytest.raises(DeviceError, match=r"is in use|exclusively"):
        open_port(fake.path)
    close_port(port)
    close_port(open_port(fake.path))
    fake.unplug()


HOLD = """
import os, sys, serial
port = serial.Serial(sys.argv[1], exclusive=True)
print("held", flush=True)
sys.stdin.read()
"""


def test_the_program_that_has_the_port_is_named() -> None:
    fake = FakePuck()
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, fake.path],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as other:  # fmt: skip
        assert other.stdout is not None and other.stdin is not None
        assert other.stdout.readline() == "held\n"
        with pytest.raises(DeviceError, match=rf"is in use by .*\(process {other.pid}\)"):
            open_port(fake.path)
        other.stdin.close()
    close_port(open_port(fake.path))
    fake.unplug()


def test_a_closed_port_is_free_while_a_thread_sleeps_in_it() -> None:
    """TIOCMIWAIT may keep the file alive after it was closed; here a copy of it does."""
    fake = FakePuck()
    port = open_port(fake.path)
    asleep = os.dup(port.fileno())
    close_port(port)
    close_port(open_port(fake.path))
    os.close(asleep)
    fake.unplug()


class UsbPort:
    def __init__(self, device: str, vid: int | None, pid: int | None, number: str | None) -> None:
        self.device, self.vid, self.pid, self.serial_number = device, vid, pid, number


def test_a_usb_port_is_found_by_its_ids_and_serial_number(monkeypatch: pytest.MonkeyPatch) -> None:
    ports = [
        UsbPort("/dev/ttyACM0", 0x2E8A, 0x000A, "E66"),
        UsbPort("/dev/ttyUSB0", 0x0403, 0x6001, "A1"),
        UsbPort("/dev/ttyUSB1", 0x0403, 0x6001, "A2"),
        UsbPort("/dev/ttyS0", None, None, None),
    ]
    monkeypatch.setattr("serial.tools.list_ports.comports", lambda: ports)
    assert find("2E8A:000a") == "/dev/ttyACM0"
    assert find("0403:6001:A2") == "/dev/ttyUSB1"
    ports[2].device = "/dev/ttyUSB7"  # plugged in again
    assert find("0403:6001:A2") == "/dev/ttyUSB7"
    with pytest.raises(DeviceError, match=r"2 serial accessories are 0403:6001 .*ttyUSB0.*ttyUSB7"):
        find("0403:6001")
    with pytest.raises(DeviceError, match=r"no serial accessory .*there are .*\(2e8a:000a\)"):
        find("2e8a:000a:X")


@pytest.mark.parametrize("name", ["dead:beef", "dead:beef:X1", "/dev/ttyNOBODY"])
def test_a_port_that_is_not_there_says_what_there_is(name: str) -> None:
    with pytest.raises(DeviceError, match=r"there (is|are)"):
        find(name)
