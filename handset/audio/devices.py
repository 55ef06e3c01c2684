"""Finding a sound card by name or USB id, and saying why it can't be used.

Never by number: numbers change with every boot and every plug.
"""

from __future__ import annotations

import errno
import grp
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import sounddevice as sd
from cffi import FFI

from handset.errors import DeviceError

Direction = Literal["playback", "capture"]

ASOUND = Path("/proc/asound")
SOUND_NODES = Path("/dev/snd")
RATES = (48_000, 44_100, 16_000)
"""Rates the handset works at, best first."""

_HW = re.compile(r"\(hw:(\d+),(\d+)\)")
_USB = re.compile(r"(?:usb:)?([0-9a-fA-F]{4}:[0-9a-fA-F]{4})")


class NoDevice(DeviceError):
    """No card of that name; the message lists what there is, or who may not see it."""


class DeviceBusy(DeviceError):
    """Another process has the card; the message names it."""


class DeviceForbidden(DeviceError):
    """This user may not open the card; the message names the group."""


class WrongRate(DeviceError):
    """The card does not run at that rate; the message says at which it does."""


@dataclass(frozen=True, slots=True)
class Device:
    """``index`` is PortAudio's, good until it is initialised again. ``card`` and ``pcm``
    are ALSA's numbers where the device is a hardware one. ``channels``: the fewest that
    it takes is not known before it is opened; this is the most."""

    index: int
    name: str
    direction: Direction
    channels: int
    card: int | None = None
    pcm: int | None = None


def devices(direction: Direction) -> list[Device]:
    """The ALSA devices that PortAudio found."""
    found = []
    key = "max_output_channels" if direction == "playback" else "max_input_channels"
    for index, info in enumerate(sd.query_devices()):
        if info[key] < 1 or sd.query_hostapis(info["hostapi"])["name"] != "ALSA":
            continue
        name = str(info["name"])
        hw = _HW.search(name)
        card, pcm = (int(hw[1]), int(hw[2])) if hw else (None, None)
        found.append(Device(index, name, direction, int(info[key]), card, pcm))
    return found


def _usb_ids(root: Path) -> dict[int, str]:
    """ALSA card number -> USB id, for cards that have one."""
    ids = {}
    for file in sorted(root.glob("card[0-9]*/usbid")):
        ids[int(file.parent.name.removeprefix("card"))] = file.read_text().strip().lower()
    return ids


def find(wanted: str, direction: Direction, root: Path = ASOUND) -> Device:
    """The one device that ``wanted`` names: a part of its name (any case), or a USB id
    such as ``0d8c:0014``. ``NoDevice`` when there is none, or more than one."""
    wanted = wanted.strip()
    if not wanted or wanted.isdigit():
        raise NoDevice(
            f"audio device {wanted!r}: name the card by a part of its name or by its USB id "
            f"(four and four hex digits); numbers change with every boot. {_choices(direction)}"
        )
    present = devices(direction)
    usb = _USB.fullmatch(wanted)
    if usb:
        ids = _usb_ids(root)
        matches = [d for d in present if d.card is not None and ids.get(d.card) == usb[1].lower()]
    else:
        matches = [d for d in present if d.name == wanted]
        matches = matches or [d for d in present if wanted.lower() in d.name.lower()]
    if len(matches) == 1:
        return matches[0]
    if matches:
        names = ", ".join(repr(d.name) for d in matches)
        raise NoDevice(
            f"{direction} device {wanted!r} fits more than one: {names}. Write more of it."
        )
    # PortAudio does not list a card that it could not open when it looked.
    for card in _cards(wanted, root):
        if held_by := holder(card, direction, root):
            raise DeviceBusy(f"{direction} on {wanted!r}: {_in_use(held_by)}")
    raise NoDevice(
        f"no {direction} device {wanted!r}. {_choices(direction)} {_forbidden() or ''}".rstrip()
    )


def _choices(direction: Direction) -> str:
    names = ", ".join(repr(d.name) for d in devices(direction))
    return f"There is: {names}." if names else f"There is no {direction} device at all."


def _forbidden(nodes: Path = SOUND_NODES) -> str | None:
    """Why a card may be there and not be seen: its nodes belong to a group we are not in."""
    for node in sorted(nodes.glob("pcm*")):
        if not os.access(node, os.R_OK | os.W_OK):
            group = grp.getgrgid(node.stat().st_gid).gr_name
            return f"{node} is not open to this user: add it to group {group!r} and log in again."
    return None


