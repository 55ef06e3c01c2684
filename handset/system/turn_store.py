"""Spoken words that the edge does not have yet, where a crash of the process leaves them.

A file per turn in a tmpfs, never on a disk: whoever has the card afterwards has no speech.
A packet is in the file when :meth:`TurnStore.packet` returns, so it outlives the process
however that is killed; a power cut loses it. :meth:`TurnStore.forget` overwrites a turn
with zeros and removes it.

A file: ``magic, u64 boot id x 2, u64 turn, i64 start, u32 CRC`` of all that, then records
of ``u8 kind, u8 0, u16 length, u32 number, u32 CRC`` of these and of the bytes that follow.
Kind 1 is a packet (``number``: which), kind 2 the end, eight bytes. The first record that
is torn or wrong ends the file.

What the store can't prevent: pages of a tmpfs may go to a swap area, and on a machine that
swaps to its card, so may speech. That is for the service's unit: a runtime directory mounted
with ``noswap``, or ``MemorySwapMax=0`` (:func:`handset.system.directories.may_be_swapped`).

Nothing here stops a recording. What the store could not keep is named in the return value;
the audio of the running process does not depend on it.
"""

from __future__ import annotations

import contextlib
import os
import re
import struct
import zlib
from dataclasses import dataclass, field
from pathlib import Path

from handset.core.packets import MAX_PACKET
from handset.errors import UsageError

from .directories import in_memory, own_directory

MOST_BYTES = 8 << 20
"""Of all turns together: over half an hour of speech at 24 kbit/s."""

_MAGIC = b"KHTURN01"
_HEAD = struct.Struct("<8sQQQq")
_RECORD = struct.Struct("<BxHI")
_CRC = struct.Struct("<I")
_END = struct.Struct("<q")
_BEFORE = _RECORD.size + _CRC.size
_PACKET_KIND, _END_KIND = 1, 2
_ZEROS = 1 << 16
_NAME = re.compile(r"turn-[0-9]+")


@dataclass(frozen=True, slots=True)
class StoredTurn:
    """Packet ``i`` begins at capture sample ``start + 960 * i``. ``end`` is None when the
    process that recorded it never came to it."""

    turn: int
    start: int
    end: int | None
    packets: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class GivenUp:
    """Packets of a turn from ``first`` on that a crash now would lose. 0: all of it."""

    turn: int
    first: int
    reason: str


@dataclass(slots=True)
class _File:
    path: Path
    size: int
    packets: int = 0
    ended: bool = False
    cut: bool = False
    """Something of it is missing already, so nothing can follow."""
    fd: int | None = field(default=None, repr=False)


Lost = tuple[GivenUp, ...]


