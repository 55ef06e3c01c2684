"""The loopback's verdict: every claim turns red by the one number that breaks it."""

from __future__ import annotations

import argparse
import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from handset.bench import loopback
from handset.bench.analyse import Fault, FaultKind
from handset.bench.clears import Clear, ItemResult
from handset.bench.loopback import judge
from handset.core.messages import Estimate
from handset.core.segments import DeviceTiming
from handset.fakes.virtual_card import VirtualCardError, find_build

TIMING = DeviceTiming(48_000, 480, 1440, 480)
MS = 1_000_000
ITEM = ItemResult(
    item_id="item", state="cleared", received=9000, handed=5000, dropped=4000, faded=240,
    synthesized=0, heard=5000, heard_faded=240, silence=0, at_request=Estimate(4000, 3990, 4040),
    truth=4000, silent_at=Estimate(50 * MS, 49 * MS, 51 * MS), silent_ns=50 * MS,
)  # fmt: skip
CLEAR = Clear(
    number=1, requests=1, items=(ITEM,), faults=(), request_ns=0, call_ns=0, returned_ns=1000,
    cut_ns=9 * MS, block_due_ns=8 * MS, silent_ns=50 * MS, restarts=0, underflows=0, offset=700,
    late_write_refused=True,
)  # fmt: skip


def red(*clears: Clear, realtime: bool = True, accelerated: bool = False) -> list[str]:
    checks = judge(clears, TIMING, realtime, accelerated)
    return [check.name for check in checks if not check.good]


def one(**changes: Any) -> Clear:
    return replace(CLEAR, items=(replace(ITEM, **changes),))


def test_a_clear_as_it_should_be() -> None:
    assert red(CLEAR, CLEAR) == []


PLANTED = [
    (one(heard=4999), "cursor exact"),
    (one(heard=5001), "cursor exact"),
    (one(heard_faded=0), "fades as counted"),
    (one(silence=480), "silence as counted"),
    (one(dropped=3999), "received = handed + dropped"),
    (one(truth=3989), "at_request within its bounds"),
    (one(truth=4041), "at_request within its bounds"),
    (one(at_request=Estimate(4000, 3700, 4300)), "at_request narrow"),
    (one(silent_ns=52 * MS), "silent_at within its bounds"),
    (replace(CLEAR, block_due_ns=11 * MS), "cut by the first block after the call"),
    (replace(CLEAR, late_write_refused=False), "audio of before a clear refused"),
    (replace(CLEAR, faults=(Fault(FaultKind.ADDED, 1, 1, 1, 1),)), "nothing else on the tape"),
    (replace(one(heard=3000), restarts=1), "cursor within its bound"),
    (replace(one(heard=5001), restarts=1), "cursor within its bound"),
]


@pytest.mark.parametrize(("clear", "claim"), PLANTED)
def test_each_claim_can_fail(clear: Clear, claim: str) -> None:
    assert red(clear) == [claim]


def test_a_shift_of_the_device_against_the_card() -> None:
    moved = replace(CLEAR, offset=701)
    assert red(CLEAR, moved) == ["device frames never shift"]
    # A restart is somewhere between the first samples of two clears: in the one or the other.
    assert red(CLEAR, replace(moved, restarts=1)) == []
    assert red(replace(CLEAR, restarts=1), moved) == []


def test_a_restart_may_lose_what_the_bound_says() -> None:
    assert red(replace(one(heard=5000 - 1920), restarts=1)) == []


def test_a_thread_that_is_not_real_time_is_not_held_to_a_time() -> None:
    assert red(replace(CLEAR, block_due_ns=11 * MS), realtime=False) == []


def test_an_accelerated_card_is_judged_by_counts_alone() -> None:
    assert red(one(truth=0), accelerated=True) == []
    assert red(one(heard=4999), accelerated=True) == ["cursor exact"]


# ---- the command -------------------------------------------------------------------------------


def run(*words: str) -> int:
    parser = argparse.ArgumentParser()
    loopback.add_arguments(parser)
    return loopback.run(parser.parse_args(words))


def test_a_real_card_is_not_measured_yet(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--device", "Jabra") == 2
    assert "'Jabra' is a real card" in capsys.readouterr().err


def test_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    try:
        find_build()
    except VirtualCardError as error:
        pytest.skip(str(error))
    for name in ("ALSA_CONFIG_PATH", "JACK_NO_START_SERVER"):
        monkeypatch.setenv(name, "")  # the command sets them; what was there comes back
    table, whole = tmp_path / "clears.csv", tmp_path / "clears.json"
    assert run("--clears", "8", "--speed", "10", "--csv", str(table), "--json", str(whole)) == 0
    said = capsys.readouterr().out
    assert said.startswith("simulated card 'kelter-virtual': 48000 Hz, block 480, period 480")
    assert "accelerated 10 times" in said and "PASS: 8 clears" in said
    result = json.loads(whole.read_text(encoding="utf-8"))
    assert result["passed"] and len(result["clears"]) == 8
    with table.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == sum(len(clear["items"]) for clear in result["clears"])
    assert {row["error"] for row in rows} == {"0"}
