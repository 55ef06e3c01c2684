"""The other end of the local socket: one question to the running handset."""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path

from handset.errors import HandsetError, UsageError

from .local_requests import LONGEST_ANSWER, Answer, Request, read_line, write_line
from .local_socket import peer


class NotRunning(UsageError):
    """No handset listens there."""


class NoAnswer(HandsetError):
    """The question was sent, and what became of it is not known."""


def ask(path: Path, request: Request, timeout_s: float = 5.0) -> Answer:
    """The answer to a request, at the latest after ``timeout_s`` seconds. Blocks.

    An answer with ``ok`` false is an answer. ``NotRunning``: nobody listens at ``path``.
    ``UsageError``: somebody else does, or we may not ask. ``HandsetError``: it takes no
    more clients now. ``NoAnswer``: see there.
    """
    line = write_line(request)
    until = time.monotonic() + timeout_s
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connected:
        connected.settimeout(timeout_s)
        _connect(connected, path)
        connected.settimeout(max(until - time.monotonic(), 0.001))
        try:
            connected.sendall(line)
        except TimeoutError:
            raise _silent(path, timeout_s) from None
        except OSError:
            pass  # refused unread; the reason may be there to be read
        said = _line(connected, path, until, timeout_s)
    try:
        answer = read_line(said)
    except UsageError:
        answer = None
    if not isinstance(answer, dict) or not isinstance(answer.get("ok"), bool):
        raise NoAnswer(f"what listens at {path} does not answer as a handset of this version does")
    return answer


def _connect(connected: socket.socket, path: Path) -> None:
    try:
        connected.connect(str(path))
    except (FileNotFoundError, ConnectionRefusedError, NotADirectoryError):
        raise NotRunning(
            f"no handset is running: nobody listens at {path}. Start it with "
            "'handset run SETTINGS', or name its runtime directory with --runtime"
        ) from None
    except PermissionError:
        raise UsageError(
            f"user {os.geteuid()} may not ask at {path}; ask as the user that the handset "
            "runs as, or as root"
        ) from None
    except (BlockingIOError, TimeoutError):
        raise HandsetError(
            f"the handset at {path} is too busy to be asked; nothing was sent, try again"
        ) from None
    except OSError as error:
        raise UsageError(f"{path} can't be asked: {error.strerror or error}") from None
    pid, uid = peer(connected)
    if uid not in (os.geteuid(), 0) and os.geteuid() != 0:
        raise UsageError(f"process {pid} of user {uid} listens at {path}; that is not your handset")


def _line(connected: socket.socket, path: Path, until: float, timeout_s: float) -> bytes:
    got = bytearray()
    while not got.endswith(b"\n"):
        left = until - time.monotonic()
        if left <= 0:
            raise _silent(path, timeout_s)
        connected.settimeout(left)
        try:
            part = connected.recv(1 << 16)
        except TimeoutError:
            raise _silent(path, timeout_s) from None
        except OSError:
            part = b""
        if not part or len(got) > LONGEST_ANSWER:
            raise NoAnswer(
                f"the handset at {path} ended before its answer; whether it did what was "
                "asked is in its log"
            )
        got += part
    return bytes(got)


def _silent(path: Path, timeout_s: float) -> NoAnswer:
    return NoAnswer(
        f"the handset at {path} did not answer within {timeout_s:g} s; whether it did what was "
        "asked is in its log"
    )
