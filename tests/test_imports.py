"""Imports point inward: core, then adapters, then composition.

Each rule is a function of a tree of sources; a planted sample shows that it can fail.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "handset"

DATA_MODULES = {
    "__future__", "bisect", "collections", "collections.abc", "dataclasses", "enum", "functools",
    "heapq", "itertools", "json", "math", "re", "struct", "typing",
}  # fmt: skip
ADAPTERS = {"audio", "controls", "edge", "system"}
SHARED = {"core", "errors", "ports"}
COMPOSITION = {"cli", "__main__"}
SIDE_BY_SIDE = {"bench", "fakes"}


@dataclass(frozen=True, slots=True)
class Import:
    """``where`` imports ``what``; ``lazily`` when it does so only as a function runs."""

    where: str
    what: str
    lazily: bool = False

    @property
    def ring(self) -> str:
        """The folder or module of the package that imports: ``core``, ``audio``, ``cli``."""
        return self.where.split(".")[1] if "." in self.where else ""

    @property
    def own(self) -> str | None:
        """The folder or module of the package that is imported, if it is one of ours."""
        parts = self.what.split(".")
        if parts[0] != "handset":
            return None
        return parts[1] if len(parts) > 1 else ""

    def is_of(self, *names: str) -> bool:
        return any(self.what == name or self.what.startswith(f"{name}.") for name in names)

    def __str__(self) -> str:
        return f"{self.where} imports {self.what}"


def imports(module: str, source: str, is_package: bool = False) -> Iterator[Import]:
    """Every import of a module, relative ones resolved, ``from a import b`` as ``a.b``."""
    package = module if is_package else module.rpartition(".")[0]

    def visit(node: ast.AST, lazily: bool) -> Iterator[Import]:
        match node:
            case ast.Import():
                for name in node.names:
                    yield Import(module, name.name, lazily)
            case ast.ImportFrom():
                base = node.module or ""
                if node.level:
                    parts = package.split(".")
                    kept = parts[: len(parts) - node.level + 1]
                    base = ".".join([*kept, *([base] if base else [])])
                for name in node.names:
                    yield Import(module, f"{base}.{name.name}", lazily)
            case _:
                inside = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
                for child in ast.iter_child_nodes(node):
                    yield from visit(child, lazily or inside)

    yield from visit(ast.parse(source), False)


def of_package(package: Path) -> list[Import]:
    found: list[Import] = []
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package.parent).with_suffix("").parts
        is_package = parts[-1] == "__init__"
        module = ".".join(parts[:-1] if is_package else parts)
        found += imports(module, path.read_text(encoding="utf-8"), is_package)
    return found


def core_breaks(found: list[Import]) -> list[Import]:
    """Core imports data modules of the standard library, and core."""
    return [
        each
        for each in found
        if each.ring == "core"
        and each.own != "core"
        and each.what not in DATA_MODULES
        and each.what.rpartition(".")[0] not in DATA_MODULES
    ]


def adapter_breaks(found: list[Import]) -> list[Import]:
    """An adapter knows core, the errors, the ports and itself."""
    return [
        each
        for each in found
        if each.ring in ADAPTERS
        and each.own is not None
        and each.own not in SHARED | {each.ring, "_native", "__version__"}
    ]


def device_breaks(found: list[Import]) -> list[Import]:
    """Only the audio adapter talks to PortAudio and to the native module."""
    return [
        each
        for each in found
        if each.ring != "audio" and each.is_of("sounddevice", "_sounddevice", "handset._native")
    ]


def product_breaks(found: list[Import]) -> list[Import]:
    """The product runs without its bench and its fakes; the command line loads them when asked."""
    return [
        each
        for each in found
        if each.ring not in SIDE_BY_SIDE
        and each.own in SIDE_BY_SIDE
        and not (each.ring in COMPOSITION and each.lazily)
    ]


def inward_breaks(found: list[Import]) -> list[Import]:
    """Errors and ports are below everything: they know core at most."""
    return [
        each
        for each in found
        if each.ring in {"errors", "ports"} and each.own not in {None, *SHARED}
    ]


Rule = Callable[[list[Import]], list[Import]]
RULES: list[Rule] = [core_breaks, adapter_breaks, device_breaks, product_breaks, inward_breaks]


@pytest.mark.parametrize("rule", RULES)
def test_the_package_keeps_the_rule(rule: Rule) -> None:
    assert [str(each) for each in rule(of_package(PACKAGE))] == []


def test_the_package_is_read_whole() -> None:
    found = of_package(PACKAGE)
    assert {"core", "audio", "edge"} <= {each.ring for each in found}
    assert any(each.is_of("sounddevice") for each in found)


PLANTED: list[tuple[Rule, str, str]] = [
    (core_breaks, "handset/core/turn.py", "import time"),
    (core_breaks, "handset/core/turn.py", "def now():\n    from os import times"),
    (core_breaks, "handset/core/turn.py", "from handset.edge import codec"),
    (core_breaks, "handset/core/turn.py", "from ..edge.codec import encode"),
    (core_breaks, "handset/core/__init__.py", "from .. import errors"),
    (adapter_breaks, "handset/edge/peer.py", "from handset.audio import opus"),
    (adapter_breaks, "handset/edge/peer.py", "from ..app import App"),
    (adapter_breaks, "handset/system/status.py", "import handset.cli"),
    (adapter_breaks, "handset/audio/card.py", "from handset import fakes"),
    (device_breaks, "handset/fakes/card.py", "import sounddevice as sd"),
    (device_breaks, "handset/bench/loop.py", "from handset._native import lib"),
    (device_breaks, "handset/app.py", "from . import _native"),
    (product_breaks, "handset/app.py", "def run():\n    import handset.bench.edge"),
    (product_breaks, "handset/cli.py", "from handset.fakes import card"),
    (product_breaks, "handset/settings.py", "from .bench import edge"),
    (inward_breaks, "handset/ports.py", "from handset.audio import card"),
]


@pytest.mark.parametrize(("rule", "path", "source"), PLANTED)
def test_a_planted_import_is_found(rule: Rule, path: str, source: str, tmp_path: Path) -> None:
    planted = tmp_path / path
    planted.parent.mkdir(parents=True)
    planted.write_text(source, encoding="utf-8")
    assert len(rule(of_package(tmp_path / "handset"))) == 1


ALLOWED = [
    ("handset/core/turn.py", "from collections.abc import Iterator\nfrom .item import Item"),
    ("handset/audio/card.py", "import sounddevice\nfrom handset._native import ffi, lib"),
    ("handset/edge/peer.py", "import aiortc\nfrom handset.core.item import Item"),
    ("handset/cli.py", "def bench():\n    from handset.bench import edge"),
    ("handset/bench/edge.py", "from handset.fakes import card\nfrom handset.app import App"),
]


@pytest.mark.parametrize(("path", "source"), ALLOWED)
def test_what_is_allowed_passes(path: str, source: str, tmp_path: Path) -> None:
    planted = tmp_path / path
    planted.parent.mkdir(parents=True)
    planted.write_text(source, encoding="utf-8")
    found = of_package(tmp_path / "handset")
    assert [str(each) for rule in RULES for each in rule(found)] == []
