"""``handset type``, as a process, against a socket that answers as the handset does."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from handset.system.local_socket import NAME, LocalServer


class Service:
    def __init__(self, **answer: Any) -> None:
        self.answer = answer
        self.texts: list[str] = []

    def __call__(self, request: dict[str, Any]) -> dict[str, Any]:
        self.texts.append(request["text"])
        return self.answer


async def typed(
    folder: Path, service: Service | None, *words: str, given: str | None = None
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "handset.cli", "type", "--runtime", str(folder), *words]

    def run() -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, input=given, capture_output=True, text=True, timeout=30)

    if service is None:
        return await asyncio.to_thread(run)
    async with LocalServer(folder / NAME, service):  # type: ignore[arg-type]
        return await asyncio.to_thread(run)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ({"turn": 7}, "turn 7: committed (typed)\n"),
        (
            {"turn": 8, "kept": True},
            "turn 8: committed (typed); kept until the connection is back\n",
        ),
        (
            {"turn": 9, "waits": True},
            "typed; it is committed when the spoken turn that is open has ended\n",
        ),
    ],
)
async def test_words_become_a_turn(tmp_path: Path, answer: dict[str, Any], said: str) -> None:
    service = Service(**answer)
    done = await typed(tmp_path, service, "stop", "the", "fan")
    assert (done.returncode, done.stdout, done.stderr) == (0, said, "")
    assert service.texts == ["stop the fan"]


@pytest.mark.parametrize("words", [("-",), ()])
async def test_standard_input_is_read_to_its_end(tmp_path: Path, words: tuple[str, ...]) -> None:
    service = Service(turn=1)
    done = await typed(tmp_path, service, *words, given="one\ntwo\n")
    assert done.returncode == 0
    assert service.texts == ["one\ntwo"]


async def test_nothing_is_refused_before_anybody_is_asked(tmp_path: Path) -> None:
    done = await typed(tmp_path, None, given="  \n")
    assert done.returncode == 2
    assert "the text is empty" in done.stderr


async def test_without_a_handset_it_says_where_it_looked(tmp_path: Path) -> None:
    done = await typed(tmp_path, None, "hello")
    assert done.returncode == 1
    assert str(tmp_path) in done.stderr and "Traceback" not in done.stderr
