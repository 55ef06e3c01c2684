"""Rules of the house that no linter knows.

Each is a function of a tree; a planted sample shows that it can fail.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[1]

FOLDERS = {"handset", "native", "tests", "systemd", "image"}
FILES = {"pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md"}
TEXT = {
    ".py",
    ".c",
    ".h",
    ".cpp",
    ".txt",
    ".toml",
    ".md",
    ".json",
    ".yaml",
    ".conf",
    ".rules",
    ".sh",
}
# Put together here so that this file does not hold them.
UNFINISHED = re.compile(r"\b(" + "|".join(["TO" + "DO", "FIX" + "ME", "X" + "XX"]) + r")\b")


def texts(tree: Path) -> Iterator[tuple[str, str]]:
    """Path and text of every source file: by its suffix, or by its first line a script."""
    for name in sorted(FOLDERS | FILES | {".ci"}):
        top = tree / name
        for path in sorted(top.rglob("*")) if top.is_dir() else [top]:
            if not path.is_file() or "__pycache__" in path.parts:
                continue
            if path.suffix in TEXT or (path.suffix == "" and path.read_bytes()[:2] == b"#!"):
                yield str(path.relative_to(tree)), path.read_text(encoding="utf-8")


def strangers(tree: Path) -> set[str]:
    """What lies at the top and has no place there. Dot files are free."""
    return {
        path.name
        for path in tree.iterdir()
        if not path.name.startswith(".") and path.name not in (FOLDERS if path.is_dir() else FILES)
    }


def unfinished(tree: Path) -> list[str]:
    """Lines that say that something is still to be done."""
    return [
        f"{path}: {line.strip()}"
        for path, text in texts(tree)
        for line in text.splitlines()
        if UNFINISHED.search(line)
    ]


def portaudio_includes(tree: Path) -> list[str]:
    """The C files that know PortAudio."""
    include = re.compile(r'^\s*#\s*include\s*[<"]portaudio\.h[>"]', re.MULTILINE)
    return [
        path for path, text in texts(tree) if path.startswith("native/") and include.search(text)
    ]


def _calls_sleep(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(attr="sleep", value=ast.Name(id="time"))):
            return True
        case ast.Call(func=ast.Name(id="sleep")):
            return True
    return False


def _at_import(node: ast.AST) -> Iterator[ast.AST]:
    """What runs when a module is imported: everything outside functions."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield child
            yield from _at_import(child)


def sleeps_at_import(tree: Path) -> list[str]:
    """Tests that wait while pytest only collects them."""
    return [
        f"{path}:{getattr(node, 'lineno', 0)}"
        for path, text in texts(tree)
        if path.startswith("tests/") and path.endswith(".py")
        for node in _at_import(ast.parse(text))
        if _calls_sleep(node)
    ]


def scripts_that_hide_failure(tree: Path) -> list[str]:
    """Shell scripts that go on after a command has failed. Sourced ones have their caller's."""
    return [
        path
        for path, text in texts(tree)
        if re.match(r"#!.*\b(ba|da)?sh\b", text) and not re.search(r"^set -eu", text, re.MULTILINE)
    ]


def places(tree: Path) -> list[str]:
    """Sources that name a host of packages: a build takes what its machine is set up for."""
    host = re.compile(
        r"\b[a-z0-9.-]+\.(debian|raspberrypi|raspbian|pypi|pythonhosted)\.(org|com|net)\b"
        r"|\bpypi\.org/simple"
    )
    return [f"{path}: {found[0]}" for path, text in texts(tree) if (found := host.search(text))]


def test_the_top_level_is_fixed() -> None:
    assert strangers(CHECKOUT) == set()


def test_nothing_is_left_unfinished() -> None:
    assert unfinished(CHECKOUT) == []


def test_one_file_knows_portaudio() -> None:
    assert portaudio_includes(CHECKOUT) == ["native/port.c"]


def test_collecting_the_tests_waits_for_nothing() -> None:
    assert sleeps_at_import(CHECKOUT) == []


def test_scripts_stop_at_a_failure() -> None:
    assert scripts_that_hide_failure(CHECKOUT) == []


def test_no_host_of_packages_is_named() -> None:
    assert places(CHECKOUT) == []


PLANTED: list[tuple[Callable[[Path], Collection[str]], str, str]] = [
    (strangers, "docs/index.md", "words"),
    (strangers, "setup.py", "pass"),
    (strangers, "README.md/x", "a folder in the place of a file"),
    (unfinished, "handset/core/turn.py", "x = 1  # TO" + "DO later"),
    (unfinished, "image/run", "#!/bin/sh\n# FIX" + "ME\n"),
    (portaudio_includes, "native/render.c", '#include <stdint.h>\n#include "portaudio.h"\n'),
    (sleeps_at_import, "tests/audio/test_card.py", "import time\nif True:\n    time.sleep(1)\n"),
    (sleeps_at_import, "tests/test_x.py", "from time import sleep\nclass A:\n    sleep(1)\n"),
    (scripts_that_hide_failure, "image/run", "#!/bin/sh\nfalse\ntrue\n"),
    (places, "image/sources", "#!/bin/sh\necho deb http://" + "deb." + "debian.org/debian x\n"),
]


@pytest.mark.parametrize(("rule", "path", "text"), PLANTED)
def test_a_planted_fault_is_found(
    rule: Callable[[Path], Collection[str]], path: str, text: str, tmp_path: Path
) -> None:
    assert not rule(tmp_path)
    planted = tmp_path / path
    planted.parent.mkdir(parents=True, exist_ok=True)
    planted.write_text(text, encoding="utf-8")
    assert len(rule(tmp_path)) == 1


def test_a_sleep_inside_a_function_is_no_wait_at_import(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_x.py").write_text(
        "import time\ndef test_x():\n    time.sleep(0.1)\n", encoding="utf-8"
    )
    assert sleeps_at_import(tmp_path) == []
