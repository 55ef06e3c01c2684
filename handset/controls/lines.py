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
        while True:
            try:
                line = await reader.readline()
            except ValueError:  # longer than the limit
                self.unknown += 1
                continue
            at_ns = time.monotonic_ns()
            if not line:
                self._talk.control_lost(at_ns)
                return
            self._one(line[:LONGEST].decode(errors="replace").strip(), at_ns)

    def _one(self, word: str, at_ns: int) -> None:
        if word == "press":
            self._talk.press(at_ns)
        elif word == "release":
            self._talk.release(at_ns)
        elif word:
            self.unknown += 1
