"""What a start finds: the store of earlier runs, and what a killed run left in memory.

Everything that is owed goes into the outbox, and on disk, before the first connection; the
journal and the counters of the dead process are only then replaced.
"""

from __future__ import annotations

import random
import time
import uuid
from dataclasses import dataclass
from pathlib import Path

from handset import __version__
from handset.audio.playout import read_remains
from handset.core import messages as msg
from handset.core.headset import Headset, Identity
from handset.core.outbox import Outbox
from handset.core.recovery import recover
from handset.core.session import SessionSettings
from handset.core.turn import Turn, TurnSettings
from handset.edge import codec
from handset.edge.store import OutboxStore
from handset.system.identity import boot_id, boot_words
from handset.system.journal import Journal, read_journal


@dataclass(frozen=True, slots=True)
class Files:
    """``state`` is on disk; ``runtime`` is a tmpfs that outlives the process."""

    state: Path
    runtime: Path

    @property
    def region(self) -> Path:
        """The playout queue's counters."""
        return self.runtime / "playout"

    @property
    def journal(self) -> Path:
        return self.runtime / "journal"

    @property
    def store(self) -> Path:
        return self.state / "outbox.db"


@dataclass(slots=True)
class Start:
    headset: Headset
    store: OutboxStore
    journal: Journal
    boot: tuple[int, int]
    recovered: list[msg.Durable]
    """Events of a killed run that were on no disk yet."""


def start(
    files: Files,
    handset_id: str,
    label: str,
    turn_settings: TurnSettings,
    session_settings: SessionSettings,
) -> Start:
    for folder in (files.state, files.runtime):
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    boot = boot_id()
    words = boot_words(boot)
    store = OutboxStore(files.store)
    loaded = store.open()
    records = read_journal(files.journal, words)
    remains = read_remains(files.region, words)
    stored = {event.event_id for event in loaded.pending} | set(loaded.settled_ids)
    unstored = [event for event in _journalled(records) if event.event_id not in stored]
    found = recover(
        records,
        remains.snapshot if remains else None,
        remains.answers if remains else (),
        str(boot),
        time.monotonic_ns(),
    )
    outbox = Outbox(uuid.uuid4().hex[:16], [*loaded.pending, *unstored], loaded.settled_ids)
    recovered = [*unstored, *outbox.add(found.events)]
    if recovered:
        store.append(recovered).result()
    asked = (int(loaded.meta.get("clear", 0)), found.clear, remains.generation if remains else 0)
    headset = Headset(
        Identity(handset_id, label, __version__, str(boot)),
        outbox,
        Turn(turn_settings, max(int(loaded.meta.get("turn", 0)), found.turn)),
        session_settings,
        random.random,
        max(asked),
    )
    return Start(headset, store, Journal(files.journal, words), words, recovered)


def _journalled(records: list[dict[str, object]]) -> list[msg.Durable]:
    events = []
    for record in records:
        if record["k"] == "event":
            event = codec.decode_from_handset(str(record["event"])).message
            if isinstance(event, msg.Durable):
                events.append(event)
    return events
