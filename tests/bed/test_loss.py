"""At 5 % loss: the utterance that interrupts arrives whole, and so does its cursor."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from handset.bench.edge.process import EdgeProcess
from handset.bench.stage import stage
from handset.bench.verdict import judge
from handset.fakes.virtual_card import VirtualCard


@pytest.mark.parametrize("seed", [1, 2])
async def test_interruption_at_five_percent_loss(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    from handset.audio import devices

    def lossy(**kwargs: object) -> EdgeProcess:
        return EdgeProcess(impair=f"loss=0.05,delay_ms=30,seed={seed}", **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr("handset.bench.stage.EdgeProcess", lossy)
    with VirtualCard() as card:
        card.activate()
        devices.rescan()
        async with stage(card, card.device, None) as made:
            await made.say("ask-readings")
            await made.played(0, 1.5)
            await made.say("correct-fan")
            await made.until("the correction to arrive", "capture.received", 2)
            await made.ask_edge()
            pcm = await made.edge.turn_pcm(2)
            asked = [turn["asked"] for turn in made.session["turns"]]
            await made.until("the reply", "item.announced", 2)
        verdict = judge(made, card.record(0, card.sync()).samples)
    failed = [what for what, ok in verdict.checks if not ok]
    assert not failed
    second = verdict.turns[1]
    assert len(pcm) == second["samples"] == second["capture"][1] - second["capture"][0]
    assert sum(asked) > 0, "nothing was lost, so nothing was proved"
    assert np.abs(pcm.astype(int)).max() > 1000
    await asyncio.sleep(0)
