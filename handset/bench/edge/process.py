"""The bench edge as a process of its own, for the bench and for tests.

async with EdgeProcess(script={"replies": [["readings-four"]]}) as edge:
    ...  # connect to edge.url with edge.credential, pin edge.fingerprint
    print(await edge.report())
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import sys
import tempfile
from pathlib import Path as File
from typing import Any, Self

import aiohttp
import numpy as np
from numpy.typing import NDArray

CREDENTIAL = "HANDSET_BENCH_CREDENTIAL"
START_S = 30.0
STOP_S = 10.0


class EdgeFailed(RuntimeError):
    """The process did not start, or refused a call. The message has its words."""


class EdgeProcess:
    """``script``: see :mod:`.provider`; null is the shipped conversation. ``impair``: a lossy
    path, see :mod:`handset.bench.impair`. ``stderr``: where its log goes, default ours."""

    def __init__(
        self,
        script: dict[str, Any] | None = None,
        impair: str | None = None,
        connections: int | None = None,
        credential: str | None = None,
        port: int = 0,
        allow_loopback: bool = False,
        stderr: int | None = None,
    ) -> None:
        self.credential = credential or secrets.token_urlsafe(24)
        self.url = ""
        self.fingerprint = ""
        self.pid = 0
        self._script = script
        self._arguments = ["--port", str(port)]
        if impair is not None:
            self._arguments += ["--impair", impair]
        if connections is not None:
            self._arguments += ["--connections", str(connections)]
        if allow_loopback:
            self._arguments.append("--allow-loopback")
        self._stderr = stderr
        self._process: asyncio.subprocess.Process | None = None
        self._http: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        try:
            await self._start()
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def _start(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            arguments = list(self._arguments)
            if self._script is not None:
                file = File(folder) / "script.json"
                file.write_text(json.dumps(self._script))
                arguments += ["--script", str(file)]
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-P",  # the folder it runs in may hold another handset
                "-m",
                "handset.bench.edge",
                "--credential-env",
                CREDENTIAL,
                *arguments,
                env={**os.environ, CREDENTIAL: self.credential},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=self._stderr,
            )
            assert self._process.stdout is not None
            async with asyncio.timeout(START_S):
                line = await self._process.stdout.readline()
        if not line:
            raise EdgeFailed(f"the edge ended with status {await self._process.wait()}")
        started = json.loads(line)
        self.url, self.fingerprint = started["url"], started["fingerprint"]
        self.pid = started["pid"]
        self._http = aiohttp.ClientSession(self.url.removesuffix("/whip"))

    async def __aexit__(self, *_: object) -> None:
        if self._http is not None:
            await self._http.close()
        process = self._process
        if process is None or process.returncode is not None:
            return
        process.terminate()
        try:
            async with asyncio.timeout(STOP_S):
                await process.wait()
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    async def report(self, handset: str | None = None) -> dict[str, Any]:
        """What the edge knows: see :mod:`.report`."""
        query = "" if handset is None else f"?handset={handset}"
        return dict(json.loads(await self._call("GET", f"/report{query}")))

    async def turn_pcm(self, turn: int) -> NDArray[np.int16]:
        """A complete turn's sound: 48 kHz, shape (samples,)."""
        return np.frombuffer(await self._call("GET", f"/turn/{turn}.pcm"), "<i2").astype(np.int16)

    async def say(self, *clips: str) -> str:
        """Unprompted speech; the id of the response."""
        body = await self._call("POST", "/say", {"clips": list(clips)})
        return str(json.loads(body)["response_id"])

    async def clear(self, response_id: str) -> None:
        """Ask the handset to stop playing a response."""
        await self._call("POST", f"/clear/{response_id}")

    async def script(self, script: dict[str, Any]) -> None:
        """Another script, for the turns to come."""
        await self._call("POST", "/script", script)

    async def go_away(self, ms: int) -> None:
        await self._call("POST", "/go_away", {"ms": ms})

    async def alert(self, alert_id: str, *clips: str, **fields: Any) -> None:
        """Something that the person must hear; fields as in :class:`.alerts.OpenAlert`."""
        await self._call("POST", "/alert", {"alert_id": alert_id, "clips": clips, **fields})

    async def withdraw(self, alert_id: str) -> None:
        await self._call("POST", f"/withdraw/{alert_id}")

    async def policy(self, require_manual: bool, next_turn: bool = False) -> None:
        body = {"require_manual": require_manual, "next_turn": next_turn}
        await self._call("POST", "/policy", body)

    async def end(self, reason: str) -> None:
        """End the session from the edge's side."""
        await self._call("POST", "/end", {"reason": reason})

    async def _call(self, method: str, path: str, body: dict[str, Any] | None = None) -> bytes:
        assert self._http is not None, "the edge is not running"
        async with self._http.request(method, path, json=body) as response:
            data = await response.read()
            if response.status != 200:
                raise EdgeFailed(f"{method} {path}: {response.status} {data.decode()[:400]}")
            return data
