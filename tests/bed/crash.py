"""A handset in a process of its own, on the virtual card, to be killed."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from handset.bench import speech
from handset.bench.edge.process import EdgeProcess
from handset.edge.opus import ItemDecoder
from handset.fakes.virtual_card import VirtualCard

SETTINGS = """\
[handset]
id = "crash-bed"

[edge]
url = "{url}"
fingerprint = "{fingerprint}"
credential_env = "CRASH_CREDENTIAL"
loopback = true

[audio]
device = "{device}"

[files]
state = "{state}"
runtime = "{runtime}"
"""


class Handset:
    """One life of the process: ``handset run``, with its button on a pipe."""

    def __init__(self, process: asyncio.subprocess.Process, log: asyncio.Queue[str]) -> None:
        self.process = process
        self.log = log
        self.lines: list[str] = []

    @classmethod
    async def start(cls, card: VirtualCard, edge: EdgeProcess, folder: Path) -> Handset:
        file = folder / "settings.toml"
        file.write_text(
            SETTINGS.format(
                url=edge.url,
                fingerprint=edge.fingerprint,
                device=card.device,
                state=folder / "state",
                runtime=folder / "runtime",
            )
        )
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "handset.cli",
            "run",
            str(file),
            "--control",
            "lines",
            env={**os.environ, **card.environment, "CRASH_CREDENTIAL": edge.credential},
            stdin=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        made = cls(process, asyncio.Queue())
        made._reader = asyncio.ensure_future(made._read())
        return made

    _reader: asyncio.Task[None]

    async def _read(self) -> None:
        assert self.process.stderr is not None
        while line := await self.process.stderr.readline():
            self.lines.append(line.decode().rstrip())
            self.log.put_nowait(self.lines[-1])

    async def says(self, text: str, seconds: float = 30) -> str:
        """The next line that contains ``text``."""
        async with asyncio.timeout(seconds):
            while text not in (line := await self.log.get()):
                pass
        return line

    def hand(self, word: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{word}\n".encode())

    async def end(self, number: int) -> int:
        if self.process.returncode is None:
            self.process.send_signal(number)
        code = await self.process.wait()
        await self._reader
        return code


def item_frames(clip_name: str, rate: int) -> NDArray[np.int16]:
    """The clip as a headset on a card of that rate decodes it."""
    clip = speech.load(clip_name)
    decoder = ItemDecoder(clip.rate, clip.pre_skip, rate)
    return np.concatenate((decoder.packets(list(clip.packets)), decoder.end(clip.samples)))


def sounded(tape: NDArray[np.int16], frames: NDArray[np.int16]) -> int:
    """How many frames of the item, from its first one, are on the tape unchanged. The item
    begins with silence, which can't be told from no sound: it counts as there."""
    loud = np.flatnonzero(np.abs(frames) > 64)
    probe = int(loud[0])
    window = frames[probe : probe + 32]
    best = probe
    for at in np.flatnonzero(tape == frames[probe]):
        first = int(at) - probe
        if first < 0:
            continue
        n = min(len(tape) - first, len(frames))
        if not np.array_equal(tape[at : at + len(window)], window[: len(tape) - at]):
            continue
        different = np.flatnonzero(tape[first : first + n] != frames[:n])
        best = max(best, int(different[0]) if len(different) else n)
    return best
