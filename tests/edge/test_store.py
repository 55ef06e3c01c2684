"""What was kept outlives a kill, a full disk, a broken file; nothing is settled twice."""

from __future__ import annotations

import asyncio
import resource
import signal
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from wire_examples import envelope

from handset.core.messages import Durable, Shutdown
from handset.edge.store import Loaded, OutboxStore
from handset.edge.store_file import SETTLED_KEPT
from handset.errors import StoreTooNew, UsageError


def event(seq: int, outbox: str = "o-1", cause: str = "stop") -> Shutdown:
    kept = Shutdown(**envelope(f"{outbox}/{seq}", seq, "session"), cause=cause)
    return replace(kept, outbox_id=outbox)


def left(path: Path) -> Loaded:
    """What a new start finds."""
    store = OutboxStore(path)
    try:
        return store.open()
    finally:
        store.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "outbox.db"


def test_events_settled_ids_and_facts_come_back(path: Path) -> None:
    store = OutboxStore(path)
    assert store.open().pending == []
    first: list[Durable] = [event(1), event(2), event(3), event(4)]
    assert store.append(first).result() is True
    assert store.settle("o-1", 2).result() is True
    assert store.settle_ids(["o-1/4"]).result() is True
    store.put_meta("turn", "6")
    assert store.put_meta("turn", "7").result() is True
    store.close()
    store = OutboxStore(path)
    loaded = store.open()
    assert loaded.pending == [first[2]]
    assert loaded.settled_ids == ["o-1/1", "o-1/2", "o-1/4"]
    assert loaded.meta == {"turn": "7"}
    store.append([event(1, "o-0"), event(2, "o-0")])
    store.close()
    store = OutboxStore(path)
    assert [each.event_id for each in store.open().pending] == ["o-1/3", "o-0/1", "o-0/2"]
    store.close()


def test_an_acknowledgement_is_of_one_outbox(path: Path) -> None:
    store = OutboxStore(path)
    store.open()
    store.append([event(1), event(1, "o-2")])
    store.settle("o-2", 1).result()
    store.close()
    assert [each.event_id for each in left(path).pending] == ["o-1/1"]


def test_an_event_that_was_settled_is_not_kept_again(path: Path) -> None:
    store = OutboxStore(path)
    store.open()
    store.append([event(1)])
    store.settle("o-1", 1)
    found_again = replace(event(1, "o-2"), event_id="o-1/1")
    assert store.append([found_again]).result() is True
    store.close()
    assert left(path).pending == []


def test_settled_ids_are_bounded(path: Path) -> None:
    store = OutboxStore(path)
    store.open()
    for start in range(0, SETTLED_KEPT + 3_000, 1_000):
        store.settle_ids([f"e-{start + i}" for i in range(1_000)])
    store.close()
    ids = left(path).settled_ids
    assert ids == [f"e-{i}" for i in range(3_000, SETTLED_KEPT + 3_000)]


def test_one_number_never_stands_for_two_events(path: Path) -> None:
    store = OutboxStore(path)
    store.open()
    store.append([event(1)])
    other = [event(2), replace(event(1), event_id="other")]
    after = store.append([event(3)])
    with pytest.raises(UsageError, match="refused"):
        store.append(other).result()
    assert after.result() is True
    store.close()
    assert [each.event_id for each in left(path).pending] == ["o-1/1", "o-1/3"]


def test_misuse_is_refused_at_once(path: Path) -> None:
    store = OutboxStore(path)
    with pytest.raises(UsageError, match="not open"):
        store.put_meta("a", "b")
    store.open()
    with pytest.raises(UsageError, match="open already"):
        store.open()
    with pytest.raises(UsageError, match="no outbox id"):
        store.append([replace(event(1), seq=0)])
    with pytest.raises(UsageError, match="in use"):
        left(path)
    store.close()
    store.close()
    with pytest.raises(UsageError, match="not open"):
        store.append([event(1)])


