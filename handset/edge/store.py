"""The durable store: events that the edge has not settled outlive every process.

One thread writes, in the order of the calls; whatever waits when it comes round goes into
one transaction, so a slow card costs one sync for all of it. A call returns at once with
a future that is done when its change is on the disk.

Each start of the handset uses a new ``outbox_id`` for new events. Those of earlier ones
stay stored under their own ``(outbox_id, seq)`` until settled, so no number ever stands
for two events.

A disk that is full or failing stops nothing: changes are kept in memory, in order, their
futures say ``False``, ``status`` says why, and every later call tries to write them all.
"""

from __future__ import annotations

import queue
import sqlite3
import threading
from collections.abc import Iterable
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path

from handset.core.messages import DURABLE, Durable
from handset.errors import HandsetError, UsageError

from .codec import encode
from .store_file import Append, Change, Loaded, PutMeta, SettleIds, SettleTo, StoreFile

__all__ = ["Loaded", "OutboxStore", "StoreStatus"]

Kept = Future[bool]
"""True: on the disk. False: in memory only. ``UsageError``: refused, nothing changed."""


@dataclass(frozen=True, slots=True)
class StoreStatus:
    """``problem`` is empty when all is well; else changes since then are in memory only.

    ``in_memory``: changes that a crash now would lose. ``moved_aside``: an unreadable file
    that was found at the start, and is kept under this name.
    """

    problem: str
    in_memory: int
    moved_aside: Path | None


class OutboxStore:
    """Calls may come from any thread, after ``open``."""

    def __init__(self, path: Path | str) -> None:
        self._file = StoreFile(Path(path))
        self._calls: queue.SimpleQueue[tuple[Change, Kept] | None] = queue.SimpleQueue()
        self._backlog: list[Change] = []
        self._problem = ""
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def open(self) -> Loaded:
        """Read what earlier runs left, and begin to take calls. Blocks for the disk.

        ``StoreTooNew`` and ``UsageError`` as :meth:`StoreFile.open`. On a full or failing
        disk it gives what could be read, and ``status`` says what is wrong.
        """
        with self._lock:
            if self._thread is not None:
                raise UsageError(f"the store {self._file.path} is open already")
            try:
                self._file.open()
                loaded = self._file.load()
            except sqlite3.Error as error:
                self._problem = self._describe(error)
                loaded = Loaded(moved_aside=self._file.moved_aside)
            self._thread = threading.Thread(target=self._run, name="store", daemon=True)
            self._thread.start()
        return loaded

    def append(self, events: Iterable[Durable]) -> Kept:
        """Keep these events: all or none, in this order."""
        rows = []
        for event in events:
            if type(event) not in DURABLE or not event.outbox_id or event.seq < 1:
                raise UsageError(
                    f"{type(event).__name__} {event.event_id} has no outbox id and number; "
                    "let the outbox give it one first"
                )
            rows.append((event.outbox_id, event.seq, event.event_id, encode(event)))
        return self._call(Append(tuple(rows)))

    def settle(self, outbox_id: str, seq: int) -> Kept:
        """The edge has settled everything of ``outbox_id`` up to ``seq``."""
        return self._call(SettleTo(outbox_id, seq))

    def settle_ids(self, ids: Iterable[str]) -> Kept:
        """The edge has settled these events, out of order or by rejecting them."""
        return self._call(SettleIds(tuple(ids)))

    def put_meta(self, key: str, value: str) -> Kept:
        """A small fact for the next start; the last value counts. No secrets."""
        return self._call(PutMeta(key, value))

    @property
    def status(self) -> StoreStatus:
        return StoreStatus(self._problem, len(self._backlog), self._file.moved_aside)

    def close(self) -> None:
        """Write what is waiting, then end. Calls after it raise ``UsageError``."""
        with self._lock:
            thread, self._thread = self._thread, None
            if thread is not None:
                self._calls.put(None)
        if thread is not None:
            thread.join()

    def _call(self, change: Change) -> Kept:
        future: Kept = Future()
        future.set_running_or_notify_cancel()  # what is asked for can't be taken back
        with self._lock:
            if self._thread is None:
                raise UsageError(f"the store {self._file.path} is not open")
            self._calls.put((change, future))
        return future

    def _run(self) -> None:
        ended = False
        while not ended:
            calls = []
            call = self._calls.get()
            while call is not None:
                calls.append(call)
                try:
                    call = self._calls.get_nowait()
                except queue.Empty:
                    break
            else:
                ended = True
            if calls or self._backlog:
                self._write(calls)
        self._file.close()

    def _write(self, calls: list[tuple[Change, Kept]]) -> None:
        changes = self._backlog + [change for change, _ in calls]
        try:
            refusals = self._file.apply(changes)
        except (sqlite3.Error, HandsetError) as error:
            self._backlog = changes
            self._problem = self._describe(error)
            for _, future in calls:
                future.set_result(False)
            return
        waited = len(self._backlog)
        self._backlog = []
        self._problem = ""
        for (_, future), refusal in zip(calls, refusals[waited:], strict=True):
            if refusal is None:
                future.set_result(True)
            else:
                future.set_exception(
                    UsageError(f"the store {self._file.path} refused a change: {refusal}")
                )

    def _describe(self, error: Exception) -> str:
        if isinstance(error, HandsetError):
            return str(error)
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        todo = (
            "free space on the disk"
            if code == sqlite3.SQLITE_FULL
            else "check the disk; the handset goes on without it"
        )
        return f"the store {self._file.path} can't be written: {error}; {todo}"
