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

[wearer]
notices = false
"""


def memory(folder: Path) -> Path:
    """A directory in memory for what is on disk here, the same in every life."""
    return Path("/dev/shm") / f"handset-crash-{folder.parent.name}-{folder.name}"


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
                runtime=memory(folder),
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
    """How many frames of the item, from its first one, are on the tape unchanged. Where the
    queue ran dry there is silence between them. The item begins with silence, which can't
    be told from no sound: it counts as there."""
    probe = int(np.flatnonzero(np.abs(frames) > 64)[0])
    best = probe
    for at in np.flatnonzero(tape == frames[probe]):
        there = min(64, len(tape) - int(at))
        if np.array_equal(tape[at : at + there], frames[probe : probe + there]):
            best = max(best, probe + _followed(tape[at:], frames[probe:]))
    return best


def _followed(tape: NDArray[np.int16], frames: NDArray[np.int16]) -> int:
    done = at = 0
    while done < len(frames) and at < len(tape):
        n = min(len(frames) - done, len(tape) - at)
        different = np.flatnonzero(tape[at : at + n] != frames[done : done + n])
        if len(different) == 0:
            return done + n
        done, at = done + int(different[0]), at + int(different[0])
        sound = np.flatnonzero(tape[at:])
        gap = int(sound[0]) if len(sound) else 0
        ahead = frames[done : done + 64]
        # Silence in the item itself may lie at the end of the gap.
        quiet = next((k for k in range(64) if frames[done + k : done + k + 1].any()), 0)
        at += max(gap - quiet, 0)
        if gap == 0 or not np.array_equal(tape[at : at + len(ahead)], ahead):
            return done
    return done
