"""Input devices: the kernel's own bytes through a pipe, and what there is by name."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from recorder import Recorder

from handset.controls.input_buttons import (
    CODES,
    EV_KEY,
    EV_SYN,
    EVENT,
    HEADSET,
    SYN_DROPPED,
    SYN_REPORT,
    InputButtons,
    find,
)
from handset.controls.watching import Watcher
from handset.core.keys import Key
from handset.errors import DeviceError

MEDIA, UP = CODES["KEY_MEDIA"], CODES["KEY_VOLUMEUP"]


class Headset:
    """The kernel's side of an input device."""

    def __init__(self) -> None:
        self.fd, self._write = os.pipe()
        self.down: set[int] = set()
        self.clock_us = 5_000_000

    def event(self, kind: int, code: int, value: int) -> None:
        self.clock_us += 1_000
        seconds, rest = divmod(self.clock_us, 1_000_000)
        os.write(self._write, EVENT.pack(seconds, rest, kind, code, value))

    def key(self, code: int, down: bool, told: bool = True) -> None:
        (self.down.add if down else self.down.discard)(code)
        if told:
            self.event(EV_KEY, code, int(down))
            self.event(EV_SYN, SYN_REPORT, 0)

    def unplug(self) -> None:
        os.close(self._write)


@contextmanager
def watched(headset: Headset) -> Iterator[Recorder]:
    told = Recorder()
    opened = threading.Event()

    def open_device() -> InputButtons:
        if opened.is_set():
            raise DeviceError("no input device is called 'x'; there is none at all")
        opened.set()
        return InputButtons(
            "headset", headset.fd, lambda: set(headset.down), lambda: None, told, HEADSET
        )

    watcher = Watcher("headset", told, open_device)
    watcher.start()
    try:
        yield told
    finally:
        watcher.close()


def test_keys_with_the_kernel_s_times() -> None:
    headset = Headset()
    with watched(headset) as told:
        headset.key(MEDIA, True)
        headset.key(30, True)  # the letter A is none of ours
        headset.event(EV_KEY, MEDIA, 2)  # auto-repeat
        headset.key(MEDIA, False)
        headset.key(UP, True)
        told.until(lambda: len(told.levels) == 3)
    assert [(key, down) for _, key, down, _ in told.levels] == [
        (Key.TALK, True),
        (Key.TALK, False),
        (Key.VOLUME_UP, True),
    ]
    assert told.levels[0][3] == 5_001_000_000


def test_dropped_events_are_made_up_for() -> None:
    headset = Headset()
    with watched(headset) as told:
        headset.key(MEDIA, True)
        told.until(lambda: len(told.levels) == 1)
        headset.key(MEDIA, False, told=False)
        headset.event(EV_SYN, SYN_DROPPED, 0)
        headset.event(EV_KEY, UP, 1)  # half of something: not believed as it comes
        headset.event(EV_SYN, SYN_REPORT, 0)
        told.until(lambda: len(told.levels) == 2)
        headset.key(UP, True)
        headset.key(MEDIA, True)
        told.until(lambda: len(told.levels) == 4)
    assert told.edges() == [True, False, True]
    assert told.edges(Key.VOLUME_UP) == [True]


def test_down_at_its_start_and_unplugged() -> None:
    headset = Headset()
    headset.key(MEDIA, True, told=False)
    with watched(headset) as told:
        told.until(lambda: told.life == [("back", "talk")])
        headset.unplug()
        told.until(lambda: bool(told.said("problem")))
    assert told.life == [("back", "talk"), ("lost", "unplugged")]
    assert told.levels == []


def inputs(tmp_path: Path) -> Path:
    for n, (name, vendor, product) in enumerate(
        [("Power Button", "0000", "0001"), ("Jabra Evolve Headset", "0b0e", "0300")]
    ):
        device = tmp_path / f"event{n}" / "device"
        (device / "id").mkdir(parents=True)
        (device / "name").write_text(f"{name}\n")
        (device / "id" / "vendor").write_text(f"{vendor}\n")
        (device / "id" / "product").write_text(f"{product}\n")
    return tmp_path


@pytest.mark.parametrize("name", ["jabra", "0b0e:0300", "0B0E:0300"])
def test_a_device_is_found_by_what_it_is(tmp_path: Path, name: str) -> None:
    assert find(name, inputs(tmp_path)) == "/dev/input/event1"


def test_one_that_is_not_there_says_what_is(tmp_path: Path) -> None:
    with pytest.raises(DeviceError, match=r"Power Button \(0000:0001\), Jabra"):
        find("Plantronics", inputs(tmp_path))
    with pytest.raises(DeviceError, match="there is none at all"):
        find("x", tmp_path / "nowhere")