def test_a_place_that_can_not_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match=r"file/outbox\.db can't be opened"):
        OutboxStore(tmp_path / "file" / "outbox.db").open()


def test_a_newer_layout_is_refused_and_left_alone(path: Path) -> None:
    path.parent.mkdir()
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version = 9")
    db.close()
    before = path.read_bytes()[100:]
    with pytest.raises(StoreTooNew, match="layout 9, this handset knows up to 1; install"):
        left(path)
    assert path.read_bytes()[100:] == before


@pytest.mark.parametrize("damage", ["text", "middle"])
def test_a_broken_file_is_moved_aside_and_named(path: Path, damage: str) -> None:
    store = OutboxStore(path)
    store.open()
    store.append([event(i, cause="x" * 900) for i in range(1, 60)])
    store.close()
    content = path.read_bytes()
    broken = b"no database" * 200 if damage == "text" else content[:8192] + b"\xff" * 20_000
    path.write_bytes(broken)
    store = OutboxStore(path)
    loaded = store.open()
    aside = path.with_name("outbox.db.unreadable-1")
    assert loaded.pending == [] and loaded.moved_aside == aside == store.status.moved_aside
    assert aside.read_bytes() == broken
    assert store.append([event(1)]).result() is True
    store.close()
    path.write_bytes(broken)
    assert left(path).moved_aside == path.with_name("outbox.db.unreadable-2")


def test_events_of_a_type_from_later_stay_and_are_counted(path: Path) -> None:
    store = OutboxStore(path)
    store.open()
    store.append([event(1), event(2)])
    store.close()
    with sqlite3.connect(path) as db:
        db.execute("""UPDATE event SET body = '{"type":"later"}' WHERE seq = 1""")
    db.close()
    for _ in range(2):
        store = OutboxStore(path)
        loaded = store.open()
        store.close()
        assert (loaded.unreadable, [each.seq for each in loaded.pending]) == (1, [2])


@contextmanager
def files_no_longer_than(size: int) -> Iterator[None]:
    """Every write beyond ``size`` fails, as on a disk that is full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, handler)


def test_a_full_disk_is_said_and_made_good(path: Path) -> None:
    store = OutboxStore(path)
    store.open()
    assert store.append([event(1)]).result() is True
    with files_no_longer_than(4_096):
        assert store.append([event(2), event(3)]).result() is False
        assert store.settle("o-1", 1).result() is False
        status = store.status
    assert "can't be written" in status.problem and status.in_memory == 2
    assert store.append([event(4)]).result() is True
    assert (store.status.problem, store.status.in_memory) == ("", 0)
    store.close()
    loaded = left(path)
    assert [each.seq for each in loaded.pending] == [2, 3, 4]
    assert loaded.settled_ids == ["o-1/1"]


def test_a_disk_that_is_full_from_the_start(path: Path) -> None:
    store = OutboxStore(path)
    with files_no_longer_than(0):
        assert store.open().pending == []
        assert store.append([event(1)]).result() is False
        assert store.status.problem
    store.close()
    assert [each.seq for each in left(path).pending] == [1]


def test_calls_of_many_threads_all_arrive(path: Path) -> None:
    store = OutboxStore(path)
    store.open()

    def work(name: str) -> None:
        for seq in range(1, 51):
            store.append([event(seq, name)])

    threads = [threading.Thread(target=work, args=(f"o-{i}",)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    store.close()
    pending = left(path).pending
    for i in range(4):
        seqs = [each.seq for each in pending if each.outbox_id == f"o-{i}"]
        assert seqs == list(range(1, 51))


async def test_futures_can_be_awaited_and_a_cancelled_wait_stops_nothing(path: Path) -> None:
    store = OutboxStore(path)
    store.open()
    waiting = asyncio.wrap_future(store.append([event(1)]))
    waiting.cancel()
    assert await asyncio.wrap_future(store.append([event(2)])) is True
    store.close()
    assert [each.seq for each in left(path).pending] == [1, 2]