class TurnStore:
    """One process, one thread. ``boot_id``: what other boots left is wiped.

    ``UsageError`` when the directory is another user's, or on a disk: ``allow_disk`` is for
    tests only.
    """

    def __init__(
        self,
        directory: Path,
        boot_id: tuple[int, int],
        most_bytes: int = MOST_BYTES,
        allow_disk: bool = False,
    ) -> None:
        own_directory(directory)
        if not allow_disk and not in_memory(directory):
            raise UsageError(
                f"the directory {directory} is not in memory (tmpfs), and speech is never "
                "written to a disk; name another one (files.runtime)"
            )
        self.directory = directory
        self.most_bytes = most_bytes
        self._boot = boot_id
        self._files: dict[int, _File] = {}
        self._used = 0
        self._given_up: set[int] = set()
        self._adopt()

    @property
    def used(self) -> int:
        """Bytes of all files."""
        return self._used

    def load(self) -> list[StoredTurn]:
        """Every turn that is stored, the oldest first: at a start, what a dead process left."""
        found = (_read(file.path.read_bytes(), self._boot) for file in self._files.values())
        return [each[0] for each in found if each is not None]

    def begin(self, turn: int, start: int) -> Lost:
        """A turn whose packet 0 begins at capture sample ``start``. A number is used once."""
        if turn in self._files or turn in self._given_up:
            raise UsageError(f"turn {turn} is in the store already; forget it first")
        head = _head(self._boot, turn, start)
        lost = self._make_room(len(head), turn)
        file = _File(self.directory / f"turn-{turn}", 0)
        self._files[turn] = file
        problem = self._append(file, head, os.O_CREAT | os.O_EXCL)
        if problem:
            return (*lost, self._give_up(turn, problem))
        return lost

    def packet(self, turn: int, index: int, packet: bytes) -> Lost:
        """The turn's next packet; ``index`` counts from 0."""
        file = self._open_turn(turn)
        if file is None or file.cut:
            return ()
        if file.ended or index != file.packets:
            raise UsageError(
                f"turn {turn}: packet {index} after {file.packets}"
                f"{' and its end' if file.ended else ''}; packets are stored in order"
            )
        if not 0 < len(packet) <= MAX_PACKET:
            raise UsageError(f"turn {turn}: a packet of {len(packet)} bytes is no Opus packet")
        record = _record(_PACKET_KIND, index, packet)
        lost = self._make_room(len(record), turn)
        if self._used + len(record) > self.most_bytes:
            problem = f"this turn alone fills the {self.most_bytes} bytes of the store"
        else:
            problem = self._append(file, record)
        if problem:
            file.cut = True
            return (*lost, GivenUp(turn, index, problem))
        file.packets += 1
        return lost

    def end(self, turn: int, end: int) -> Lost:
        """The turn's end on the capture timeline. Packets may be missing before it, when
        they were given up."""
        file = self._open_turn(turn)
        if file is None or file.ended:
            return ()
        problem = self._append(file, _record(_END_KIND, file.packets, _END.pack(end)))
        file.ended = True
        _close(file)
        # A few bytes above the bound are better than a turn without its end.
        return (GivenUp(turn, file.packets, problem),) if problem else ()

    def forget(self, turn: int) -> None:
        """The edge has it, or nobody wants it. No effect on one that is not there."""
        self._given_up.discard(turn)
        file = self._files.pop(turn, None)
        if file is not None:
            self._wipe(file)

    def close(self) -> None:
        """What is stored stays for the next process."""
        for file in self._files.values():
            _close(file)

    def _adopt(self) -> None:
        found: list[tuple[StoredTurn, _File]] = []
        for path in self.directory.iterdir():
            if not _NAME.fullmatch(path.name) or path.is_symlink() or not path.is_file():
                continue
            data = path.read_bytes()
            file = _File(path, len(data))
            self._used += file.size
            read = _read(data, self._boot)
            if read is None or path.name != f"turn-{read[0].turn}":
                self._wipe(file)
                continue
            stored, whole = read
            file.packets, file.ended = len(stored.packets), stored.end is not None
            if whole < file.size:  # what follows a torn record would never be read
                os.truncate(path, whole)
                self._used -= file.size - whole
                file.size = whole
            found.append((stored, file))
        for stored, file in sorted(found, key=lambda each: each[0].turn):
            self._files[stored.turn] = file

    def _open_turn(self, turn: int) -> _File | None:
        """None for one that was given up."""
        file = self._files.get(turn)
        if file is None and turn not in self._given_up:
            raise UsageError(f"turn {turn} is not in the store; begin it first")
        return file

    def _make_room(self, needed: int, besides: int) -> Lost:
        """Gives up the oldest turns, but never the one that is being recorded."""
        lost = []
        while self._used + needed > self.most_bytes:
            oldest = next((turn for turn in self._files if turn != besides), None)
            if oldest is None:
                break
            lost.append(
                self._give_up(oldest, f"the store's {self.most_bytes} bytes went to newer turns")
            )
        return tuple(lost)

    def _give_up(self, turn: int, reason: str) -> GivenUp:
        self._wipe(self._files.pop(turn))
        self._given_up.add(turn)
        return GivenUp(turn, 0, reason)

    def _append(self, file: _File, data: bytes, flags: int = 0) -> str:
        """Empty when all of it is in the file, else why nothing is."""
        try:
            if file.fd is None:
                file.fd = os.open(
                    file.path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | flags, 0o600
                )
            if os.pwrite(file.fd, data, file.size) == len(data):
                file.size += len(data)
                self._used += len(data)
                return ""
            problem = "the file system is full"
        except OSError as error:
            problem = error.strerror or str(error)
        if file.fd is not None:
            with contextlib.suppress(OSError):
                os.ftruncate(file.fd, file.size)
        return f"{file.path}: {problem}"

    def _wipe(self, file: _File) -> None:
        """Zeros over all of it, from its head on: a half wiped turn is none. Then away."""
        _close(file)
        self._used -= file.size
        with contextlib.suppress(OSError):
            fd = os.open(file.path, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                left = os.fstat(fd).st_size
                while left > 0:
                    left -= os.write(fd, bytes(min(left, _ZEROS)))
            finally:
                os.close(fd)
        with contextlib.suppress(OSError):
            file.path.unlink()


def _close(file: _File) -> None:
    if file.fd is not None:
        os.close(file.fd)
        file.fd = None


def _head(boot: tuple[int, int], turn: int, start: int) -> bytes:
    head = _HEAD.pack(_MAGIC, *boot, turn, start)
    return head + _CRC.pack(zlib.crc32(head))


def _record(kind: int, number: int, data: bytes) -> bytes:
    record = _RECORD.pack(kind, len(data), number)
    return record + _CRC.pack(zlib.crc32(data, zlib.crc32(record))) + data


def _read(data: bytes, boot: tuple[int, int]) -> tuple[StoredTurn, int] | None:
    """The turn in a file, and the bytes up to where it is whole. None: no turn of this boot."""
    at = _HEAD.size + _CRC.size
    if len(data) < at or _CRC.pack(zlib.crc32(data[: _HEAD.size])) != data[_HEAD.size : at]:
        return None
    magic, *of_boot, turn, start = _HEAD.unpack_from(data)
    if magic != _MAGIC or tuple(of_boot) != boot:
        return None
    packets: list[bytes] = []
    while at + _BEFORE <= len(data):
        kind, length, number = _RECORD.unpack_from(data, at)
        body = data[at + _BEFORE : at + _BEFORE + length]
        if len(body) < length or number != len(packets):
            break
        if data[at : at + _BEFORE + length] != _record(kind, number, body):
            break
        at += _BEFORE + length
        if kind == _END_KIND:
            return StoredTurn(turn, start, _END.unpack(body)[0], tuple(packets)), at
        packets.append(body)
    return StoredTurn(turn, start, None, tuple(packets)), at
