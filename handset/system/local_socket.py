"""The local socket of the running handset: requests of the person's own programs.

A Unix stream socket in the runtime directory, mode 0600. Beside the mode, the kernel is
asked who is at the other end (SO_PEERCRED): the handset's own user and root are served.
There is no port and nothing to reach from another machine.

A lock file beside the socket says whether a process has it: the kernel gives the lock back
when that process ends, however it ends. The socket is made under another name, and renamed
when it listens with the right mode, so nobody ever finds one that is half made.

Everything is bounded: the length of a line, the clients, the time a client may take for its
line and its answer, and the time of the handler.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import inspect
import logging
import os
import socket
import struct
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from handset.errors import HandsetError, UsageError

from .directories import own_directory
from .local_requests import (
    LONGEST_ANSWER,
    LONGEST_LINE,
    Answer,
    Request,
    checked,
    read_line,
    write_line,
)

log = logging.getLogger(__name__)

NAME = "control"
"""The socket's name in the runtime directory."""
_CREDENTIALS = struct.Struct("@iII")
"""``struct ucred``: pid, uid, gid (unix(7))."""
_CLOSING_S = 1.0

Handle = Callable[[Request], Awaitable[Answer] | Answer]


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds, but for ``clients``: how many are served at a time."""

    clients: int = 8
    idle_s: float = 30.0
    """For the whole of a line, from the first byte awaited."""
    handle_s: float = 10.0
    write_s: float = 5.0


class LocalServer:
    """Serves ``handle`` on ``path``; on the event loop, one request of a client at a time.

    ``handle`` is given requests that :func:`checked` has passed, and gives the facts of the
    answer. A :class:`HandsetError` that it raises is the answer; of any other error the
    client learns only that there was one, the log the rest. One that takes longer than
    ``limits.handle_s`` is cancelled.
    """

    def __init__(self, path: Path, handle: Handle, limits: Limits | None = None) -> None:
        self.path = path
        self._handle = handle
        self._limits = limits or Limits()
        self._lock: int | None = None
        self._inode = 0
        self._server: asyncio.Server | None = None
        self._clients: set[asyncio.Task[None]] = set()
        self._working: set[asyncio.Task[None]] = set()
        """Clients whose request is in work."""

    async def start(self) -> None:
        """``UsageError`` when another process has the socket, or the place can't be used."""
        if self._server is not None:
            raise UsageError(f"the local socket {self.path} is open already")
        own_directory(self.path.parent)
        self._lock = _locked(self.path)
        try:
            listening = _listening(self.path, self._limits.clients)
            self._inode = self.path.lstat().st_ino
            self._server = await asyncio.start_unix_server(
                self._connected, sock=listening, limit=LONGEST_LINE
            )
        except BaseException:
            self._unlock()
            raise

    async def close(self) -> None:
        """Takes nothing new; requests in work have a second to end. Removes the socket."""
        server, self._server = self._server, None
        if server is None:
            return
        server.close()
        with contextlib.suppress(FileNotFoundError):
            if self.path.lstat().st_ino == self._inode:
                self.path.unlink()
        clients = set(self._clients)
        for task in clients - self._working:
            task.cancel()
        if clients:
            _, late = await asyncio.wait(clients, timeout=_CLOSING_S)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        self._unlock()

    async def __aenter__(self) -> LocalServer:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    def _unlock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._clients.add(task)
        task.add_done_callback(self._clients.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if refusal := self._refusal(writer):
                await self._write(writer, _error(refusal))
                return
            while await self._one(reader, writer):
                pass
        except (TimeoutError, ConnectionError):
            pass  # gone, or too slow to be told
        finally:
            # With bytes that nobody takes, a polite close would wait for ever.
            if writer.transport.get_write_buffer_size():
                writer.transport.abort()
            writer.close()

    def _refusal(self, writer: asyncio.StreamWriter) -> str:
        pid, uid = peer(writer.get_extra_info("socket"))
        if uid not in (os.geteuid(), 0):
            log.warning("local socket: process %d of user %d was refused", pid, uid)
            return f"user {uid} may not ask; the handset serves user {os.geteuid()} and root"
        if len(self._clients) > self._limits.clients:
            return f"{self._limits.clients} clients are connected already; try again later"
        return ""

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """One request. Whether there may be another."""
        try:
            async with asyncio.timeout(self._limits.idle_s):
                line = await reader.readuntil(b"\n")
        except asyncio.IncompleteReadError:
            return False
        except asyncio.LimitOverrunError:
            await self._write(writer, _error(f"a line has at most {LONGEST_LINE} bytes"))
            return False
        except TimeoutError:
            await self._write(writer, _error(f"no line within {self._limits.idle_s:g} s"))
            return False
        task = asyncio.current_task()
        assert task is not None
        self._working.add(task)
        try:
            await self._write(writer, await self._answer(line))
        finally:
            self._working.discard(task)
        return self._server is not None

    async def _answer(self, line: bytes) -> bytes:
        try:
            facts = self._handle(checked(read_line(line)))
            if inspect.isawaitable(facts):
                async with asyncio.timeout(self._limits.handle_s):
                    facts = await facts
            answer = write_line({"ok": True} | facts)
        except HandsetError as error:
            return _error(str(error))
        except TimeoutError:
            return _error(f"the handset did not do it within {self._limits.handle_s:g} s")
        except Exception:
            log.exception("local socket: a request failed")
            return _error("the handset failed at this; its log says where")
        if len(answer) > LONGEST_ANSWER:
            return _error(f"the answer has {len(answer)} bytes, at most {LONGEST_ANSWER} are sent")
        return answer

    async def _write(self, writer: asyncio.StreamWriter, answer: bytes) -> None:
        writer.write(answer)
        async with asyncio.timeout(self._limits.write_s):
            await writer.drain()


def _error(text: str) -> bytes:
    return write_line({"ok": False, "error": text.encode("utf-8", "replace").decode()})


def peer(connected: socket.socket) -> tuple[int, int]:
    """Process and user at the other end, as the kernel noted them."""
    given = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, uid, _ = _CREDENTIALS.unpack(given)
    return pid, uid


def _locked(path: Path) -> int:
    """A descriptor that holds the lock until it is closed."""
    lock = path.with_name(f"{path.name}.lock")
    try:
        fd = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise UsageError(f"the lock file {lock} can't be opened: {error.strerror}") from None
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        holder = os.pread(fd, 20, 0).decode("ascii", "replace").strip() or "unknown"
        os.close(fd)
        raise UsageError(
            f"a handset is running already: process {holder} has {path}; stop it first, or "
            "give this one another files.runtime"
        ) from None
    os.ftruncate(fd, 0)
    os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
    return fd


def _listening(path: Path, backlog: int) -> socket.socket:
    """A socket that listens under ``path``, in the place of a dead process's."""
    made = path.with_name(f"{path.name}.new")
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        made.unlink(missing_ok=True)
        listening.bind(str(made))
        made.chmod(0o600)
        listening.listen(backlog)
        listening.setblocking(False)
        made.rename(path)
    except OSError as error:
        listening.close()
        made.unlink(missing_ok=True)
        # "AF_UNIX path too long" is Python's own and has no strerror.
        raise UsageError(
            f"the local socket {path} can't be made: {error.strerror or error}; "
            "name another directory (files.runtime)"
        ) from None
    return listening
