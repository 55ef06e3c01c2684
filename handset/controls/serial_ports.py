"""Serial accessories by what they are, not by what they are called today.

A USB port is named ``vid:pid`` or ``vid:pid:serial`` (hexadecimal ids), which survives
unplugging and renumbering; a path is for a bench. A port is opened exclusively: two readers
would each get half of the bytes. So it is locked for those who ask (``flock``) and closed to
those who don't (``TIOCEXCL``): programs that look for modems try every port there is.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import termios
from pathlib import Path

import serial
from serial.tools import list_ports

from handset.errors import DeviceError

_USB = re.compile(r"([0-9a-fA-F]{4}):([0-9a-fA-F]{4})(?::(.+))?")


def find(name: str) -> str:
    """The path of a port now. ``DeviceError`` that says what ports there are."""
    usb = _USB.fullmatch(name)
    if usb is None:
        if os.path.exists(name):
            return name
        raise DeviceError(f"there is no serial port {name}{_there()}")
    vendor, product, number = int(usb[1], 16), int(usb[2], 16), usb[3]
    found = [
        port.device
        for port in list_ports.comports()
        if (port.vid, port.pid) == (vendor, product) and number in (None, port.serial_number)
    ]
    if not found:
        raise DeviceError(f"no serial accessory {name} is plugged in{_there()}")
    if len(found) > 1:
        raise DeviceError(
            f"{len(found)} serial accessories are {name} ({', '.join(sorted(found))}); "
            "name one with its serial number, as vid:pid:serial"
        )
    return str(found[0])


def _there() -> str:
    ports = [
        f"{port.device} ({port.vid:04x}:{port.pid:04x})" if port.vid else port.device
        for port in list_ports.comports()
    ]
    return f"; there are {', '.join(sorted(ports))}" if ports else "; there is none at all"


def open_port(name: str, baud: int = 115_200, proc: Path = Path("/proc")) -> serial.Serial:
    """Open, ours alone, and non-blocking. ``DeviceError`` that names who has it."""
    path = find(name)
    try:
        port = serial.Serial(path, baud, timeout=0, write_timeout=0, exclusive=True)
        fcntl.ioctl(port.fileno(), termios.TIOCEXCL)
        return port
    except (OSError, termios.error) as error:
        if holders := _holders(path, proc):
            raise DeviceError(f"{path} is in use by {holders}; end that first") from error
        if not os.access(path, os.R_OK | os.W_OK):
            raise DeviceError(
                f"{path}: not allowed; put the handset's user into the group that owns it "
                "(dialout on Debian)"
            ) from error
        raise DeviceError(f"{path}: {error}") from error


def close_port(port: serial.Serial) -> None:
    """Closed, and free for the next one, even while a thread of ours still sleeps in it."""
    if port.is_open:
        with contextlib.suppress(OSError, termios.error):
            # What a dead accessory did not take is not waited for.
            termios.tcflush(port.fileno(), termios.TCOFLUSH)
        with contextlib.suppress(OSError):
            fcntl.ioctl(port.fileno(), termios.TIOCNXCL)
        with contextlib.suppress(OSError):
            fcntl.flock(port.fileno(), fcntl.LOCK_UN)
    port.close()


def _holders(path: str, proc: Path) -> str:
    """Other processes that have the file open, as far as we may look."""
    target, found = os.path.realpath(path), []
    for process in proc.iterdir():
        if not process.name.isdigit() or int(process.name) == os.getpid():
            continue
        try:
            open_files = [os.readlink(link) for link in (process / "fd").iterdir()]
            command = (process / "comm").read_text().strip()
        except OSError:
            continue
        if target in open_files:
            found.append(f"{command} (process {process.name})")
    return ", ".join(found)
