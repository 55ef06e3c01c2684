"""Building the native code for tests: CMake trees in a cache, and changed copies.

``HANDSET_BUILD_CACHE`` names the cache, ``~/.cache/kelter-handset`` by default.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

NATIVE = Path(__file__).resolve().parents[2] / "native"
JOBS = "2"


def cache(name: str) -> Path:
    """A directory that outlives the run, one per checkout."""
    root = Path(os.environ.get("HANDSET_BUILD_CACHE") or Path.home() / ".cache/kelter-handset")
    checkout = hashlib.sha256(str(NATIVE).encode()).hexdigest()[:8]
    path = root / f"{name}-{checkout}"
    path.mkdir(parents=True, exist_ok=True)
    return path


def run(*command: str | Path, timeout: float = 240) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, timeout=timeout
    )


def checked(*command: str | Path, timeout: float = 240) -> str:
    done = run(*command, timeout=timeout)
    assert done.returncode == 0, f"{command}:\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    return done.stdout


def build(source: Path, tree: Path, *options: str) -> Path:
    """Configures and builds ``source`` in ``tree``."""
    checked("cmake", "-S", source, "-B", tree, *options)
    checked("cmake", "--build", tree, "-j", JOBS)
    return tree


def build_c_tests(source: Path, tree: Path, *options: str) -> Path:
    return build(
        source,
        tree,
        "-DHANDSET_EXTENSION=OFF",
        "-DHANDSET_VCARD=OFF",
        "-DHANDSET_TESTS=ON",
        *options,
    )


class ChangedSource:
    """A copy of ``native`` in which one fault at a time is planted."""

    def __init__(self, root: Path) -> None:
        shutil.copytree(NATIVE, root, ignore=shutil.ignore_patterns("vcard", "__pycache__"))
        self.root = root

    @contextmanager
    def fault(self, file: str, old: str, new: str) -> Iterator[None]:
        path = self.root / file
        text = path.read_text(encoding="utf-8")
        assert text.count(old) == 1, f"the fault no longer fits {file}: {old!r}"
        path.write_text(text.replace(old, new), encoding="utf-8")
        try:
            yield
        finally:
            path.write_text(text, encoding="utf-8")
