"""The SQLite file under :class:`handset.edge.store.OutboxStore`: its layout and its changes.

Three tables: the events that the edge has not settled, in the order they were made; the
ids of those it has, the newest 20,000; and small facts by key. WAL with
``synchronous=FULL``: a transaction is on the disk when ``apply`` returns. One process
has the file (exclusive lock), one thread at a time uses this object.

A file that SQLite can't read is moved aside, never deleted. One that a newer handset wrote
is left alone.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from handset.core.messages import Durable
from handset.core.packets import Malformed
from handset.errors import StoreTooNew, UsageError

from .codec import decode_from_handset

LAYOUT = 1
SETTLED_KEPT = 20_000
_BROKEN = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_TABLES = """
CREATE TABLE event (
    position INTEGER PRIMARY KEY,
    outbox_id TEXT NOT NULL,
    seq INTEGER NOT NULL,
    event_id TEXT NOT NULL UNIQUE,
    body TEXT NOT NULL,
    UNIQUE (outbox_id, seq)
);
CREATE TABLE settled (position INTEGER PRIMARY KEY, event_id TEXT NOT NULL UNIQUE);
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
"""


@dataclass(frozen=True, slots=True)
class Append:
    """Events as (outbox_id, seq, event_id, text). All of them are kept, or none."""

    rows: tuple[tuple[str, int, str, str], ...]


@dataclass(frozen=True, slots=True)
class SettleTo:
    outbox_id: str
    seq: int


@dataclass(frozen=True, slots=True)
class SettleIds:
    ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PutMeta:
    key: str
    value: str


Change = Append | SettleTo | SettleIds | PutMeta


@dataclass(frozen=True, slots=True)
class Loaded:
    """What earlier runs left.

    ``pending`` is in the order the events were made, earlier outboxes first;
    ``settled_ids`` oldest first. ``moved_aside`` names the file that could not be read.
    ``unreadable`` counts events that this version does not understand; they stay stored.
    """

    pending: list[Durable] = field(default_factory=list)
    settled_ids: list[str] = field(default_factory=list)
    meta: dict[str, str] = field(default_factory=dict)
    moved_aside: Path | None = None
    unreadable: int = 0


class StoreFile:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.moved_aside: Path | None = None
        self._db: sqlite3.Connection | None = None

    def open(self) -> None:
        """Open or make the file; no effect when it is open.

        ``StoreTooNew`` for a newer layout; ``UsageError`` when the place can't be used or
        another process has it; ``sqlite3.Error`` when the disk is full or failing.
        """
        if self._db is not None:
            return
        try:
            self._db = self._connect()
        except sqlite3.DatabaseError as error:
            if error.sqlite_errorcode & 0xFF not in _BROKEN:
                raise
            self.moved_aside = self._move_aside()
            self._db = self._connect()

    def _connect(self) -> sqlite3.Connection:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            os.close(os.open(self.path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
        except OSError as error:
            raise UsageError(
                f"the store {self.path} can't be opened: {error.strerror}; "
                "give the handset a directory that it may write to"
            ) from None
        db = sqlite3.connect(self.path, isolation_level=None, timeout=1, check_same_thread=False)
        try:
            db.execute("PRAGMA locking_mode = EXCLUSIVE")
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = FULL")
            db.execute("BEGIN IMMEDIATE")
            (layout,) = db.execute("PRAGMA user_version").fetchone()
            if layout > LAYOUT:
                raise StoreTooNew(
                    f"the store {self.path} has layout {layout}, this handset knows up to "
                    f"{LAYOUT}; install the newer handset again, or move the file away (the "
                    "edge then never hears of the events in it)"
                )
            if layout == 0:
                for statement in _TABLES.split(";"):
                    db.execute(statement)
                db.execute(f"PRAGMA user_version = {LAYOUT}")
            db.execute("COMMIT")
            (verdict,) = db.execute("PRAGMA quick_check(1)").fetchone()
            if verdict != "ok":
                broken = sqlite3.DatabaseError(verdict)
                broken.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
                raise broken
        except sqlite3.OperationalError as error:
            db.close()
            if error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY:
                raise UsageError(
                    f"the store {self.path} is in use; stop the other handset process first"
                ) from None
            raise
        except BaseException:
            db.close()
            raise
        return db

    def _move_aside(self) -> Path:
        number = 1
        while (aside := self.path.with_name(f"{self.path.name}.unreadable-{number}")).exists():
            number += 1
        for tail in ("-wal", "-shm", ""):
            part = self.path.with_name(self.path.name + tail)
            if part.exists():
                part.rename(aside.with_name(aside.name + tail))
        return aside

    def load(self) -> Loaded:
        """Everything that is stored."""
        assert self._db is not None
        pending: list[Durable] = []
        unreadable = 0
        for (body,) in self._db.execute("SELECT body FROM event ORDER BY position"):
            try:
                message = decode_from_handset(body).message
            except Malformed:
                message = None
            if isinstance(message, Durable):
                pending.append(message)
            else:
                unreadable += 1
        settled = [
            row[0] for row in self._db.execute("SELECT event_id FROM settled ORDER BY position")
        ]
        meta = dict(self._db.execute("SELECT key, value FROM meta"))
        return Loaded(pending, settled, meta, self.moved_aside, unreadable)

    def apply(self, changes: Sequence[Change]) -> list[str | None]:
        """Make the changes in one transaction; they are on the disk afterwards.

        For each: None, or why it alone was refused. ``sqlite3.Error``: none was made.
        """
        self.open()
        db = self._db
        assert db is not None
        refusals: list[str | None] = []
        db.execute("BEGIN IMMEDIATE")
        try:
            for change in changes:
                db.execute("SAVEPOINT change")
                try:
                    _make(db, change)
                    refusals.append(None)
                except sqlite3.IntegrityError as error:
                    db.execute("ROLLBACK TO change")
                    refusals.append(str(error))
                db.execute("RELEASE change")
            db.execute(
                "DELETE FROM settled WHERE position <= (SELECT max(position) FROM settled) - ?",
                (SETTLED_KEPT,),
            )
            db.execute("COMMIT")
        except sqlite3.Error:
            # A full disk may have ended the transaction already.
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise
        return refusals

    def close(self) -> None:
        if self._db is not None:
            with closing(self._db):
                self._db = None


def _make(db: sqlite3.Connection, change: Change) -> None:
    match change:
        case Append(rows):
            for row in rows:
                db.execute(
                    "INSERT INTO event (outbox_id, seq, event_id, body) SELECT ?1, ?2, ?3, ?4 "
                    "WHERE NOT EXISTS (SELECT 1 FROM settled WHERE event_id = ?3) "
                    "ON CONFLICT (event_id) DO NOTHING",
                    row,
                )
        case SettleTo(outbox_id, seq):
            db.execute(
                "INSERT OR IGNORE INTO settled (event_id) SELECT event_id FROM event "
                "WHERE outbox_id = ? AND seq <= ? ORDER BY position",
                (outbox_id, seq),
            )
            db.execute("DELETE FROM event WHERE outbox_id = ? AND seq <= ?", (outbox_id, seq))
        case SettleIds(ids):
            each = [(event_id,) for event_id in ids]
            db.executemany("INSERT OR IGNORE INTO settled (event_id) VALUES (?)", each)
            db.executemany("DELETE FROM event WHERE event_id = ?", each)
        case PutMeta(key, value):
            db.execute("INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)", (key, value))
