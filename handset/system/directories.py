"""What a directory must be before speech or orders go through it: our own, and in memory."""

from __future__ import annotations

import ctypes
import os
import stat
from pathlib import Path

from handset.errors import UsageError

TMPFS_MAGIC = 0x01021994
RAMFS_MAGIC = 0x858458F6
"""``f_type`` of the file systems that have no disk (statfs(2))."""
_STATFS_BYTES = 512
"""More than any ``struct statfs``; its first word is ``f_type`` on every 64-bit Linux."""


def own_directory(path: Path) -> None:
    """Makes the directory, mode 0700, if it is not there.

    ``UsageError`` when somebody else owns it or may write to it: in a shared place such as
    ``/dev/shm`` another user could have made it first.
    """
    try:
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
        found = path.stat()
    except OSError as error:
        raise UsageError(
            f"the directory {path} can't be used: {error.strerror}; name one that the handset "
            "may write to (files.runtime)"
        ) from None
    if found.st_uid not in (os.geteuid(), 0):
        raise UsageError(
            f"the directory {path} belongs to user {found.st_uid}, the handset runs as user "
            f"{os.geteuid()}; remove it, or name another one (files.runtime)"
        )
    if stat.S_IMODE(found.st_mode) & 0o022:
        raise UsageError(
            f"the directory {path} has mode {stat.S_IMODE(found.st_mode):04o}, others may write "
            "to it; chmod 700, or name another one (files.runtime)"
        )


def in_memory(path: Path) -> bool:
    """Whether the directory is on a tmpfs or ramfs. ``OSError`` as statfs(2)."""
    libc = ctypes.CDLL(None, use_errno=True)
    buffer = ctypes.create_string_buffer(_STATFS_BYTES)
    if libc.statfs(os.fsencode(path), buffer) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(path))
    kind = ctypes.c_ulong.from_buffer(buffer).value & 0xFFFFFFFF
    return kind in (TMPFS_MAGIC, RAMFS_MAGIC)


def may_be_swapped(path: Path, proc: Path = Path("/proc")) -> bool:
    """Whether the kernel may move pages of this tmpfs to a swap area.

    False without a swap area, or when the mount says ``noswap`` (Linux 6.4). A control
    group with ``MemorySwapMax=0`` prevents it too, for as long as the service runs, and is
    not looked at here.
    """
    swaps = (proc / "swaps").read_text().splitlines()[1:]
    if not swaps:
        return False
    device = path.stat().st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    for line in (proc / "self/mountinfo").read_text().splitlines():
        fields, _, tail = line.partition(" - ")
        if fields.split()[2] == number:
            return "noswap" not in tail.split()[-1].split(",")
    return True
