"""``handset run`` as a process: a card that is not there at first, an edge, and a hand."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest

from handset.bench import speech
from handset.bench.edge.process import EdgeProcess
from handset.fakes.virtual_card import VirtualCard, VirtualCardError

SCRIPT = {"replies": [["readings-four"]] * 4, "speed": 8, "think_ms": 100}
REPLY = speech.load("readings-four")
ASKED = speech.load("ask-readings").pcm(48_000)
PATIENCE_S = 30
BUFFER_AND_BLOCK = 2_400
"""Frames that the default settings can have in the card: 20 ms of latency at most thrice."""


@pytest.fixture
def card() -> Iterator[VirtualCard]:
    try:
        made = VirtualCard()
    except VirtualCardError as error:
        pytest.skip(str(error))
    with made:
        yield made


class Service:
    """A running ``handset run``. ``log``: what it has said so far."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.log: list[str] = []
        self._changed = asyncio.Event()
        self._reading = asyncio.ensure_future(self._read())

    async def _read(self) -> None:
        assert self.process.stderr is not None
        async for line in self.process.stderr:
            self.log.append(line.decode().rstrip())
            self._changed.set()

    async def says(self, what: str, times: int = 1) -> str:
        """Waits for the n-th line with these words, and gives it."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                while len(found := [line for line in self.log if what in line]) < times:
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise AssertionError(f"no {what!r} in:\n" + "\n".join(self.log)) from None
        return found[times - 1]

    def hand(self, word: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{word}\n".encode())

    async def ends(self, within: float = 10) -> int:
        async with asyncio.timeout(within):
            status = await self.process.wait()
            await self._reading
        return status

    async def stop(self, within: float = 10) -> int:
        """SIGTERM, and its exit status."""
        self.process.send_signal(signal.SIGTERM)
        return await self.ends(within)


class Bed:
    """Without notices: what is on the tape is the reply. ``memory`` is a tmpfs."""

    def __init__(self, card: VirtualCard, folder: Path, memory: Path) -> None:
        self.card = card
        self.folder = folder
        self.memory = memory
        self.credential = folder / "credential"

    def settle(self, edge: EdgeProcess, credential: str | None = None) -> Path:
        """Writes the settings for this edge."""
        self.credential.write_text(credential or edge.credential)
        file = self.folder / "settings.toml"
        file.write_text(
            f"""
            [handset]
            id = "under-test"
            [edge]
            url = "{edge.url}"
            fingerprint = "{edge.fingerprint}"
            credential_file = "{self.credential}"
            loopback = true
            [audio]
            device = "{self.card.device}"
            [files]
            state = "{self.folder / "state"}"
            runtime = "{self.memory}"
            [wearer]
            notices = false
            """
        )
        return file

    @asynccontextmanager
    async def service(self, file: Path) -> AsyncIterator[Service]:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "handset.cli",
            "run",
            str(file),
            "--control",
            "lines",
            env=os.environ | self.card.environment,
            stdin=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        service = Service(process)
        try:
            yield service
        finally:
            if process.returncode is None:
                process.kill()
            await service.ends()

    async def speaks(self, service: Service, turn: int) -> int:
        """The person says the utterance, with the button down for it. Its card frame."""
        first = self.card.speak(ASKED, self.card.now_frame() + 9_600)
        service.hand("press")
        await service.says(f"turn {turn}: listening")
        await self.reach(first + len(ASKED))
        service.hand("release")
        await service.says(f"turn {turn}: committed by ptt")
        return first

    async def reach(self, frame: int) -> None:
        await asyncio.to_thread(self.card.wait_committed, frame, PATIENCE_S)


@pytest.fixture
def bed(card: VirtualCard, tmp_path: Path) -> Iterator[Bed]:
    with TemporaryDirectory(dir="/dev/shm") as memory:
        yield Bed(card, tmp_path, Path(memory))


async def edge_has(edge: EdgeProcess, met: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
    """Asks the edge until it knows something."""
    report: dict[str, Any] = {}
    try:
        async with asyncio.timeout(PATIENCE_S):
            while True:
                report = await edge.report()
                if report["sessions"] and met(report):
                    return report
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise AssertionError(f"the edge never had it: {report}") from None


def items(report: dict[str, Any]) -> list[dict[str, Any]]:
    return [item for session in report["sessions"] for item in session["items"]]


def events(report: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    """Each once, however often it arrived."""
    arrived = (each["event"] for each in report["events"] if each["type"] == kind)
    return list({event["event_id"]: event for event in arrived}.values())


def told(report: dict[str, Any]) -> set[str]:
    """Ids of all events that arrived, once or more often."""
    return {each["event"]["event_id"] for each in report["events"]}


def finals(report: dict[str, Any]) -> list[dict[str, Any]]:
    return [each for each in events(report, "playout.receipt") if each["state"] != "queued"]


def heard(card: VirtualCard, since: int) -> int:
    """How many samples of the reply the card's tape has, by where its sound is on it."""
    whole = REPLY.pcm(48_000)
    tape = card.record(since, card.sync()).samples
    loud = np.flatnonzero(whole)[0]
    start = np.flatnonzero(tape)[0] - loud
    part = tape[start : start + len(whole)]
    same = np.flatnonzero(part != whole[: len(part)])
    return int(same[0]) if len(same) else len(part)


