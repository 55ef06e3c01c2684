"""Cards are found by name or USB id, and an error names its cause."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import sounddevice as sd
from voice import MakeCard

from handset.audio import devices
from handset.audio.devices import DeviceBusy, DeviceForbidden, NoDevice, WrongRate
from handset.audio.playout import Playout, PlayoutConfig
from handset.audio.stream import Stream, StreamSettings
from handset.bench.rig import Rig
from handset.fakes.virtual_card import Direction, VirtualCard


@pytest.fixture
def card(make_card: MakeCard) -> VirtualCard:
    card = make_card(name="kelter-test")
    devices.rescan()
    return card


def open_at(card: VirtualCard, rate: int) -> None:
    device = devices.find(card.device, "playback", card.asound_root)
    queue = Playout(PlayoutConfig(rate))
    try:
        Stream.open(queue, device, StreamSettings(rate=rate), card.asound_root).close()
    finally:
        queue.close()


# ---- finding -----------------------------------------------------------------------------------


@pytest.mark.parametrize("direction", ["playback", "capture"])
@pytest.mark.parametrize("name", ["kelter-test", "TEST", " kelter "])
def test_a_card_is_found_by_a_part_of_its_name(
    name: str, direction: devices.Direction, card: VirtualCard
) -> None:
    found = devices.find(name, direction, card.asound_root)
    assert (found.name, found.direction) == ("kelter-test", direction)


@pytest.mark.parametrize("number", ["0", "12", "", " "])
def test_numbers_are_refused(number: str, card: VirtualCard) -> None:
    with pytest.raises(NoDevice, match=r"numbers change with every boot.*kelter-test"):
        devices.find(number, "playback", card.asound_root)


def test_what_there_is_when_nothing_fits(card: VirtualCard) -> None:
    with pytest.raises(NoDevice, match=r"no playback device 'jabra'\. There is: 'kelter-test'"):
        devices.find("jabra", "playback", card.asound_root)


TWO_CARDS = [
    {"name": f"USB Headset: Audio (hw:{n},0)", "hostapi": 0, "max_output_channels": 2}
    for n in (1, 4)
]


@pytest.fixture
def two_alike(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Two cards of one name, told apart by what the kernel says of their USB ids."""
    monkeypatch.setattr(sd, "query_devices", lambda: TWO_CARDS)
    monkeypatch.setattr(sd, "query_hostapis", lambda index: {"name": "ALSA"})
    for number, usb in ((1, "0d8c:0014"), (4, "0B0E:0305")):
        (tmp_path / f"card{number}").mkdir()
        (tmp_path / f"card{number}/usbid").write_text(f"{usb}\n")
    (tmp_path / "card0").mkdir()  # on board: no USB id
    return tmp_path


@pytest.mark.parametrize(("usb", "card"), [("0d8c:0014", 1), ("usb:0b0e:0305", 4)])
def test_a_card_is_found_by_its_usb_id(usb: str, card: int, two_alike: Path) -> None:
    found = devices.find(usb, "playback", two_alike)
    assert (found.card, found.pcm) == (card, 0)


def test_an_unknown_usb_id(two_alike: Path) -> None:
    with pytest.raises(NoDevice, match="no playback device '1111:2222'"):
        devices.find("1111:2222", "playback", two_alike)


def test_two_of_a_name(two_alike: Path) -> None:
    with pytest.raises(NoDevice, match="fits more than one"):
        devices.find("usb headset", "playback", two_alike)


# ---- opening -----------------------------------------------------------------------------------

HOLD = """
import sys
from handset.audio.stream import StreamSettings
from handset.bench.rig import Rig
from handset.fakes.virtual_card import CardControl
rig = Rig(CardControl.attach(sys.argv[1]), StreamSettings())
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def hold(card: VirtualCard) -> Callable[[], int]:
    """Lets another process play to the card; its pid."""
    children: list[subprocess.Popen[str]] = []

    def start() -> int:
        command = [sys.executable, "-c", HOLD, str(card.directory)]
        child = subprocess.Popen(command, stdin=-1, stdout=-1, text=True)
        children.append(child)
        assert child.stdout is not None and child.stdout.readline() == "held\n"
        return child.pid

    yield start  # type: ignore[misc]
    for child in children:
        child.communicate()


def test_a_busy_card_names_its_holder(card: VirtualCard, hold: Callable[[], int]) -> None:
    pid = hold()
    with pytest.raises(DeviceBusy, match=rf"in use by python\S* \(pid {pid}\)"):
        open_at(card, 48_000)


def test_a_card_that_was_busy_before_we_looked(card: VirtualCard, hold: Callable[[], int]) -> None:
    """PortAudio does not list a card that it could not open when it started."""
    pid = hold()
    devices.rescan()
    with pytest.raises(DeviceBusy, match=rf"'kelter': in use by python\S* \(pid {pid}\)"):
        devices.find("kelter", "playback", card.asound_root)


def test_a_wrong_rate_says_which_works(make_card: MakeCard) -> None:
    card = make_card(rate=44_100, rates=(16_000,))
    devices.rescan()
    with pytest.raises(WrongRate, match=r"at 48000 Hz.*It takes 44100, 16000 Hz"):
        open_at(card, 48_000)


def test_a_card_that_we_may_not_open(card: VirtualCard) -> None:
    card.refuse(Direction.PLAYBACK, errno.EACCES)
    with pytest.raises(DeviceForbidden, match="group"):
        open_at(card, 48_000)


def test_a_failed_open_leaves_nothing_open(card: VirtualCard) -> None:
    card.refuse(Direction.PLAYBACK, errno.EIO)
    with pytest.raises(devices.DeviceError):
        open_at(card, 48_000)
    card.refuse(Direction.PLAYBACK, None)
    open_at(card, 48_000)


# ---- what was granted --------------------------------------------------------------------------


@pytest.mark.parametrize("rate", [48_000, 44_100, 16_000])
def test_the_grant_is_read_from_the_card(rate: int, make_rig: Callable[..., Rig]) -> None:
    rig = make_rig(StreamSettings(rate=rate))
    grant = rig.stream.grant
    started = [event for event in rig.card.events() if event.kind.name == "START"][-1]
    assert grant.measured
    assert (grant.rate, grant.period, grant.buffer) == (rate, started.period, started.buffer)
    assert grant.block == grant.period == rate // 100
    assert rig.stream.timing.buffer == started.buffer


def test_realtime_where_it_is_permitted(rig: Rig) -> None:
    grant = rig.stream.grant
    try:
        before = os.sched_getscheduler(0)
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
        os.sched_setscheduler(0, before, os.sched_param(0))
        permitted = True
    except PermissionError:
        permitted = False
    assert grant.realtime == permitted
    assert bool(grant.problem) == (not permitted)
