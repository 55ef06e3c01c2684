"""Turn-taking on the real path: PortAudio and ALSA on the virtual card, a real peer
connection to an edge in a process of its own, notices switched on."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest

from handset.app import Application, AppSettings
from handset.audio import devices
from handset.audio.card import CardSettings
from handset.bench import speech
from handset.bench.edge.process import EdgeProcess
from handset.core.events import Observe
from handset.core.keys import Key, KeySettings
from handset.core.notices import Notice, Part
from handset.core.person import PersonSettings
from handset.edge.whip import Target
from handset.fakes.virtual_card import VirtualCard, VirtualCardError
from handset.notices import Sounds
from handset.starting import Files
from handset.system.local_client import ask

RATE = 48_000
ASKED = speech.load("ask-readings").pcm(RATE)
SCRIPT = {"replies": [["readings-four"], ["yes-five"], ["yes-five"]], "speed": 8, "think_ms": 50}
PATIENCE_S = 40


class Bed:
    def __init__(self, app: Application, edge: EdgeProcess, card: VirtualCard) -> None:
        self.app, self.edge, self.card = app, edge, card
        self.records: list[Observe] = []
        self._changed = asyncio.Event()
        app.watchers.append(self._seen)

    def _seen(self, record: Observe) -> None:
        self.records.append(record)
        self._changed.set()

    def of(self, kind: str) -> list[Observe]:
        return [record for record in self.records if record.kind == kind]

    async def until(self, met: Callable[[], bool]) -> None:
        try:
            async with asyncio.timeout(PATIENCE_S):
                while not met():
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            kinds = [(record.kind, record.facts) for record in self.records[-12:]]
            raise AssertionError(f"waited in vain; last {kinds}") from None

    async def polled(self, met: Callable[[], bool]) -> None:
        """For what no record tells."""
        async with asyncio.timeout(PATIENCE_S):
            while not met():  # noqa: ASYNC110
                await asyncio.sleep(0.01)

    async def says(self, kind: str, times: int = 1) -> None:
        await self.until(lambda: len(self.of(kind)) >= times)

    async def speak(self, at: int | None = None) -> int:
        first = self.card.speak(ASKED, self.card.now_frame() + 9_600 if at is None else at)
        return first

    async def turn(self, number: int) -> None:
        """A spoken turn, with the button."""
        first = await self.speak()
        self.app.press(time.monotonic_ns())
        await asyncio.to_thread(self.card.wait_committed, first + len(ASKED), PATIENCE_S)
        self.app.release(time.monotonic_ns())
        await self.says("turn.committed", number)

    def tape(self) -> np.ndarray:
        return self.card.record(0, self.card.sync()).samples

    async def session(self) -> dict[str, Any]:
        return dict((await self.edge.report())["sessions"][-1])


@asynccontextmanager
async def bed(
    tmp_path: Path, person: PersonSettings | None = None, script: dict[str, Any] | None = None
) -> AsyncIterator[Bed]:
    try:
        card = VirtualCard(rate=RATE)
    except VirtualCardError as error:
        pytest.skip(str(error))
    with card, TemporaryDirectory(dir="/dev/shm") as memory:
        card.activate()
        devices.rescan()
        async with EdgeProcess(script=script or SCRIPT, allow_loopback=True) as edge:
            target = Target(edge.url, edge.credential, edge.fingerprint, allow_loopback=True)
            app = Application(
                AppSettings(
                    CardSettings(card.device, rate=RATE, asound_root=card.asound_root),
                    lambda: target,
                    Files(tmp_path, Path(memory)),
                    "bed",
                    person=person or PersonSettings(),
                )
            )
            made = Bed(app, edge, card)
            running = asyncio.ensure_future(app.run())
            try:
                await made.says("session.open")
                yield made
                app.stop("over")
                await running
            finally:
                running.cancel()


def place(tape: np.ndarray, sound: np.ndarray) -> int:
    """Where a sound lies on the tape, sample for sample; -1 for nowhere."""
    probe = int(np.argmax(np.abs(sound) > 500))
    for at in np.flatnonzero(tape == sound[probe]):
        first = int(at) - probe
        if first >= 0 and np.array_equal(tape[first : first + len(sound)], sound):
            return first
    return -1


async def test_disclosure_permit_and_reply_are_on_the_tape_in_this_order(tmp_path: Path) -> None:
    async with bed(tmp_path) as made:
        await made.says("wearer.consent")
        await made.turn(1)
        await made.says("capture.received")
        await made.until(lambda: bool(made.of("item.announced")))
        made.app.press(time.monotonic_ns())  # and the reply is cut
        await made.says("clear.answered")
        made.app.release(time.monotonic_ns())
        await made.says("item.final")
        session = await made.session()
        tape = made.tape()
    sounds = Sounds("en", RATE)
    told = place(tape, sounds.frames(Notice.DISCLOSURE, Part.PROMPT))
    permit = place(tape, sounds.frames(Notice.TALK_PERMIT, Part.TONE))
    assert 0 <= told < permit
    (first, *_) = session["turns"]
    assert "talk_permit/tone" in [mark["name"] for mark in first["notices"]]
    assert first["evidence"]["control"] == "bench"
    assert {consent["by"] for consent in session["consents"]} == {"disclosure", "talk"}


async def test_a_typed_turn_by_the_local_socket_is_answered(tmp_path: Path) -> None:
    async with bed(tmp_path) as made:
        path = made.app.settings.files.control
        answer = await asyncio.to_thread(ask, path, {"do": "type", "text": "fan five"}, 5)
        assert answer["ok"] and answer["turn"] == 1 and not answer["kept"]
        await made.says("item.final")
        state = await asyncio.to_thread(ask, path, {"do": "status"}, 5)
        assert state["turn"] == 1 and state["link"] == "open"
        session = await made.session()
    assert session["turns"][0]["committed_by"] == "typed"
    assert session["history"][0]["text"] == "fan five"


async def test_an_alert_that_is_cut_is_played_again_and_acknowledged(tmp_path: Path) -> None:
    async with bed(tmp_path) as made:
        await made.says("wearer.consent")
        await made.edge.alert("A7", "due-five", acknowledge=True)
        await made.says("alert.playing")
        await made.polled(lambda: bool(made.app.headset.playback.progress()[1]))
        await made.turn(1)  # over it
        await made.says("alert.playing", 2)
        await made.says("alert.delivered")
        await made.until(lambda: made.app.headset.alerts.to_acknowledge)
        made.app.gesture(Key.ACKNOWLEDGE)
        await made.says("alert.acknowledged")
        await made.polled(lambda: not made.app.headset.outbox.pending())
        (alert,) = (await made.session())["alerts"]
    assert alert["state"] == "acknowledged"
    assert alert["plays"] >= 2
    assert all(cursor["state"] == "played" for cursor in alert["evidence"])


async def test_by_voice_a_reply_is_interrupted_and_the_words_are_whole(tmp_path: Path) -> None:
    pytest.importorskip("livekit")
    person = PersonSettings(KeySettings("automatic"))
    async with bed(tmp_path, person) as made:
        await made.says("wearer.consent")
        await made.speak()
        await made.says("turn.committed")  # nobody touched a button
        await made.says("capture.received")
        await made.polled(lambda: bool(made.app.headset.playback.progress()[1]))
        first = await made.speak()
        await made.says("clear.answered")
        await made.says("turn.committed", 2)
        await made.says("capture.received", 2)
        session = await made.session()
        heard = await made.edge.turn_pcm(2)
    one, two = session["turns"]
    assert one["committed_by"] == two["committed_by"] == "vad"
    assert two["complete"]
    cleared = made.of("clear.answered")[0]
    assert cleared.facts["causes"] == ["voice"]
    # The utterance is inside the committed range, from its first sample on.
    loud = np.flatnonzero(np.abs(heard.astype(np.int32)) > 1_500)
    assert loud[0] > 4_800 and loud[-1] < len(heard) - 4_800
    assert len(heard) >= len(ASKED)
    assert first > 0


async def test_silence_is_held_back_where_the_edge_wants_a_hand(tmp_path: Path) -> None:
    pytest.importorskip("livekit")
    person = PersonSettings(KeySettings("automatic"))
    async with bed(tmp_path, person, {**SCRIPT, "require_manual": True}) as made:
        await made.says("wearer.consent")
        await made.speak()
        await made.says("turn.held_back")
        assert made.of("turn.committed") == []
        assert Notice.WAITING_FOR_YOU.value in [r.facts["notice"] for r in made.of("notice")]
        made.app.gesture(Key.ACKNOWLEDGE)
        await made.says("capture.received")
        session = await made.session()
    assert session["turns"][0]["committed_by"] == "ptt"
    assert session["turns"][0]["evidence"]["began"] == "vad"