async def test_a_turn_is_received_whole_and_its_reply_is_played(bed: Bed) -> None:
    async with EdgeProcess(SCRIPT, allow_loopback=True) as edge:
        async with bed.service(bed.settle(edge)) as service:
            await service.says("connected: session")
            since = bed.card.sync()
            await bed.speaks(service, 1)
            await service.says("turn 1: received by the service")
            report = await edge_has(edge, lambda r: [i for i in items(r) if i["receipt"]])
            (turn,) = report["sessions"][0]["turns"]
            assert (turn["state"], turn["complete"], turn["missing"]) == ("admitted", True, [])
            got = await edge.turn_pcm(1)
            assert len(got) == turn["samples"] >= len(ASKED)
            await edge_has(edge, lambda r: items(r)[0]["receipt"] == "played")
            assert heard(bed.card, since) == len(REPLY.pcm(48_000))
            assert await service.stop() == 0
            assert "all events delivered" in service.log[-1]
        (item,) = items(await edge.report())
        assert (item["played"], item["exact"]) == (REPLY.samples, True)
        assert item["truncated_at"] is None


async def test_sigterm_in_the_middle_of_a_reply(bed: Bed) -> None:
    async with EdgeProcess(SCRIPT, allow_loopback=True) as edge:
        async with bed.service(bed.settle(edge)) as service:
            await service.says("connected: session")
            since = bed.card.sync()
            await bed.speaks(service, 1)
            await edge_has(edge, lambda r: items(r) and items(r)[0]["handed_at_least"] > 12_000)
            began = time.monotonic()
            assert await service.stop() == 0
            assert time.monotonic() - began < 10
            assert "all events delivered" in service.log[-1]
        report = await edge.report()
        (cleared,) = events(report, "playout.cleared")
        assert [cause["kind"] for cause in cleared["causes"]] == ["shutdown"]
        (final,) = finals(report)
        assert (final["state"], final["cleared"]) == ("cleared", cleared["event_id"])
        cursor = final["cursor"]
        assert cursor["exact"]
        # The tape has the fade as other samples, so it agrees up to where that begins.
        full = (cursor["handed"] - cursor["faded"]) * 2
        assert full <= heard(bed.card, since) <= full + 32
        (shutdown,) = events(report, "shutdown")
        assert shutdown["cause"] == "SIGTERM"
        order = [each["type"] for each in report["events"]]
        assert order.index("playout.cleared") < order.index("shutdown")


async def test_without_the_edge_the_events_are_kept_for_the_next_run(bed: Bed) -> None:
    edge = EdgeProcess(SCRIPT, allow_loopback=True)
    async with edge, bed.service(bed.settle(edge)) as service:
        await service.says("connected: session")
        await bed.speaks(service, 1)
        report = await edge_has(edge, lambda r: items(r) and items(r)[0]["handed_at_least"])
        os.kill(edge.pid, signal.SIGKILL)
        assert await service.stop() == 0
        assert "events kept for the next run" in service.log[-1]
        kept = int(service.log[-1].split()[-7])
        assert kept >= 3
    known = told(report)
    async with (
        EdgeProcess(SCRIPT, allow_loopback=True) as later,
        bed.service(bed.settle(later)) as service,
    ):
        await service.says("connected: session")
        report = await edge_has(later, lambda r: len(told(r)) >= kept)
        assert len(told(report)) == kept
        fresh = [each for each in report["events"] if each["event"]["event_id"] not in known]
        kinds = {each["type"] for each in fresh}
        assert {"playout.cleared", "playout.receipt", "shutdown"} <= kinds
        assert await service.stop() == 0
        assert "all events delivered" in service.log[-1]


