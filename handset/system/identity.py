"""Which boot this is, and where files of this run and of all runs go."""

from __future__ import annotations

import os
import uuid
from pathlib import Path

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def boot_id() -> uuid.UUID:
    """New at every boot of the kernel; CLOCK_MONOTONIC counts within one."""
    return uuid.UUID(_BOOT_ID.read_text().strip())


def boot_words(boot: uuid.UUID) -> tuple[int, int]:
    """The boot id as the native code keeps it."""
    return boot.int >> 64, boot.int & (1 << 64) - 1


def runtime_directory() -> Path:
    """A tmpfs that outlives the process: systemd's, the user's, or shared memory."""
    if given := os.environ.get("RUNTIME_DIRECTORY"):
        return Path(given.split(":")[0])
    base = os.environ.get("XDG_RUNTIME_DIR")
    if base and Path(base).is_dir():
        return Path(base) / "kelter-handset"
    return Path("/dev/shm") / f"kelter-handset-{os.getuid()}"


def state_directory() -> Path:
    """A disk that outlives the boot: systemd's, or the user's."""
    if given := os.environ.get("STATE_DIRECTORY"):
        return Path(given.split(":")[0])
    base = os.environ.get("XDG_STATE_HOME")
    return (Path(base) if base else Path.home() / ".local/state") / "kelter-handset"
