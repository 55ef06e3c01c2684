"""The process: how it starts, what it refuses, that it ends. And what it uses of aiortc."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
from pathlib import Path as File

import pytest
from aiortc import RTCPeerConnection, RTCRtpReceiver

from handset.bench.edge.process import EdgeFailed, EdgeProcess
from handset.bench.edge.rtc import new_certificate, tap, use_certificate
from handset.errors import UsageError


def command_line(pid: int) -> str:
    return File(f"/proc/{pid}/cmdline").read_text()


async def test_it_ends_on_sigterm_and_names_itself_when_it_starts() -> None:
    async with EdgeProcess({"replies": []}) as edge:
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/whip", edge.url)
        assert re.fullmatch(r"([0-9A-F]{2}:){31}[0-9A-F]{2}", edge.fingerprint)
        pid = edge.pid
        os.kill(pid, 0)
        assert edge.credential not in command_line(pid)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_it_ends_when_the_process_that_started_it_is_gone() -> None:
    code = (
        "import os, subprocess, sys\n"
        "edge = subprocess.Popen([sys.executable, '-m', 'handset.bench.edge',"
        " '--credential-env', 'C'], env={**os.environ, 'C': 'c'})\n"
        "sys.stdin.read()\n"
    )
    parent = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    assert parent.stdout is not None
    async with asyncio.timeout(30):
        assert json.loads(await parent.stdout.readline())["pid"]
        parent.send_signal(signal.SIGKILL)
        await parent.wait()
        # The edge has the other end of this pipe: it closes when the edge is gone.
        assert await parent.stdout.read() == b""


@pytest.mark.parametrize(
    ("script", "impair"),
    [({"replies": [["shout"]]}, None), ({"replies": []}, "loss=2"), ({"replies": []}, "fog=1")],
)
async def test_it_refuses_to_start_on_nonsense(script: dict[str, object], impair: str) -> None:
    with pytest.raises(EdgeFailed, match="status 2"):
        async with EdgeProcess(script, impair, stderr=asyncio.subprocess.DEVNULL):
            pass


async def test_a_calling_mistake_is_answered_with_its_reason() -> None:
    async with EdgeProcess({"replies": []}) as edge:
        for call, reason in (
            (edge.say("stop"), "404"),
            (edge.turn_pcm(1), "404"),
            (edge.script({"replies": [["shout"]]}), "400.*shout"),
        ):
            with pytest.raises(EdgeFailed, match=reason):
                await call


async def test_the_hidden_names_of_aiortc_are_there() -> None:
    certificate, fingerprint = new_certificate()
    pc = RTCPeerConnection()
    use_certificate(pc, certificate)
    pc.createDataChannel("ctl")
    await pc.setLocalDescription(await pc.createOffer())
    assert f"sha-256 {fingerprint}" in pc.localDescription.sdp
    receiver = pc.addTransceiver("audio").receiver
    assert isinstance(receiver, RTCRtpReceiver)
    tap(receiver, lambda ssrc, timestamp, payload: None)
    await pc.close()


def test_a_hidden_name_that_is_gone_is_an_error_with_a_way_out() -> None:
    class Receiver:
        pass

    with pytest.raises(UsageError, match=r"install 1\.16"):
        tap(Receiver(), lambda ssrc, timestamp, payload: None)  # type: ignore[arg-type]
