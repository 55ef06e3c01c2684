"""The committed page of diagrams is the one that the tables give."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from handset.core import diagrams, speech
from handset.core.keys import Gesture
from handset.core.turn import TABLE, TurnInput, TurnState

PAGE = Path(diagrams.__file__).with_name("STATES.md")
AGAIN = f"made anew by: python -m handset.core.diagrams > {PAGE.name}"


def test_the_page_is_fresh() -> None:
    assert PAGE.read_text(encoding="utf-8") == diagrams.page(), AGAIN


def test_another_row_is_another_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TABLE, (TurnState.LOST, TurnInput.LET_GO), (TurnState.IDLE, ("cancel",)))
    assert PAGE.read_text(encoding="utf-8") != diagrams.page()


def test_every_state_and_gesture_is_in_the_matrix() -> None:
    rows = diagrams.gesture_matrix().splitlines()
    assert len(rows) == 2 + len(TurnState)
    assert all(row.count("|") == len(Gesture) + 2 for row in rows)


def check_arrows() -> None:
    """Each row of the turn's table is written on one arrow, in one of its two diagrams."""
    drawn: list[tuple[str, str, str]] = []
    for title in ("gestures", "voice, time and faults"):
        part = diagrams.page().split(f"## The turn: {title}\n")[1].split("\n## ")[0]
        for before, after, whats in re.findall(r"^    (\w+) --> (\w+): (.*) / ", part, re.M):
            drawn += [(before, what, after) for what in whats.split(" or ")]
    rows = [(before.value, what.value, after.value) for (before, what), (after, _) in TABLE.items()]
    assert sorted(drawn) == sorted(rows)


def test_every_row_of_the_turn_is_drawn_once() -> None:
    check_arrows()


def test_every_row_of_the_speech_detector_is_drawn() -> None:
    part = diagrams.page().split("## Speech\n")[1].split("\n## ")[0]
    assert part.count(" --> ") == 1 + len(speech.TABLE)
