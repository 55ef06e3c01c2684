"""A journal in memory that outlives the process: a file mapped from a tmpfs.

A record is in it when the length word that covers it is written; a process killed in the
middle of one leaves the records before it. Nothing here waits for a disk, and a power
cut loses it: what has to survive that is in the outbox's store.

Layout: ``magic, u64 boot id x 2, u64 used``, then records of ``u32 length`` and JSON.
"""

from __future__ import annotations

import json
import mmap
import struct
from pathlib import Path
from typing import Any

_MAGIC = b"KHJRNL01"
_USED = struct.Struct("@Q")  # native: one store of an aligned word, so it is never half written
_BOOT = struct.Struct("=QQ")
_LENGTH = struct.Struct("=I")
_USED_AT = len(_MAGIC) + _BOOT.size
_FIRST = _USED_AT + _USED.size
SIZE = 8 << 20
"""Bytes. One record per 100-200 ms of audio: days of speech without a pause."""

Record = dict[str, Any]


class JournalFull(OSError):
    """More was said without a pause than the journal holds."""


class Journal:
    """Made anew; read what a dead process left with :func:`read_journal` first."""

    def __init__(self, path: Path, boot_id: tuple[int, int], size: int = SIZE) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        with path.open("w+b") as file:
            file.truncate(size)
            self._map = mmap.mmap(file.fileno(), size)
        self._map[: len(_MAGIC)] = _MAGIC
        _BOOT.pack_into(self._map, len(_MAGIC), *boot_id)
        self._size = size
        self._used = 0
        self.reset()

    def append(self, record: Record) -> None:
        """In the journal when this returns."""
        data = json.dumps(record, separators=(",", ":")).encode()
        end = self._used + _LENGTH.size + len(data)
        if end > self._size:
            raise JournalFull(
                f"the crash journal is full ({self._size} bytes); restart the handset"
            )
        _LENGTH.pack_into(self._map, self._used, len(data))
        self._map[self._used + _LENGTH.size : end] = data
        self._used = end
        _USED.pack_into(self._map, _USED_AT, end)

    @property
    def used(self) -> int:
        """Bytes of records."""
        return self._used - _FIRST

    def reset(self) -> None:
        """Nothing of it is needed any more."""
        self._used = _FIRST
        _USED.pack_into(self._map, _USED_AT, _FIRST)

    def close(self) -> None:
        self._map.close()


def read_journal(path: Path, boot_id: tuple[int, int]) -> list[Record]:
    """Records of a process of this boot, empty when there is no such journal."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return []
    if len(data) < _FIRST or data[: len(_MAGIC)] != _MAGIC:
        return []
    if _BOOT.unpack_from(data, len(_MAGIC)) != boot_id:
        return []
    (used,) = _USED.unpack_from(data, _USED_AT)
    records: list[Record] = []
    at = _FIRST
    upto = min(used, len(data))
    while at + _LENGTH.size <= upto:
        (length,) = _LENGTH.unpack_from(data, at)
        at += _LENGTH.size
        if at + length > upto:
            break
        records.append(json.loads(data[at : at + length]))
        at += length
    return records
