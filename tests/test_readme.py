"""What the README says of tables is what the tables say."""

from __future__ import annotations

from pathlib import Path

import pytest

from handset.cli import COMMANDS
from handset.core import lamp_drawing
from handset.core.keys import Key
from handset.core.lamp import lamp_table
from handset.core.notices import notice_table
from handset.settings import FIELDS, TABLES

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("table", [lamp_table, notice_table])
def test_a_table_is_the_one_of_the_code(table: object) -> None:
    assert table().strip() in README  # type: ignore[operator]


def test_every_setting_is_named() -> None:
    for section, fields in FIELDS.items():
        for name in fields:
            assert f"`{section}.{name}`" in README, f"{section}.{name}"
    for section in TABLES:
        assert f"[[{section}]]" in README


def test_every_command_is_named() -> None:
    for words in COMMANDS:
        shown = " ".join(word for word in words if word != "talk")
        assert f"handset {shown}" in README or f"image/{shown}" in README, words


def test_every_key_is_named() -> None:
    for key in Key:
        assert f"`{key.value}`" in README or f'"{key.value}"' in README, key


def test_the_lamp_s_picture_is_fresh() -> None:
    again = "python -m handset.core.lamp_drawing > .github/lamp.svg"
    drawn = Path(__file__).parents[1] / ".github" / "lamp.svg"
    assert drawn.read_text(encoding="utf-8") == lamp_drawing.svg(), f"made anew by: {again}"
