"""Buttons of a paired or USB headset: the kernel's input devices (evdev).

What is needed of them is one 24-byte structure and three requests, so they are read here:
the library for it has no wheels for the Pi. Events carry the kernel's time, on
CLOCK_MONOTONIC. When the kernel had to drop events the keys' state is read anew, and what
changed is told, so a release is never missed.

One headset is often several input devices (its telephone keys and its volume keys), which
come one after the other: all that have a key of ours are read, as one control.

Many headset buttons send press and release together when they are let go: they can't be
held, and are switches to the handset (``KeySettings.switches``). A paired headset's play
button alternates between play and pause, so both are the talk key.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import struct
import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

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
RESCAN_S = 2.0
INPUTS = Path("/sys/class/input")

CODES: dict[str, int] = {
    "KEY_MEDIA": 226, "KEY_PLAYPAUSE": 164, "KEY_PHONE": 169, "KEY_VOICECOMMAND": 0x246,
    "KEY_VOLUMEUP": 115, "KEY_VOLUMEDOWN": 114, "KEY_MICMUTE": 248, "KEY_MUTE": 113,
    "KEY_PICKUP_PHONE": 0x1BD, "KEY_HANGUP_PHONE": 0x1BE, "KEY_NEXTSONG": 163,
    "KEY_PREVIOUSSONG": 165, "KEY_PLAYCD": 200, "KEY_PAUSECD": 201, "KEY_STOPCD": 166,
    "KEY_PLAY": 207, "KEY_PAUSE": 119, "BTN_TRIGGER": 0x120, "BTN_TRIGGER_HAPPY1": 0x2C0,
}  # fmt: skip
"""From linux/input-event-codes.h: what headsets and their cables send."""

HEADSET: dict[int, Key] = {
    CODES["KEY_MEDIA"]: Key.TALK,
    CODES["KEY_PLAYPAUSE"]: Key.TALK,
    CODES["KEY_PLAYCD"]: Key.TALK,
    CODES["KEY_PAUSECD"]: Key.TALK,
    CODES["KEY_PHONE"]: Key.TALK,
    CODES["KEY_PICKUP_PHONE"]: Key.TALK,
    CODES["KEY_VOICECOMMAND"]: Key.ACKNOWLEDGE,
    CODES["KEY_HANGUP_PHONE"]: Key.CANCEL,
    CODES["KEY_VOLUMEUP"]: Key.VOLUME_UP,
    CODES["KEY_VOLUMEDOWN"]: Key.VOLUME_DOWN,
    CODES["KEY_MICMUTE"]: Key.MUTE,
}


def find(name: str, codes: Collection[int] = (), inputs: Path = INPUTS) -> list[str]:
    """Every ``/dev/input/eventN`` by a part of the device's name, by ``vid:pid``, or by path,
    that has one of the keys. ``DeviceError`` that says what there is."""
    if name.startswith("/"):
        return [name]
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
            found.append(event)
    if not found:
        listed = f"; there are {', '.join(there)}" if there else "; there is none at all"
        raise DeviceError(f"no input device is called {name!r}{listed}")
    able = [event for event in found if not codes or _has(event) & set(codes)]
    if not able:
        raise DeviceError(f"input device {name!r} has none of the keys that are asked of it")
    return [f"/dev/input/{event.name}" for event in able]


def _has(event: Path) -> set[int]:
    """The keys of a device: a bit mask in words of 64 bits, the highest first."""
    try:
        words = (event / "device" / "capabilities" / "key").read_text().split()
    except OSError:
        return set()
    mask = sum(int(word, 16) << 64 * n for n, word in enumerate(reversed(words)))
    return {code for code in range(_CODES * 8) if mask >> code & 1}


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


class Node(Protocol):
    """One input device, open. ``pressed()`` gives the codes that are down."""

    path: str
    fd: int

    def pressed(self) -> set[int]: ...

    def close(self) -> None: ...


@dataclass(slots=True)
class _Open:
    node: Node
    down: set[int]
    dropping: bool = False


class InputButtons:
    """Read by :class:`Watcher`'s thread. ``look(paths)`` opens the devices that are there and
    are not among those; ``DeviceError`` when there is none at all."""

    def __init__(
        self,
        name: str,
        look: Callable[[Collection[str]], list[Node]],
        controls: Controls,
        keys: dict[int, Key],
    ) -> None:
        self._name = name
        self._look = look
        self._controls = controls
        self._keys = keys
        self._open: dict[int, _Open] = {}
        self._take(look(()))

    def _take(self, nodes: list[Node]) -> None:
        for node in nodes:
            self._open[node.fd] = _Open(node, set())
        try:
            for node in nodes:
                self._open[node.fd].down = {code for code in node.pressed() if code in self._keys}
        except BaseException:
            self.close()
            raise

    def keys_down(self) -> frozenset[Key]:
        return frozenset(self._keys[code] for each in self._open.values() for code in each.down)

    def read(self, stop: threading.Event) -> None:
        rescan_at = time.monotonic() + RESCAN_S
        while not stop.is_set():
            ready, _, _ = select.select(list(self._open), [], [], LOOK_S)
            for fd in ready:
                data = os.read(fd, EVENT.size * 64)
                if not data:
                    raise DeviceError("unplugged")
                for at in range(0, len(data) - EVENT.size + 1, EVENT.size):
                    self._event(self._open[fd], *EVENT.unpack_from(data, at))
            if not ready and time.monotonic() >= rescan_at:
                rescan_at = time.monotonic() + RESCAN_S
                self._join()

    def _join(self) -> None:
        """Devices that came later. A key that is down on one is nothing until it was up."""
        before = set(self._open)
        with contextlib.suppress(DeviceError):  # one that can't be opened costs none of those
            self._take(self._look([each.node.path for each in self._open.values()]))
        for fd in self._open.keys() - before:
            self._open[fd].down.clear()

    def _event(
        self, one: _Open, seconds: int, microseconds: int, kind: int, code: int, value: int
    ) -> None:
        at_ns = seconds * 1_000_000_000 + microseconds * 1_000
        if kind == EV_SYN and code == SYN_DROPPED:
            one.dropping = True  # until the next report all that comes is half of something
        elif one.dropping:
            if kind == EV_SYN and code == SYN_REPORT:
                one.dropping = False
                self._repair(one, at_ns)
        elif kind == EV_KEY and value in (0, 1) and code in self._keys:
            self._change(one, code, bool(value), at_ns)

    def _repair(self, one: _Open, at_ns: int) -> None:
        now = one.node.pressed()
        for code in self._keys:
            self._change(one, code, code in now, at_ns)

    def _change(self, one: _Open, code: int, down: bool, at_ns: int) -> None:
        key, before = self._keys[code], self.keys_down()
        (one.down.add if down else one.down.discard)(code)
        if (key in before) != (key in self.keys_down()):
            # Of two buttons for one key, the first that goes down and the last that goes up.
            self._controls.level(self._name, key, down, at_ns)

    def close(self) -> None:
        while self._open:
            self._open.popitem()[1].node.close()


def watch(
    name: str,
    device: str,
    controls: Controls,
    keys: dict[int, Key] | None = None,
    grab: bool = False,
) -> Watcher:
    """The buttons of ``device``, for as long as it is there."""
    chosen = HEADSET if keys is None else keys

    def look(known: Collection[str]) -> list[Node]:
        opened: list[Node] = []
        try:
            for path in find(device, chosen):
                if path not in known:
                    opened.append(InputFile(path, grab))
        except BaseException:
            for node in opened:
                node.close()
            raise
        return opened

    return Watcher(name, controls, lambda: InputButtons(name, look, controls, chosen))
