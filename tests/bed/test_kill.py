"""kill -9 at random moments: nothing is claimed that did not sound, and each item gets
exactly one final receipt."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
from tiers import count

from handset.bench import speech
from handset.bench.edge.process import EdgeProcess
from handset.fakes.virtual_card import VirtualCard

from .crash import Handset, item_frames, memory, sounded

KILLS = count(5, 50, 200)
SCRIPT = {
    "replies": [["yes-five", "readings-five"], ["due-five", "grease-five"]],
    "speed": 8,
    "think_ms": 50,
}


async def _life(card: VirtualCard, edge: EdgeProcess, folder: Path, rng: random.Random) -> None:
    """Talks, is answered, is perhaps interrupted, and is killed somewhere in it."""
    headset = await Handset.start(card, edge, folder)
    try:
        await headset.says("connected")
        clip = speech.load("stop")
        for press in range(2):
            card.speak(clip.pcm(card.rate))
            headset.hand("press")
            await headset.says("listening")
            # The card's clock, not ours, says when the utterance is over.
            await asyncio.to_thread(card.wait_committed, card.now_frame() + card.rate * 3 // 4, 20)
            headset.hand("release")
            await headset.says("received by the service")
            last = press == 1 or rng.random() < 0.5
            wait = rng.uniform(0.0, 5.0 if last else 2.5)
            target = card.now_frame() + round(wait * card.rate)
            await asyncio.to_thread(card.wait_committed, target, 20)
            if last:
                return
    finally:
        await headset.end(signal.SIGKILL)


def _finals(report: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    finals: dict[str, list[dict[str, Any]]] = {}
    seen = set()
    for arrival in report["events"]:
        event = arrival["event"]
        if arrival["type"] != "playout.receipt" or event["state"] == "queued":
            continue
        if event["event_id"] not in seen:
            seen.add(event["event_id"])
            finals.setdefault(event["item_id"], []).append(event)
    return finals


@pytest.mark.grows
@pytest.mark.timeout(240 * KILLS)
async def test_killed_at_random_moments(tmp_path: Path) -> None:
    seed = int(os.environ.get("HANDSET_SEED", "1"))
    print(f"seed {seed}")
    for number in range(KILLS):
        rng = random.Random(seed * 1000 + number)
        folder = tmp_path / str(number)
        folder.mkdir()
        with VirtualCard() as card:
            async with EdgeProcess(script=SCRIPT, allow_loopback=True) as edge:
                rate = card.rate
                await _life(card, edge, folder, rng)
                tape = card.record(0, card.sync()).samples
                second = await Handset.start(card, edge, folder)
                await second.says("connected")
                assert await second.end(signal.SIGTERM) == 0, second.lines
                assert any("all events delivered" in line for line in second.lines), second.lines
                report = await edge.report()
        shutil.rmtree(memory(folder))
        finals = _finals(report)
        queued = {
            arrival["event"]["item_id"]
            for arrival in report["events"]
            if arrival["type"] == "playout.receipt"
        }
        assert set(finals) == queued, f"kill {number}"
        assert all(len(events) == 1 for events in finals.values()), f"kill {number}"
        clips = {
            item["item_id"]: item["clip"]
            for session in report["sessions"]
            for item in session["items"]
        }
        for item_id, (event,) in finals.items():
            _within(event["cursor"], tape, clips[item_id], rate, f"kill {number} {item_id}")


def _within(cursor: dict[str, Any], tape: Any, clip: str, rate: int, where: str) -> None:
    """The tape lies inside what the receipt says: ``[handed - lost_max, handed]``."""
    assert cursor["received"] == cursor["handed"] + cursor["dropped"] + cursor["queued"], where
    assert cursor["played"] == cursor["handed"] - cursor["lost_max"], where
    per_sample = rate // cursor["rate"]
    frames = item_frames(clip, rate)
    on_tape = sounded(tape, frames)
    faded = cursor["faded"] * per_sample + per_sample
    assert cursor["played"] * per_sample <= on_tape + (faded if cursor["faded"] else 0), where
    # What the tape seems to have beyond it can't be told from silence: the item's quiet
    # beginning, or zeros in it.
    beginning = sounded(tape[:0], frames)
    beyond = frames[max((cursor["handed"] + 1) * per_sample, beginning) : on_tape]
    assert not beyond.any(), where
    assert cursor["lost_max"] <= (1440 + 480 + 240) // per_sample + 1, where
