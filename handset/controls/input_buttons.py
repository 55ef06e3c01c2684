"""Buttons of a paired or USB headset: the kernel's input devices (evdev).

What is needed of them is one 24-byte structure and three requests, so they are read here:
the library for it has no wheels for the Pi. Events carry the kernel's time, on
CLOCK_MONOTONIC. When the kernel had to drop events the keys' state is read anew, and what
changed is told, so a release is never missed.

Many headset buttons send press and release together when they are let go: they can't be
held, and are switches to the handset (``KeySettings.switches``).
"""

from __future__ import annotations

import fcntl
import os
import select
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from handset.core.keys import Key
from handset.errors import DeviceError
from handset.ports import Controls

from .watching import Watcher

EVENT = struct.Struct("@qqHHi")
"""``struct input_event`` of a 64-bit kernel: seconds, microseconds, type, code, value."""
EV_SYN, EV_KEY = 0, 1
SYN_DROPPED, SYN_REPORT = 3, 0
_CODES = 0x300 // 8
EVIOCSCLOCKID = 0x400445A0
EVIOCGRAB = 0x40044590
EVIOCGKEY = 2 << 30 | _CODES << 16 | ord("E") << 8 | 0x18
LOOK_S = 0.2
INPUTS = Path("/sys/class/input")

CODES: dict[str, int] = {
    "KEY_MEDIA": 226, "KEY_PLAYPAUSE": 164, "KEY_PHONE": 169, "KEY_VOICECOMMAND": 0x246,
    "KEY_VOLUMEUP": 115, "KEY_VOLUMEDOWN": 114, "KEY_MICMUTE": 248, "KEY_MUTE": 113,
    "KEY_PICKUP_PHONE": 0x1BD, "KEY_HANGUP_PHONE": 0x1BE, "KEY_NEXTSONG": 163,
    "KEY_PREVIOUSSONG": 165, "BTN_TRIGGER": 0x120, "BTN_TRIGGER_HAPPY1": 0x2C0,
}  # fmt: skip
"""From linux/input-event-codes.h: what headsets and their cables send."""

HEADSET: dict[int, Key] = {
    CODES["KEY_MEDIA"]: Key.TALK,
    CODES["KEY_PLAYPAUSE"]: Key.TALK,
    CODES["KEY_PHONE"]: Key.TALK,
    CODES["KEY_PICKUP_PHONE"]: Key.TALK,
    CODES["KEY_VOICECOMMAND"]: Key.ACKNOWLEDGE,
    CODES["KEY_HANGUP_PHONE"]: Key.CANCEL,
    CODES["KEY_VOLUMEUP"]: Key.VOLUME_UP,
    CODES["KEY_VOLUMEDOWN"]: Key.VOLUME_DOWN,
    CODES["KEY_MICMUTE"]: Key.MUTE,
}


def find(name: str, inputs: Path = INPUTS) -> str:
    """``/dev/input/eventN`` by a part of the device's name, by ``vid:pid``, or by path.
    ``DeviceError`` that says what there is."""
    if name.startswith("/"):
        return name
    there, found = [], []
    for event in sorted(inputs.glob("event*")) if inputs.is_dir() else []:
        try:
            title = (event / "device" / "name").read_text().strip()
            vendor = (event / "device" / "id" / "vendor").read_text().strip()
            product = (event / "device" / "id" / "product").read_text().strip()
        except OSError:
            continue
        there.append(f"{title} ({vendor}:{product})")
        if name.lower() == f"{vendor}:{product}" or name.lower() in title.lower():
            found.append(f"/dev/input/{event.name}")
    if not found:
        listed = f"; there are {', '.join(there)}" if there else "; there is none at all"
        raise DeviceError(f"no input device is called {name!r}{listed}")
    return found[0]


@dataclass(slots=True)
class InputFile:
    """An open input device. ``grab``: nobody else gets its keys."""

    path: str
    grab: bool = False
    fd: int = field(init=False)

    def __post_init__(self) -> None:
        try:
            self.fd = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except PermissionError:
            raise DeviceError(
                f"{self.path}: not allowed; put the handset's user into the group input"
            ) from None
        except OSError as error:
            raise DeviceError(f"{self.path}: {error.strerror}") from None
        try:
            fcntl.ioctl(self.fd, EVIOCSCLOCKID, struct.pack("i", time.CLOCK_MONOTONIC))
            if self.grab:
                fcntl.ioctl(self.fd, EVIOCGRAB, 1)
        except OSError as error:
            os.close(self.fd)
            raise DeviceError(f"{self.path}: {error.strerror}; is it held by another?") from None

    def pressed(self) -> set[int]:
        """Codes of the keys that are down now."""
        bits = fcntl.ioctl(self.fd, EVIOCGKEY, bytes(_CODES))
        return {n for n in range(_CODES * 8) if bits[n // 8] >> n % 8 & 1}

    def close(self) -> None:
        os.close(self.fd)


class InputButtons:
    """Read by :class:`Watcher`'s thread. ``pressed()`` gives the codes that are down."""

    def __init__(
        self,
        name: str,
        fd: int,
        pressed: Callable[[], set[int]],
        close: Callable[[], None],
        controls: Controls,
        keys: dict[int, Key],
    ) -> None:
        self._name = name
        self._fd = fd
        self._pressed = pressed
        self.close = close
        self._controls = controls
        self._keys = keys
        self._down = {code for code in pressed() if code in keys}
        self._dropping = False

    def keys_down(self) -> frozenset[Key]:
        return frozenset(self._keys[code] for code in self._down)

    def read(self, stop: threading.Event) -> None:
        while not stop.is_set():
            ready, _, _ = select.select([self._fd], [], [], LOOK_S)
            if not ready:
                continue
            data = os.read(self._fd, EVENT.size * 64)
            if not data:
                raise DeviceError("unplugged")
            for at in range(0, len(data) - EVENT.size + 1, EVENT.size):
                self._event(*EVENT.unpack_from(data, at))

    def _event(self, seconds: int, microseconds: int, kind: int, code: int, value: int) -> None:
        at_ns = seconds * 1_000_000_000 + microseconds * 1_000
        if kind == EV_SYN and code == SYN_DROPPED:
            self._dropping = True  # until the next report all that comes is half of something
        elif self._dropping:
            if kind == EV_SYN and code == SYN_REPORT:
                self._dropping = False
                self._repair(at_ns)
        elif kind == EV_KEY and value in (0, 1) and code in self._keys:
            self._change(code, bool(value), at_ns)

    def _repair(self, at_ns: int) -> None:
        now = self._pressed()
        for code in self._keys:
            self._change(code, code in now, at_ns)

    def _change(self, code: int, down: bool, at_ns: int) -> None:
        if down == (code in self._down):
            return
        (self._down.add if down else self._down.discard)(code)
        self._controls.level(self._name, self._keys[code], down, at_ns)


def watch(
    name: str,
    device: str,
    controls: Controls,
    keys: dict[int, Key] | None = None,
    grab: bool = False,
) -> Watcher:
    """The buttons of ``device``, for as long as it is there."""

    def opened() -> InputButtons:
        file = InputFile(find(device), grab)
        chosen = HEADSET if keys is None else keys
        return InputButtons(name, file.fd, file.pressed, file.close, controls, chosen)

    return Watcher(name, controls, opened)
