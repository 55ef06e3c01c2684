"""One GPIO chip, found by its label, and its lines by number.

Chips are numbered in the order in which they appear, so the same pins are on another number
after a kernel update (4, then 0, on a Raspberry Pi 5). Labels stay. Nothing else is tried when
the chip or lgpio is missing: :class:`NoChip` and :class:`NoLibrary` say what to do.

lgpio is used as it is, without gpiozero: gpiozero's factory takes a chip's number and an
SoC revision that it knows, gives edge times as floats, keeps a closed pin claimed, and does not
tell who holds a pin. What was read in lgpio 0.2.2's source and is relied on here:

* Edge times are the kernel's (``GPIO_V2_LINE_FLAG_EVENT_CLOCK_*`` is never set, so they are of
  CLOCK_MONOTONIC, in ns, taken in the interrupt). They need no conversion.
* Without ``gpio_set_debounce_micros`` every edge is passed on, at least 0.5 ms after it was made.
* The kernel keeps 16 edges of a line until lgpio's thread has read them, then drops the oldest,
  and lgpio does not tell. :mod:`handset.controls.gpio` finds such holes.
* Every call keeps Python's lock; ``gpiochip_close`` for 100 ms. So chips are listed by ioctl, and
  one is opened only to be used.
* An exception in a callback ends lgpio's thread, and with it all edges of the process.
"""

from __future__ import annotations

import fcntl
import fnmatch
import functools
import grp
import importlib
import os
import struct
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

from handset.errors import DeviceError

LABELS = ("pinctrl-rp1", "pinctrl-bcm2711", "pinctrl-bcm2835")
"""The header's chip on a Raspberry Pi 5, 4, and everything before it."""
SETTLE_S = 0.02
"""Four time constants of 50 kOhm, the chip's own pull, and 100 nF, a usual debouncing capacitor."""

_CHIPINFO = 0x8044B401
"""GPIO_GET_CHIPINFO_IOCTL of linux/gpio.h: name, label, number of lines."""
_CHIPINFO_FORMAT = "32s32sI"
_USED_BY_KERNEL = 1
"""Bit of lgpio's line flags: somebody has the line."""

_KNOWN_HOLDERS = {
    "onewire": "1-Wire has it: remove dtoverlay=w1-gpio, or give it another pin",
    "spi": "SPI has it: remove dtparam=spi=on, or use another pin",
    "i2c": "I2C has it: remove the overlay, or use another pin",
    "pps": "pps-gpio has it: remove the overlay, or use another pin",
}


class NoLibrary(DeviceError):
    """lgpio can't be imported; the message says what to install."""


class NoChip(DeviceError):
    """No chip of that label, or none that may be opened; the message lists what there is."""


class ChipGone(DeviceError):
    """The chip does not answer any more."""


class LineBusy(DeviceError):
    """Somebody else has the line; the message says who."""


class Pull(StrEnum):
    UP = "up"
    DOWN = "down"
    NONE = "none"


class Level(StrEnum):
    LOW = "low"
    HIGH = "high"


class Subscription(Protocol):
    def cancel(self) -> None:
        """No call of this function any more."""


class Lgpio(Protocol):
    """The part of the module lgpio that is used, with its own names."""

    BOTH_EDGES: int
    SET_PULL_UP: int
    SET_PULL_DOWN: int
    SET_PULL_NONE: int

    @property
    def error(self) -> type[Exception]: ...
    def gpiochip_open(self, gpiochip: int) -> int: ...
    def gpiochip_close(self, handle: int) -> int: ...
    def gpio_get_chip_info(self, handle: int) -> list[Any]: ...
    def gpio_get_line_info(self, handle: int, gpio: int) -> list[Any]: ...
    def gpio_claim_input(self, handle: int, gpio: int, lFlags: int = 0) -> int: ...
    def gpio_claim_output(self, handle: int, gpio: int, level: int = 0) -> int: ...
    def gpio_claim_alert(self, handle: int, gpio: int, eFlags: int, lFlags: int = 0) -> int: ...
    def gpio_free(self, handle: int, gpio: int) -> int: ...
    def gpio_read(self, handle: int, gpio: int) -> int: ...
    def gpio_write(self, handle: int, gpio: int, level: int) -> int: ...
    def callback(
        self, handle: int, gpio: int, edge: int = 1, func: Callable[..., None] | None = None
    ) -> Subscription: ...


@dataclass(frozen=True, slots=True)
class ChipInfo:
    """``refused``: why this chip can't be asked, empty when it can."""

    number: int
    label: str
    lines: int
    refused: str = ""

    def __str__(self) -> str:
        if self.refused:
            return f"gpiochip{self.number} ({self.refused})"
        return f"gpiochip{self.number} {self.label!r} ({self.lines} lines)"