async def test_a_missing_card_is_said_and_waited_for(bed: Bed) -> None:
    bed.card.unplug()
    async with (
        EdgeProcess(SCRIPT, allow_loopback=True) as edge,
        bed.service(bed.settle(edge)) as service,
    ):
        await service.says("connected: session")
        await service.says(bed.card.device)
        service.hand("press")
        await service.says("press without effect: no microphone")
        service.hand("release")
        bed.card.replug()
        await service.says("sound card")
        await service.says("sound card kelter-virtual at 48000 Hz")
        await bed.speaks(service, 1)
        await service.says("turn 1: received by the service")
        assert await service.stop() == 0


async def test_a_wrong_credential_is_said_without_it(bed: Bed) -> None:
    secret = "an-old-credential"
    async with EdgeProcess(SCRIPT, allow_loopback=True) as edge:
        async with bed.service(bed.settle(edge, secret)) as service:
            await service.says("credential")
            assert await service.stop() == 0
        assert secret not in "\n".join(service.log)
        assert edge.credential not in "\n".join(service.log)


async def test_unplugged_in_the_middle_of_a_reply(bed: Bed) -> None:
    async with (
        EdgeProcess(SCRIPT, allow_loopback=True) as edge,
        bed.service(bed.settle(edge)) as service,
    ):
        await service.says("connected: session")
        since = bed.card.sync()
        await bed.speaks(service, 1)
        await edge_has(edge, lambda r: items(r) and items(r)[0]["handed_at_least"] > 12_000)
        bed.card.unplug()
        await service.says("sound card lost")
        report = await edge_has(edge, finals)
        (final,) = finals(report)
        assert (final["state"], final["reason"]) == ("cleared", "the sound card is gone")
        (cleared,) = events(report, "playout.cleared")
        assert [cause["kind"] for cause in cleared["causes"]] == ["device_lost"]
        cursor = final["cursor"]
        sounded = heard(bed.card, since)
        assert not cursor["exact"]
        assert cursor["played"] * 2 <= sounded <= cursor["handed"] * 2
        assert 0 < cursor["lost_max"] * 2 <= BUFFER_AND_BLOCK
        bed.card.replug()
        await service.says("sound card kelter-virtual at", times=2)
        since = bed.card.sync()
        await bed.speaks(service, 2)
        await service.says("turn 2: received by the service")
        report = await edge_has(
            edge, lambda r: len(items(r)) == 2 and items(r)[1]["receipt"] == "played"
        )
        assert heard(bed.card, since) == len(REPLY.pcm(48_000))
        first, second = report["sessions"][0]["turns"]
        assert second["complete"]
        assert first["capture"][1] <= second["capture"][0] < second["capture"][1]
        assert await service.stop() == 0


async def test_words_spoken_before_there_is_an_edge_survive_a_kill(bed: Bed) -> None:
    async with EdgeProcess(SCRIPT, allow_loopback=True) as gone:
        file = bed.settle(gone)
    async with bed.service(file) as service:
        await service.says("sound card kelter-virtual at")
        await bed.speaks(service, 1)
        service.process.kill()
        await service.ends()
    async with (
        EdgeProcess(SCRIPT, allow_loopback=True) as edge,
        bed.service(bed.settle(edge)) as service,
    ):
        await service.says("turn 1: received by the service")
        await bed.speaks(service, 2)
        await service.says("turn 2: received by the service")
        (session,) = (await edge.report())["sessions"]
        heard_then = await edge.turn_pcm(1)
        assert await service.stop() == 0
    first, second = session["turns"]
    assert first["complete"] and first["committed_by"] == "ptt"
    assert second["capture"][0] > first["capture"][1]  # no position is used twice
    assert len(heard_then) == first["samples"] > len(ASKED)
    assert np.abs(heard_then).max() > 2_000  # it is what was said
    assert list(bed.memory.glob("turns/turn-*")) == []  # and nothing of it is left
