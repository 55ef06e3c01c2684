"""What the callback costs. Counted by callgrind, so the same on a loaded machine."""

from __future__ import annotations

import importlib.util
import shutil

import pytest

from handset.bench.instructions import BLOCK, QUEUED_S, goals, measure

COUNTS = {"bare": 5000.0, "speech": 900.0, "speech_notice": 6000.0, "rtmixer": 7600.0,
          "rtmixer_two": 14_900.0, **dict.fromkeys(QUEUED_S, 1500.0)}  # fmt: skip


def missed(counts: dict[str, float]) -> list[str]:
    return [goal.name for goal in goals(counts) if not goal.good]


def test_each_goal_can_be_missed() -> None:
    assert missed(COUNTS) == []
    assert missed(COUNTS | {"bare": 3999.0}) == ["speech_notice <= 1.5 x memcpy and mix"]
    assert missed(COUNTS | {"rtmixer_two": 11_900.0}) == ["speech_notice <= 0.5 x rtmixer_two"]
    assert missed(COUNTS | {"rtmixer": 1700.0}) == ["speech <= 0.5 x rtmixer"]
    assert missed(COUNTS | {"clear_10s": 1501.0}) == ["a clear costs the same whatever is queued"]


@pytest.mark.skipif(not shutil.which("valgrind"), reason="valgrind is not installed")
@pytest.mark.skipif(not shutil.which("cc"), reason="no C compiler")
def test_the_callback_meets_its_goals() -> None:
    counts = measure()
    print(counts)
    has_rtmixer = importlib.util.find_spec("_rtmixer") is not None
    assert ("rtmixer" in counts) == has_rtmixer
    assert counts["bare"] > BLOCK  # the least: an instruction a frame
    assert missed(counts) == []
