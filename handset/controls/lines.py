"""A talk button that speaks in lines: ``press`` and ``release``, one a line.

For a program that stands where the button will be. The end of the lines is a lost
control, which commits nothing.
"""

from __future__ import annotations

import asyncio
import sys
import time
from typing import IO, Any

from handset.ports import Talk

LONGEST = 64


class LineControl:
    """Reads until the lines end. Lines that are neither word are counted."""

    def __init__(self, talk: Talk, stream: IO[Any] = sys.stdin) -> None:
        self.unknown = 0
        self._talk = talk
        self._stream = stream

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=4096)
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), self._stream)
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
                self._talk.control_lost(at_ns)
                return

    def _one(self, line: bytes, at_ns: int, too_long: bool) -> None:
        word = line.decode(errors="replace").strip()
        if too_long:
            self.unknown += 1
        elif word == "press":
            self._talk.press(at_ns)
        elif word == "release":
            self._talk.release(at_ns)
        elif word:
            self.unknown += 1
