"""Keys that speak in lines: ``press`` and ``release`` for the talk key, or with another key's
name behind it, as in ``press cancel``. One a line.

For a program that stands where the button will be. The end of the lines is a lost
control, which commits nothing.
"""

from __future__ import annotations

import asyncio
import sys
import time
from typing import IO, Any

from handset.core.keys import Key
from handset.ports import Controls

NAME = "lines"
LONGEST = 64
WORDS = {"press": True, "release": False}


class LineControl:
    """Reads until the lines end. Lines that say nothing known are counted."""

    def __init__(self, controls: Controls, stream: IO[Any] = sys.stdin) -> None:
        self.unknown = 0
        self._controls = controls
        self._stream = stream

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=4096)
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), self._stream)
        self._controls.back(NAME, time.monotonic_ns(), frozenset())
        too_long = False
        while True:
            try:
                line = await reader.readuntil(b"\n")
            except asyncio.LimitOverrunError as error:
                await reader.readexactly(error.consumed)
                too_long = True
                continue
            except asyncio.IncompleteReadError as error:
                line = error.partial
            at_ns = time.monotonic_ns()
            if line or too_long:
                self._one(line, at_ns, too_long or len(line) > LONGEST)
                too_long = False
            if not line.endswith(b"\n"):
                self._controls.lost(NAME, at_ns, "the lines have ended")
                return

    def _one(self, line: bytes, at_ns: int, too_long: bool) -> None:
        words = line.decode(errors="replace").split()
        if not words and not too_long:
            return
        name = words[1] if len(words) == 2 else "talk"
        if too_long or len(words) > 2 or words[0] not in WORDS or name not in set(Key):
            self.unknown += 1
            return
        self._controls.level(NAME, Key(name), WORDS[words[0]], at_ns)