def _cards(wanted: str, root: Path) -> list[int]:
    """Numbers of the cards that ALSA knows by that name or USB id, usable or not."""
    listed = root / "cards"
    text = listed.read_text() if listed.is_file() else ""
    lines = re.findall(r"^ *(\d+) \[(.*)", text, re.MULTILINE)
    named = [int(number) for number, line in lines if wanted.lower() in line.lower()]
    usb = wanted.lower().removeprefix("usb:")
    return named + [card for card, usb_id in _usb_ids(root).items() if usb_id == usb]


def _card_of(device: Device, root: Path) -> int | None:
    """ALSA's number. Another root than the kernel's describes one card, number 0."""
    return 0 if device.card is None and root != ASOUND else device.card


def proc_files(device: Device, name: str, root: Path = ASOUND) -> list[Path]:
    """ALSA's files on the device's substreams; none for a device that is no card."""
    letter = "p" if device.direction == "playback" else "c"
    card = _card_of(device, root)
    return sorted(root.glob(f"card{card}/pcm{device.pcm or 0}{letter}/sub*/{name}"))


def holder(card: int | None, direction: Direction, root: Path = ASOUND) -> str | None:
    """Who has a card open, as ``NAME (pid N)``, None when nobody is known to."""
    letter = "p" if direction == "playback" else "c"
    for status in sorted(root.glob(f"card{card}/pcm*{letter}/sub*/status")):
        owner = re.search(r"^owner_pid\s*:\s*(\d+)", status.read_text(), re.MULTILINE)
        if owner and int(owner[1]) != os.getpid():
            try:
                name = Path(f"/proc/{owner[1]}/comm").read_text().strip()
            except FileNotFoundError:
                name = "a process that is gone"
            return f"{name} (pid {owner[1]})"
    return None


def explain(error: Exception, device: Device, rate: int, root: Path = ASOUND) -> DeviceError:
    """The error to raise when PortAudio would not open the device."""
    what = f"{device.direction} on {device.name!r} at {rate} Hz"
    if held_by := holder(_card_of(device, root), device.direction, root):
        return DeviceBusy(f"{what}: {_in_use(held_by)}")
    text = str(error)
    if "sample rate" in text.lower():
        works = [r for r in RATES if r != rate and _takes(device, r)]
        offer = f"It takes {', '.join(map(str, works))} Hz." if works else "It takes none of ours."
        return WrongRate(f"{what}: the card does not run at that rate. {offer}")
    if forbidden := _forbidden():
        return DeviceForbidden(f"{what}: {forbidden}")
    cause = _alsa_error(device)
    if cause in (errno.EACCES, errno.EPERM):
        return DeviceForbidden(
            f"{what}: permission denied. Add this user to group 'audio' and log in again."
        )
    if cause == errno.EBUSY or "unavailable" in text.lower():
        return DeviceBusy(f"{what}: {_in_use('another process')}")
    text = f"{os.strerror(cause)}, {text}" if cause else text
    return DeviceError(f"{what}: {text}. Unplug the card and plug it in again, or choose another.")


def _in_use(held_by: str) -> str:
    return f"in use by {held_by}. Stop it, or choose another card."


def _alsa_error(device: Device) -> int:
    """The errno with which ALSA opens the device now, 0 when it does: PortAudio makes one
    error of all but EBUSY."""
    own = FFI()
    own.cdef(
        "int snd_pcm_open(void **pcm, const char *name, int stream, int mode);"
        "int snd_pcm_close(void *pcm);"
    )
    alsa = own.dlopen("libasound.so.2")
    name = device.name if device.card is None else f"hw:{device.card},{device.pcm}"
    pcm = own.new("void **")
    stream, nonblock = int(device.direction == "capture"), 1
    result = int(alsa.snd_pcm_open(pcm, name.encode(), stream, nonblock))
    if result == 0:
        alsa.snd_pcm_close(pcm[0])
    return -result


def _takes(device: Device, rate: int) -> bool:
    check = sd.check_output_settings if device.direction == "playback" else sd.check_input_settings
    try:
        check(device=device.index, channels=1, dtype="int16", samplerate=rate)
    except sd.PortAudioError:
        return False
    return True


def rescan() -> None:
    """Lets PortAudio look again. Only while no stream is open: it ends them all."""
    sd._terminate()
    sd._initialize()
