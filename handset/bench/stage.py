"""The stage of the bench: a card, an edge in a process of its own, and the real headset.

On the simulated card an operator is played as well: utterances are put into the microphone
at a frame of the card's clock, and the button goes down and up beside them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from handset.bench import speech
from handset.bench.edge.process import EdgeProcess
from handset.core.events import Observe
from handset.core.person import PersonSettings
from handset.core.wearer import WearerSettings
from handset.fakes.virtual_card import VirtualCard

if TYPE_CHECKING:
    from handset.app import Application
    from handset.uplink import Tap

PRESS_LATE_MS = 150
"""The operator speaks before the button is down: what the pre-roll is for."""
SCRIPT = {
    "replies": [["readings-four"], ["yes-five", "readings-five"]],
    "speed": 8,
    "think_ms": 150,
}
PATIENCE_S = 60.0
COUNTED = PersonSettings(wearer=WearerSettings(disclose=False), tell=False)
"""No tones and no prompts where every sample on the tape is accounted for."""


class StageError(RuntimeError):
    """The conversation did not go on; the message says what was waited for."""


@dataclass(frozen=True, slots=True)
class Spoken:
    """One utterance, as it was put into the microphone. ``first``: card frame."""

    clip: str
    turn: int
    first: int
    frames: int


@dataclass(slots=True)
class Stage:
    app: Application
    edge: EdgeProcess
    card: VirtualCard | None
    records: list[Observe] = field(default_factory=list)
    spoken: list[Spoken] = field(default_factory=list)
    report: dict[str, Any] = field(default_factory=dict)
    started_ns: int = field(default_factory=time.monotonic_ns)
    speaking: str = ""
    over: bool = False
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def seen(self, record: Observe) -> None:
        self.records.append(record)
        self._changed.set()

    def last(self, kind: str) -> Observe | None:
        return next((r for r in reversed(self.records) if r.kind == kind), None)

    def count(self, kind: str) -> int:
        return sum(record.kind == kind for record in self.records)

    async def until(self, what: str, kind: str, times: int = 1) -> None:
        """Waits until ``kind`` was recorded ``times`` times."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                while self.count(kind) < times:
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise StageError(f"waited {PATIENCE_S:g} s for {what}") from None

    async def played(self, item_number: int, seconds: float) -> None:
        """Waits until so much of the n-th announced item was handed to the card."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                names = [r.facts["item"] for r in self.records if r.kind == "item.announced"]
                ledger = self.app.headset.playback.ledger
                if len(names) > item_number and ledger is not None:
                    item = ledger.items.get(str(names[item_number]))
                    if item is not None and item.handed >= seconds * item.device_rate:
                        return
                await asyncio.sleep(0.01)

    async def say(self, clip_name: str) -> None:
        """The operator speaks one utterance, with the button down for it."""
        assert self.card is not None
        clip = speech.load(clip_name)
        samples = clip.pcm(self.card.rate)
        lead = self.card.rate // 10
        first = self.card.speak(samples, self.card.now_frame() + lead)
        late = PRESS_LATE_MS * self.card.rate // 1000
        self.speaking = clip.text
        await self._sleep_until(self.card.time_ns(first + late))
        self.app.press(time.monotonic_ns())
        self.spoken.append(Spoken(clip_name, self.app.headset.turn.number, first, len(samples)))
        await self._sleep_until(self.card.time_ns(first + len(samples)))
        self.app.release(time.monotonic_ns())
        self.speaking = ""

    @staticmethod
    async def _sleep_until(at_ns: int) -> None:
        await asyncio.sleep(max(0, at_ns - time.monotonic_ns()) / 1e9)

    async def ask_edge(self) -> None:
        """Fetches what the edge knows."""
        self.report = await self.edge.report()

    @property
    def session(self) -> dict[str, Any]:
        sessions = self.report.get("sessions") or [{}]
        return dict(sessions[-1])


@asynccontextmanager
async def stage(
    card: VirtualCard | None, device: str, rate: int | None, tap: Tap | None = None
) -> AsyncIterator[Stage]:
    """Everything up and connected; everything gone afterwards. ``tap`` is given every
    message on the wire."""
    # Imported here: PortAudio looks for cards when it is imported.
    from handset.app import Application, AppSettings
    from handset.audio.card import CardSettings
    from handset.audio.devices import ASOUND
    from handset.edge.whip import Target
    from handset.starting import Files

    root = card.asound_root if card is not None else ASOUND
    with (
        TemporaryDirectory(prefix="handset-bench-") as disk,
        TemporaryDirectory(prefix="handset-bench-", dir="/dev/shm") as memory,
    ):
        async with EdgeProcess(script=SCRIPT, allow_loopback=True) as edge:
            target = Target(edge.url, edge.credential, edge.fingerprint, allow_loopback=True)
            settings = AppSettings(
                CardSettings(device, rate=rate, asound_root=root),
                lambda: target,
                Files(Path(disk), Path(memory)),
                handset_id="bench",
                label="bench",
                person=COUNTED if card is not None else PersonSettings(),
            )
            app = Application(settings)
            made = Stage(app, edge, card)
            app.watchers.append(made.seen)
            if tap is not None:
                app.uplink.taps.append(tap)
            running = asyncio.ensure_future(app.run())
            try:
                await made.until("the edge's welcome", "session.open")
                yield made
                app.stop("the bench is over")
                await running
                await made.ask_edge()
            finally:
                running.cancel()
