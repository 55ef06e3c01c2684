"""A terminal's keys as controls.

A terminal tells when a key goes down and never when it comes up, so every key is a tap: the
space bar toggles, once to talk, once more when done (the control is a *switch*). The commit
says so (``toggle``).
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

from handset.core.keys import Key
from handset.ports import Controls

NAME = "keyboard"
KEYS: dict[int, Key] = {
    ord(" "): Key.TALK,
    ord("c"): Key.CANCEL,
    ord("a"): Key.ACKNOWLEDGE,
    ord("+"): Key.VOLUME_UP,
    ord("-"): Key.VOLUME_DOWN,
    ord("m"): Key.MUTE,
    ord("w"): Key.NEW_WEARER,
    ord("t"): Key.SELF_TEST,
}
HELP = (
    "space: talk, and again when done; c: cancel; a: acknowledge; + -: volume; m: mute; "
    "w: new wearer; t: self-test; q: quit"
)
QUIT = b"q\x03\x04"


class Keyboard:
    """``with Keyboard(controls): ...`` while an event loop runs. ``done`` is set by q, Ctrl-C
    and Ctrl-D."""

    def __init__(self, controls: Controls, stream: TextIO = sys.stdin) -> None:
        self.done = asyncio.Event()
        self._controls = controls
        self._fd = stream.fileno()
        self._saved: list[object] | None = None

    def __enter__(self) -> Keyboard:
        self._saved = termios.tcgetattr(self._fd)
        tty.setcbreak(self._fd)
        asyncio.get_running_loop().add_reader(self._fd, self._read)
        self._controls.back(NAME, time.monotonic_ns(), frozenset())
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
            self._controls.lost(NAME, at_ns, "the terminal is gone")
            self.done.set()
        for code in keys:
            if code in QUIT:
                self.done.set()
            elif code in KEYS:
                self._controls.level(NAME, KEYS[code], True, at_ns)
                self._controls.level(NAME, KEYS[code], False, at_ns)
