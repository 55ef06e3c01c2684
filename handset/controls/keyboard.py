"""The space bar of a terminal as the talk button.

A terminal tells when a key goes down and never when it comes up, so the space bar
toggles: once to talk, once more when done. The commit says so (``toggle``).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import termios
import time
import tty
from typing import TextIO

from handset.ports import Talk

SPACE = ord(" ")
QUIT = b"q\x03\x04"


class Keyboard:
    """``with Keyboard(talk): ...`` while an event loop runs. ``done`` is set by q, Ctrl-C
    and Ctrl-D."""

    def __init__(self, talk: Talk, stream: TextIO = sys.stdin) -> None:
        self.done = asyncio.Event()
        self.talking = False
        self._talk = talk
        self._fd = stream.fileno()
        self._saved: list[object] | None = None

    def __enter__(self) -> Keyboard:
        self._saved = termios.tcgetattr(self._fd)
        tty.setcbreak(self._fd)
        asyncio.get_running_loop().add_reader(self._fd, self._read)
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.get_running_loop().remove_reader(self._fd)
        with contextlib.suppress(termios.error):  # the terminal is gone
            termios.tcsetattr(self._fd, termios.TCSADRAIN, self._saved)  # type: ignore[arg-type]

    def _read(self) -> None:
        at_ns = time.monotonic_ns()
        try:
            keys = os.read(self._fd, 1024)
        except OSError:
            keys = b""
        if not keys:
            asyncio.get_running_loop().remove_reader(self._fd)
            self.done.set()
        for key in keys:
            self._key(key, at_ns)

    def _key(self, key: int, at_ns: int) -> None:
        if key == SPACE:
            self.talking = not self.talking
            if self.talking:
                self._talk.press(at_ns, "toggle")
            else:
                self._talk.release(at_ns)
        elif key in QUIT:
            self.done.set()
