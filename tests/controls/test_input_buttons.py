"""Input devices: the kernel's own bytes through a pipe, and what there is by name."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from recorder import Recorder
from tiers import count

from handset.controls import input_buttons
from handset.controls.input_buttons import (
    CODES,
    EV_KEY,
    EV_SYN,
    EVENT,
    HEADSET,
    SYN_DROPPED,
    SYN_REPORT,
    InputButtons,
    Node,
    find,
)
from handset.controls.watching import Watcher
from handset.core.keys import Key
from handset.errors import DeviceError

MEDIA, UP = CODES["KEY_MEDIA"], CODES["KEY_VOLUMEUP"]


class Headset:
    """The kernel's side of an input device."""

    def __init__(self, path: str = "/dev/input/event1") -> None:
        self.path = path
        self.fd, self._write = os.pipe()
        self.down: set[int] = set()
        self.clock_us = 5_000_000
        self.closed = False

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

    def pressed(self) -> set[int]:
        return set(self.down)

    def close(self) -> None:
        os.close(self.fd)
        self.closed = True


class Bus:
    """What there is to be found. A device that was closed is not there again."""

    def __init__(self, *headsets: Headset) -> None:
        self.there = list(headsets)

    def look(self, known: Collection[str]) -> list[Node]:
        there = [each for each in self.there if not each.closed]
        if not there:
            raise DeviceError("no input device is called 'x'; there is none at all")
        return [each for each in there if each.path not in known]


@contextmanager
def watched(*headsets: Headset, bus: Bus | None = None) -> Iterator[Recorder]:
    told = Recorder()
    look = (bus or Bus(*headsets)).look
    watcher = Watcher("headset", told, lambda: InputButtons("headset", look, told, HEADSET))
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


def test_one_device_of_two_unplugged_is_all_lost() -> None:
    first, second = Headset("/dev/input/event1"), Headset("/dev/input/event2")
    with watched(first, second) as told:
        second.key(UP, True)
        first.key(MEDIA, True)
        told.until(lambda: len(told.levels) == 2)
        first.unplug()
        told.until(lambda: bool(told.said("problem")))
    assert told.life == [("back", ""), ("lost", "unplugged")]
    assert told.edges() == [True]  # it was not let go
    assert first.closed and second.closed


def test_a_device_that_comes_later_joins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(input_buttons, "RESCAN_S", 0.0)
    first, second = Headset("/dev/input/event1"), Headset("/dev/input/event2")
    bus = Bus(first)
    with watched(bus=bus) as told:
        told.until(lambda: told.life == [("back", "")])
        second.key(MEDIA, True, told=False)  # it is down already: that starts nothing
        second.key(MEDIA, False)
        second.key(UP, True)
        bus.there.append(second)
        told.until(lambda: len(told.levels) == 1)
        first.key(MEDIA, True)
        told.until(lambda: len(told.levels) == 2)
    assert told.edges() == [True] and told.edges(Key.VOLUME_UP) == [True]
    assert told.life == [("back", "")]


def test_two_buttons_for_one_key_are_one() -> None:
    """A paired headset says play, the next time pause; both at once are one press."""
    first, second = Headset("/dev/input/event1"), Headset("/dev/input/event2")
    with watched(first, second) as told:
        first.key(CODES["KEY_PLAYCD"], True)
        told.until(lambda: len(told.levels) == 1)
        first.key(CODES["KEY_PAUSECD"], True)
        first.key(CODES["KEY_PLAYCD"], False)
        first.key(UP, True)
        told.until(lambda: len(told.levels) == 2)
        second.key(MEDIA, True)
        second.key(UP, True)
        second.key(CODES["KEY_MICMUTE"], True)
        told.until(lambda: len(told.levels) == 3)
        first.key(CODES["KEY_PAUSECD"], False)
        first.key(CODES["KEY_HANGUP_PHONE"], True)
        told.until(lambda: len(told.levels) == 4)
        second.key(MEDIA, False)
        told.until(lambda: len(told.levels) == 5)
    assert told.edges() == [True, False]


@pytest.mark.grows
def test_every_press_of_a_fast_hand_arrives() -> None:
    """Press and release in one report each, with the kernel dropping some now and then."""
    headset, presses = Headset(), count(2_000, 10_000, 10_000)
    with watched(headset) as told:
        for n in range(1, presses + 1):
            headset.key(MEDIA, True)
            headset.key(MEDIA, False)
            if n % 100 == 0:
                told.until(lambda n=n: len(told.levels) >= 2 * n)
    assert told.edges() == [True, False] * presses
    times = [at_ns for *_, at_ns in told.levels]
    assert times == sorted(set(times))


def inputs(tmp_path: Path) -> Path:
    for n, (name, vendor, product, codes) in enumerate(
        [
            ("Power Button", "0000", "0001", {116}),
            ("Jabra Evolve Headset", "0b0e", "0300", {CODES["KEY_PHONE"], 0x246}),
            ("Jabra Evolve Headset Consumer Control", "0b0e", "0300", {115, 114}),
            ("Jabra Evolve Headset Lights", "0b0e", "0300", set()),
        ]
    ):
        device = tmp_path / f"event{n}" / "device"
        (device / "id").mkdir(parents=True)
        (device / "name").write_text(f"{name}\n")
        (device / "id" / "vendor").write_text(f"{vendor}\n")
        (device / "id" / "product").write_text(f"{product}\n")
        (device / "capabilities").mkdir()
        mask = sum(1 << code for code in codes)
        words = [f"{mask >> 64 * n & (1 << 64) - 1:x}" for n in range(12)]
        (device / "capabilities" / "key").write_text(" ".join(reversed(words)) + "\n")
    return tmp_path


@pytest.mark.parametrize("name", ["jabra", "0b0e:0300", "0B0E:0300"])
def test_all_devices_of_a_headset_that_have_its_keys_are_found(tmp_path: Path, name: str) -> None:
    expected = ["/dev/input/event1", "/dev/input/event2"]
    assert find(name, HEADSET, inputs(tmp_path)) == expected
    assert find(name, {0x246}, inputs(tmp_path / "again")) == expected[:1]
    assert find("/dev/input/event7", HEADSET, tmp_path) == ["/dev/input/event7"]


def test_one_that_is_not_there_says_what_is(tmp_path: Path) -> None:
    with pytest.raises(DeviceError, match=r"Power Button \(0000:0001\), Jabra"):
        find("Plantronics", HEADSET, inputs(tmp_path))
    with pytest.raises(DeviceError, match="there is none at all"):
        find("x", HEADSET, tmp_path / "nowhere")
    with pytest.raises(DeviceError, match="none of the keys"):
        find("Power", HEADSET, tmp_path)