@dataclass(frozen=True, slots=True)
class Backend:
    """``chips`` lists what there is. ``settle`` returns when lines have followed a new pull."""

    lg: Lgpio
    chips: Callable[[], Sequence[ChipInfo]]
    settle: Callable[[], None]


def lgpio_backend() -> Backend:
    """The machine's own chips. ``NoLibrary`` without lgpio."""
    return Backend(load_lgpio(), list_chips, functools.partial(time.sleep, SETTLE_S))


def load_lgpio() -> Lgpio:
    """The module. Its import makes a named pipe in the current folder and opens it by its
    relative name, so it is given a folder of its own, which may go when the pipe is open."""
    here = os.open(".", os.O_PATH | os.O_DIRECTORY)
    try:
        with tempfile.TemporaryDirectory(prefix="handset-lgpio-") as folder:
            os.chdir(folder)
            try:
                module: Any = importlib.import_module("lgpio")
            finally:
                os.fchdir(here)
    except (ImportError, OSError) as error:
        raise NoLibrary(
            f"GPIO: lgpio can't be loaded ({error}). Install the extra 'gpio': "
            "pip install 'kelter-handset[gpio]'."
        ) from error
    finally:
        os.close(here)
    if not hasattr(module, "gpio_claim_alert"):
        raise NoLibrary(
            "GPIO: the lgpio that is installed is the empty package 0.0.0.2. Install the extra "
            "'gpio' anew: pip install --force-reinstall 'kelter-handset[gpio]'."
        )
    found: Lgpio = module
    return found


def list_chips(dev: Path = Path("/dev")) -> list[ChipInfo]:
    """Every chip once: a Raspberry Pi 5 has a second name for one of them, a symbolic link."""
    found = []
    for node in dev.glob("gpiochip*"):
        number = node.name.removeprefix("gpiochip")
        if not number.isdigit() or node.is_symlink():
            continue
        try:
            fd = os.open(node, os.O_RDWR | os.O_CLOEXEC)
            try:
                answer = fcntl.ioctl(fd, _CHIPINFO, bytes(struct.calcsize(_CHIPINFO_FORMAT)))
            finally:
                os.close(fd)
        except OSError as error:
            found.append(ChipInfo(int(number), "", 0, refusal(node, error)))
            continue
        _, label, lines = struct.unpack(_CHIPINFO_FORMAT, answer)
        found.append(ChipInfo(int(number), label.split(b"\0")[0].decode(), lines))
    return sorted(found, key=lambda chip: chip.number)


def refusal(node: Path, error: OSError) -> str:
    """Why a chip can't be asked, with the group that may."""
    if not isinstance(error, PermissionError):
        return error.strerror or str(error)
    try:
        group = grp.getgrgid(node.stat().st_gid).gr_name
    except (OSError, KeyError):
        group = "gpio"
    if group == "root":
        return "only root may open it: a udev rule for SUBSYSTEM gpio with GROUP gpio is missing"
    return f"not open to this user: add it to group {group!r} and log in again"


def find(labels: Sequence[str], chips: Sequence[ChipInfo]) -> ChipInfo:
    """The one chip of the first label that is there. Labels may be shell patterns."""
    for label in labels:
        matches = [c for c in chips if not c.refused and fnmatch.fnmatchcase(c.label, label)]
        if len(matches) == 1:
            return matches[0]
        if matches:
            raise NoChip(
                f"GPIO chip {label!r}: more than one: {', '.join(map(str, matches))}. "
                "Write out one chip's label in gpio.chip."
            )
    wanted = " or ".join(map(repr, labels))
    if not chips:
        raise NoChip(
            f"GPIO chip {wanted}: there is no chip at all (/dev/gpiochip*). Check that this "
            "machine has GPIO and that its kernel has the driver."
        )
    cure = "Set gpio.chip to the label of the chip with the buttons."
    if any(chip.refused for chip in chips):
        cure = "Give this user the rights that are missing, or set gpio.chip."
    raise NoChip(f"GPIO chip {wanted}: not here. There is {', '.join(map(str, chips))}. {cure}")


