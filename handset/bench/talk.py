"""``handset bench``: an assistant is interrupted in mid-sentence, and the edge learns exactly
what was played.

On the simulated card an operator asks, the reply starts, the button goes down in the middle
of it with a correction, and the next reply is played to its end. ``--device`` uses a real
card, with the space bar as the button.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import io
import json
import logging
import sys
import time
import wave
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.live import Live

from handset.bench import view
from handset.bench.stage import Stage, StageError, stage
from handset.errors import HandsetError
from handset.fakes.virtual_card import VirtualCard

if TYPE_CHECKING:
    from handset.bench.verdict import Verdict

INTERRUPT_AFTER_S = 3.2
WIDTH = 150
"""Columns, where the output is no terminal."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--device", help="a real card, by name or USB id; space bar to talk")
    parser.add_argument("--rate", type=int, help="Hz; default: the best the card has")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the result for machines")
    parser.add_argument(
        "--wav", type=Path, metavar="FILE", help="write what sounded, from the card's own record"
    )
    parser.add_argument(
        "--trace", type=Path, metavar="FILE", help="write every message on the wire (JSON lines)"
    )
    parser.add_argument("--svg", type=Path, metavar="FILE", help="write the result as a picture")


def run(args: argparse.Namespace) -> int:
    logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stderr)
    with ExitStack() as stack:
        card = None
        if args.device is None:
            card = stack.enter_context(VirtualCard(rate=args.rate or 48_000))
            card.activate()
        elif args.wav is not None:
            raise HandsetError(
                "--wav is made from the record of the simulated card; a real card keeps none. "
                "Leave out --wav, or --device."
            )
        try:
            return asyncio.run(_talk(args, card))
        except StageError as error:
            raise HandsetError(f"the conversation stopped: {error}") from None


class Trace:
    """Every message on the wire, one JSON object a line; binary ones in base64."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._started_ns = time.monotonic_ns()

    def add(self, way: str, channel: str, data: str | bytes) -> None:
        at_ms = (time.monotonic_ns() - self._started_ns) // 1_000_000
        line: dict[str, object] = {"ms": at_ms, "way": way, "channel": channel}
        if isinstance(data, str):
            line["message"] = json.loads(data)
        else:
            line["base64"] = base64.b64encode(data).decode()
        self.lines.append(json.dumps(line, separators=(",", ":")))

    def text(self) -> str:
        return "".join(line + "\n" for line in self.lines)


async def _talk(args: argparse.Namespace, card: VirtualCard | None) -> int:
    from handset.bench.verdict import judge

    console = Console(width=None if sys.stdout.isatty() else WIDTH)
    device = card.device if card is not None else args.device
    rate = card.rate if card is not None else args.rate
    trace = Trace()
    async with stage(card, device, rate, trace.add) as made:
        first_line = _first_line(made)
        console.print(first_line, highlight=False)
        watcher = asyncio.ensure_future(_watch(console, made))
        try:
            await (_operator(made) if card is not None else _person(made))
        finally:
            made.over = True
            await watcher
    tape = _tape(card) if card is not None else None
    verdict = judge(made, tape)
    view.final(console, made, verdict)
    if args.wav is not None and tape is not None and card is not None:
        _write_wav(args.wav, tape, card.rate)
        console.print(f"wrote {args.wav}: {len(tape) / card.rate:.2f} s from the card's tape")
    if args.json is not None:
        args.json.write_text(json.dumps(verdict.as_json(), indent=2) + "\n")
        console.print(f"wrote {args.json}")
    if args.trace is not None:
        args.trace.write_text(trace.text())
        console.print(f"wrote {args.trace}: {len(trace.lines)} messages")
    if args.svg is not None:
        _draw(args.svg, first_line, made, verdict)
        console.print(f"wrote {args.svg}")
    return 0 if verdict.passed else 1


def _draw(path: Path, first_line: str, made: Stage, verdict: Verdict) -> None:
    """The events and the result as a picture."""
    paper = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
    paper.print(first_line, highlight=False)
    for record in made.records:
        if line := view.event_line(made, record):
            paper.print(line, highlight=False)
    view.final(paper, made, verdict)
    paper.save_svg(str(path), title="handset bench")


def _first_line(made: Stage) -> str:
    card = made.app.card
    if card is None:
        raise StageError("the sound card did not open")
    grant = card.grant
    kind = "SIMULATED sound card" if made.card is not None else "sound card"
    realtime = "real-time thread" if grant.realtime else f"not real-time ({grant.problem})"
    return (
        f"{kind} {card.output.device.name!r} through PortAudio and ALSA: {grant.rate} Hz, "
        f"block {grant.block}, period {grant.period}, buffer {grant.buffer} frames, {realtime}"
    )


async def _watch(console: Console, made: Stage) -> None:
    """Redraws on a terminal; prints a line per event elsewhere."""
    if not console.is_terminal:
        told = 0
        while True:
            for record in made.records[told:]:
                if line := view.event_line(made, record):
                    console.print(line, highlight=False)
            told = len(made.records)
            if made.over:
                return
            await asyncio.sleep(0.1)
    with Live(view.live(made), console=console, refresh_per_second=12, transient=False) as shown:
        while not made.over:
            await made.ask_edge()
            for _ in range(3):
                shown.update(view.live(made))
                await asyncio.sleep(0.08)


async def _operator(made: Stage) -> None:
    """A question, a reply that is interrupted by a correction, a reply to its end."""
    await made.say("ask-readings")
    await made.played(0, INTERRUPT_AFTER_S)
    await made.say("correct-fan")
    await made.until("the second reply to be played", "item.final", 3)


async def _person(made: Stage) -> None:
    from handset.controls.keyboard import Keyboard

    if not sys.stdin.isatty():
        raise StageError("a real card needs a terminal: the space bar is the button")
    print("space: talk, and space again when done; interrupt a reply the same way; q: end")
    with Keyboard(made.app.intake) as keyboard:
        await keyboard.done.wait()


def _tape(card: VirtualCard) -> NDArray[np.int16]:
    """From the first frame that was driven to the last."""
    record = card.record(0, card.sync())
    driven = np.flatnonzero(record.driven)
    if len(driven) == 0:
        return np.zeros(0, np.int16)
    return record.samples[driven[0] : driven[-1] + 1]


def _write_wav(path: Path, samples: NDArray[np.int16], rate: int) -> None:
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(samples.astype("<i2").tobytes())
