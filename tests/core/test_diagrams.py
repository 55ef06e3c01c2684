"""The committed page of diagrams is the one that the tables give."""

from __future__ import annotations

from pathlib import Path

import pytest

from handset.core import diagrams
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
