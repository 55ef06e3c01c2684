"""What a start finds: the store of earlier runs, and what a killed run left in memory.

Everything that is owed goes into the outbox, and on disk, before the first connection; the
journal and the counters of the dead process are only then replaced.
"""

from __future__ import annotations

import logging
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
from handset.core.person import PersonSettings
from handset.core.recovery import parked_record, recover
from handset.core.session import SessionSettings
from handset.core.turn import Turn, TurnSettings
from handset.core.volume import STEPS
from handset.edge import codec
from handset.edge.store import OutboxStore
from handset.errors import UsageError
from handset.system.directories import may_be_swapped
from handset.system.identity import boot_id, boot_words
from handset.system.journal import Journal, read_journal
from handset.system.local_socket import NAME
from handset.system.turn_store import StoredTurn, TurnStore

log = logging.getLogger(__name__)


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
    def turns(self) -> Path:
        """Spoken words that the edge does not have yet."""
        return self.runtime / "turns"

    @property
    def control(self) -> Path:
        """The local socket."""
        return self.runtime / NAME

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
    turns: TurnStore | None
    """None where the runtime directory is no tmpfs: then a crash loses what was spoken."""
    restored: list[StoredTurn]
    """Turns whose audio the edge may not have yet."""
    first_sample: int
    """Where the capture timeline goes on: no run uses a position of another one."""


def start(
    files: Files,
    handset_id: str,
    label: str,
    turn_settings: TurnSettings,
    session_settings: SessionSettings,
    person: PersonSettings | None = None,
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
    parked = _journalled(_since(records, "unparked"), "parked")
    parked += [event for event in found.events if not event.session]
    recovered = [*unstored, *outbox.add(event for event in found.events if event.session)]
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
        person,
        parked,
        int(loaded.meta.get("volume", STEPS)),
    )
    turns = _turn_store(files, words)
    restored = _restored(turns, [*recovered, *parked]) if turns is not None else []
    journal = Journal(files.journal, words)
    for event in parked:
        journal.append(parked_record(event, codec.encode(event)))
    first = int(loaded.meta.get("capture", 0))
    return Start(headset, store, journal, words, recovered, turns, restored, first)


def _turn_store(files: Files, boot: tuple[int, int]) -> TurnStore | None:
    try:
        store = TurnStore(files.turns, boot)
        if may_be_swapped(files.turns):
            log.warning("%s may be swapped to a disk: mount it with noswap", files.turns)
        return store
    except UsageError as error:
        log.warning("what is spoken is not kept for a crash: %s", error)
        return None


def _restored(turns: TurnStore, events: list[msg.Durable]) -> list[StoredTurn]:
    """What is whole, and was not abandoned by the crash; the rest is wiped."""
    abandoned = {event.turn for event in events if isinstance(event, msg.TurnAbandoned)}
    kept = []
    for stored in turns.load():
        if stored.end is None or stored.turn in abandoned:
            turns.forget(stored.turn)
        else:
            kept.append(stored)
    return kept


def _since(records: list[dict[str, object]], kind: str) -> list[dict[str, object]]:
    """The records behind the last one of a kind; all when there is none."""
    last = max((n for n, record in enumerate(records) if record["k"] == kind), default=-1)
    return records[last + 1 :]


def _journalled(records: list[dict[str, object]], kind: str = "event") -> list[msg.Durable]:
    events = []
    for record in records:
        if record["k"] == kind:
            event = codec.decode_from_handset(str(record["event"])).message
            if isinstance(event, msg.Durable):
                events.append(event)
    return events