class Chip:
    """An open chip. Lines are freed one by one, or all by ``close``.

    ``failed`` is what a callback raised: it is kept here, since raising it would end lgpio's
    thread.
    """

    def __init__(self, backend: Backend, info: ChipInfo) -> None:
        self.info = info
        self.failed: Exception | None = None
        self._lg = backend.lg
        self._subscriptions: dict[int, Subscription] = {}
        self._flags = {
            Pull.UP: self._lg.SET_PULL_UP,
            Pull.DOWN: self._lg.SET_PULL_DOWN,
            Pull.NONE: self._lg.SET_PULL_NONE,
        }
        try:
            self._handle = self._lg.gpiochip_open(info.number)
        except self._lg.error as error:
            raise NoChip(f"GPIO chip {info}: {error.args[0]}.") from error
        try:
            label = str(self._lg.gpio_get_chip_info(self._handle)[3])
        except self._lg.error as error:
            self.close()
            raise ChipGone(f"GPIO chip {info}: {error.args[0]}.") from error
        if label != info.label:
            self.close()
            raise NoChip(f"GPIO chip {info}: the number is another chip's now, {label!r}.")

    @classmethod
    def open(cls, backend: Backend, labels: Sequence[str]) -> Chip:
        return cls(backend, find(labels, backend.chips()))

    def claim_input(self, line: int, pull: Pull) -> None:
        """Also changes the pull of an input that is claimed already."""
        if line < self.info.lines:
            self.free(line)  # a claim of a claimed line keeps its old pull
        self._claim(line, self._lg.gpio_claim_input, self._flags[pull])

    def claim_output(self, line: int, high: bool) -> None:
        self._claim(line, self._lg.gpio_claim_output, int(high))

    def watch(self, line: int, pull: Pull, edge: Callable[[bool, int], None]) -> None:
        """``edge(high, at_ns)`` for every change from now on, in a thread of lgpio's."""

        def take(_chip: int, _line: int, level: int, at_ns: int) -> None:
            try:
                if level in (0, 1):
                    edge(level == 1, at_ns)
            except Exception as error:
                self.failed = error

        edges = self._lg.BOTH_EDGES
        self._subscriptions[line] = self._lg.callback(self._handle, line, edges, take)
        self._claim(line, self._lg.gpio_claim_alert, edges, self._flags[pull])

    def read(self, line: int) -> bool:
        """Whether a claimed line is high. ``ChipGone`` when it can't be read."""
        try:
            return self._lg.gpio_read(self._handle, line) == 1
        except self._lg.error as error:
            raise self._gone(line, error) from error

    def write(self, line: int, high: bool) -> None:
        try:
            self._lg.gpio_write(self._handle, line, int(high))
        except self._lg.error as error:
            raise self._gone(line, error) from error

    def free(self, line: int) -> None:
        """Nothing happens to a line that is not claimed."""
        if line in self._subscriptions:
            self._subscriptions.pop(line).cancel()
        try:
            self._lg.gpio_free(self._handle, line)
        except self._lg.error as error:
            raise self._gone(line, error) from error

    def close(self) -> None:
        """Frees all lines. What a chip that is gone says to that is of no interest."""
        for subscription in self._subscriptions.values():
            subscription.cancel()
        self._subscriptions.clear()
        try:
            self._lg.gpiochip_close(self._handle)
        except self._lg.error:
            return

    def _claim(self, line: int, claim: Callable[..., int], *how: int) -> None:
        if not 0 <= line < self.info.lines:
            raise DeviceError(
                f"GPIO {line}: {self.info} has lines 0 to {self.info.lines - 1}. Set another line."
            )
        try:
            claim(self._handle, line, *how)
        except self._lg.error as error:
            held = self.holder(line)
            if held is None:
                raise DeviceError(f"GPIO {line} of {self.info}: {error.args[0]}.") from error
            raise LineBusy(f"GPIO {line} is in use by {held}.") from error

    def holder(self, line: int) -> str | None:
        """Who has a line, by the kernel's name for it and by the processes that have the chip
        open; None when nobody has it."""
        try:
            _, _, flags, _, user = self._lg.gpio_get_line_info(self._handle, line)
        except self._lg.error as error:
            raise self._gone(line, error) from error
        if not flags & _USED_BY_KERNEL:
            return None
        for start, cure in _KNOWN_HOLDERS.items():
            if str(user).startswith(start):
                return f"{user!r}: {cure}"
        processes = ", ".join(_openers(Path(f"/dev/gpiochip{self.info.number}")))
        return f"{user!r} ({processes or 'the kernel, another user, or this program itself'})"

    def _gone(self, line: int, error: Exception) -> ChipGone:
        return ChipGone(f"GPIO {line} of {self.info} does not answer: {error.args[0]}.")


def _openers(node: Path) -> list[str]:
    """Other processes that have a file open, as ``NAME (pid N)``, as far as we may see them."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        if process.name == str(os.getpid()):
            continue
        try:
            if any(os.readlink(fd) == str(node) for fd in (process / "fd").iterdir()):
                found.append(f"{(process / 'comm').read_text().strip()} (pid {process.name})")
        except OSError:  # it ended, or is not ours to look into
            continue
    return sorted(found)
