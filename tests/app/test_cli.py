"""The command ``handset``, as a process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from handset import __version__
from handset.cli import COMMANDS
from handset.settings import EXAMPLE

HEAVY = {"aiortc", "av", "numpy", "rich", "sounddevice"}


def handset(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "handset.cli", *arguments],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=60,
    )


@pytest.mark.parametrize("option", ["--version", "-V"])
def test_version(option: str) -> None:
    done = handset(option)
    assert (done.returncode, done.stdout) == (0, f"handset {__version__}\n")


@pytest.mark.parametrize(("arguments", "status"), [(["--help"], 0), (["-h"], 0), ([], 2)])
def test_the_overview_names_every_command(arguments: list[str], status: int) -> None:
    done = handset(*arguments)
    assert done.returncode == status
    for words in COMMANDS:
        assert f"handset {' '.join(words)}" in done.stdout


@pytest.mark.parametrize("words", [["walk"], ["walk", "talk"], ["--walk"]])
def test_an_unknown_command_shows_those_that_there_are(words: list[str]) -> None:
    done = handset(*words)
    assert done.returncode == 2
    assert "no command 'walk'" in done.stderr or "no command '--walk'" in done.stderr
    assert "handset run" in done.stderr
    assert done.stdout == ""


def test_run_without_its_file_says_what_one_looks_like(tmp_path: Path) -> None:
    done = handset("run", str(tmp_path / "nofile"))
    assert done.returncode == 1
    assert done.stderr.startswith(f"handset: {tmp_path / 'nofile'}: No such file")
    assert EXAMPLE in done.stderr
    assert "Traceback" not in done.stderr


def test_run_says_what_is_wrong_without_a_traceback(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text(EXAMPLE)  # its credential is not on this machine
    done = handset("run", str(file))
    assert done.returncode == 1
    assert "edge.credential_file /etc/kelter-handset/credential: No such file" in done.stderr
    assert "Traceback" not in done.stderr


def test_bench_alone_is_the_conversation() -> None:
    alone, named = handset("bench", "--help"), handset("bench", "talk", "--help")
    assert alone.returncode == named.returncode == 0
    assert alone.stdout == named.stdout
    assert alone.stdout.startswith("usage: handset bench talk")


def test_every_command_that_is_listed_is_there() -> None:
    for words in COMMANDS:
        done = handset(*words, "--help")
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith(f"usage: handset {' '.join(words)}")


def test_the_command_line_loads_nothing_heavy() -> None:
    code = "import sys, handset.cli; print(*{name.split('.')[0] for name in sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "handset" in loaded
    assert loaded & HEAVY == set()
