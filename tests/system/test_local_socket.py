"""The local socket: who may ask, what is bounded, and what happens when it is in use."""

from __future__ import annotations

import asyncio
import json
import os
import stat
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handset.errors import HandsetError, UsageError
from handset.system.local_client import ask
from handset.system.local_requests import (
    LONGEST_LINE,
    LONGEST_TEXT,
    Answer,
    Request,
    checked,
    read_line,
    typed_text,
    write_line,
)
from handset.system.local_socket import Limits, LocalServer


def echo(request: Request) -> Answer:
    if request.get("text") == "fail":
        raise HandsetError("not today: try tomorrow")
    if request.get("text") == "break":
        raise RuntimeError("a fault of ours")
    return {"request": request}


@asynccontextmanager
async def serving(path: Path, **limits: Any) -> AsyncIterator[LocalServer]:
    async with LocalServer(path, echo, Limits(**limits)) as server:
        yield server


async def asked(path: Path, request: dict[str, Any]) -> dict[str, Any]:
    return await asyncio.to_thread(ask, path, request, 5)


async def raw(path: Path, data: bytes) -> bytes:
    reader, writer = await asyncio.open_unix_connection(str(path))
    writer.write(data)
    answer = await asyncio.wait_for(reader.readline(), 10)
    writer.close()
    return answer


async def test_a_request_and_its_answer(tmp_path: Path) -> None:
    path = tmp_path / "run" / "control"
    async with serving(path):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        answer = await asked(path, {"do": "type", "text": "  hello\r\nthere "})
        assert answer == {"ok": True, "request": {"do": "type", "text": "hello\nthere"}}
        answer = await asked(path, {"do": "type", "text": "fail"})
        assert answer == {"ok": False, "error": "not today: try tomorrow"}
        answer = await asked(path, {"do": "type", "text": "break"})
        assert not answer["ok"] and "fault" not in answer["error"]
    assert not path.exists()


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"x\n", "not JSON"),
        (b"\xff\n", "not UTF-8"),
        (b"[]\n", "a request is a JSON object"),
        (b'{"do": "fly"}\n', "do = 'fly': one of gesture, status, type"),
        (b'{"do": "type"}\n', "the field 'text' is missing"),
        (b'{"do": "status", "x": 1}\n', "the field 'x' is not known"),
        (b'{"do": "type", "text": 3}\n', "must be a text"),
        (b'{"do": "type", "text": " "}\n', "the text is empty"),
        (b'{"do": "gesture", "name": "A B"}\n', "no gesture is named"),
        (b"x" * (LONGEST_LINE + 100) + b"\n", "at most"),
    ],
)
async def test_what_is_no_request_is_answered_with_its_cure(
    tmp_path: Path, line: bytes, said: str
) -> None:
    async with serving(tmp_path / "control"):
        answer = json.loads(await raw(tmp_path / "control", line))
        assert not answer["ok"] and said in answer["error"]


async def test_there_are_only_so_many_clients_and_only_so_long(tmp_path: Path) -> None:
    path = tmp_path / "control"
    async with serving(path, clients=2, idle_s=0.3):
        open_ones = [await asyncio.open_unix_connection(str(path)) for _ in range(2)]
        await asyncio.sleep(0)
        refused = json.loads(await raw(path, b'{"do": "status"}\n'))
        assert "2 clients are connected already" in refused["error"]
        for reader, writer in open_ones:
            assert "no line within" in json.loads(await reader.readline())["error"]
            writer.close()


async def test_a_socket_in_use_is_not_taken_and_a_dead_one_is(tmp_path: Path) -> None:
    path = tmp_path / "control"
    async with serving(path):
        with pytest.raises(UsageError, match=str(os.getpid())):
            await LocalServer(path, echo).start()
        assert (await asked(path, {"do": "status"}))["ok"]
    code = (
        "import asyncio, os, sys\n"
        "from pathlib import Path\n"
        "from handset.system.local_socket import LocalServer\n"
        "async def main():\n"
        "    await LocalServer(Path(sys.argv[1]), lambda r: {}).start()\n"
        "    os._exit(9)\n"
        "asyncio.run(main())\n"
    )
    command = [sys.executable, "-P", "-c", code, str(path)]
    assert (await asyncio.to_thread(subprocess.run, command)).returncode == 9
    assert path.exists()
    async with serving(path):
        assert (await asked(path, {"do": "status"}))["ok"]


def test_without_a_service_the_client_says_where_it_looked(tmp_path: Path) -> None:
    with pytest.raises(HandsetError, match=str(tmp_path)):
        ask(tmp_path / "control", {"do": "status"}, 1)


@pytest.mark.parametrize(
    ("text", "said"),
    [("", "is empty"), ("x" * (LONGEST_TEXT + 1), "at most"), ("a\x07b", "control character")],
)
def test_a_text_that_could_not_be_meant_is_refused(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        typed_text(text)


@given(st.binary(max_size=200))
def test_no_bytes_break_the_reader(data: bytes) -> None:
    with suppress(UsageError):
        checked(read_line(data))


@given(st.dictionaries(st.text(max_size=5), st.text(max_size=20), max_size=4))
def test_a_line_is_one_line(message: dict[str, str]) -> None:
    try:
        line = write_line(dict(message))
    except UsageError:
        return  # what UTF-8 has no words for
    assert line.count(b"\n") == 1 and read_line(line) == message
