"""Spoken words in a tmpfs: what was stored outlives the process, whole; what was given up is
named; what was forgotten is zeros."""

from __future__ import annotations

import os
import random
import resource
import shutil
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from tiers import count

from handset.errors import UsageError
from handset.system import turn_store
from handset.system.directories import in_memory, may_be_swapped, own_directory
from handset.system.turn_store import GivenUp, StoredTurn, TurnStore

BOOT = (0x1122334455667788, 0x99AABBCCDDEEFF00)
HEAD = 44
BEFORE = 12
END = BEFORE + 8
WRITER = """
import sys
from pathlib import Path
from handset.system.turn_store import TurnStore

store = TurnStore(Path(sys.argv[1]), (1, 2), 1 << 24)
number = 0
while True:
    number += 1
    store.begin(number, 960 * number)
    # Of any length, so that a record ends and begins at any byte of a page.
    for index in range(400):
        store.packet(number, index, bytes([index % 251]) * (1 + index * 7 % 1275))
        print(number, index, flush=True)
    store.end(number, 960 * number + 1)
    if number > 2:
        store.forget(number - 2)
"""


def packet_of(index: int) -> bytes:
    return bytes([index % 251]) * (1 + index * 7 % 1275)


@pytest.fixture
def directory() -> Iterator[Path]:
    with memory() as path:
        yield path / "turns"


@contextmanager
def memory() -> Iterator[Path]:
    made = Path(tempfile.mkdtemp(prefix="kelter-turns-", dir="/dev/shm"))
    try:
        yield made
    finally:
        shutil.rmtree(made)


def left(directory: Path, boot: tuple[int, int] = BOOT) -> list[StoredTurn]:
    """What a new process finds."""
    store = TurnStore(directory, boot)
    try:
        return store.load()
    finally:
        store.close()


def filled(directory: Path, turn: int, packets: int, end: int | None = None) -> StoredTurn:
    store = TurnStore(directory, BOOT)
    each = tuple(packet_of(index) for index in range(packets))
    assert store.begin(turn, -7) == ()
    for index, packet in enumerate(each):
        assert store.packet(turn, index, packet) == ()
    if end is not None:
        assert store.end(turn, end) == ()
    store.close()
    return StoredTurn(turn, -7, end, each)


def test_turns_come_back_the_oldest_first(directory: Path) -> None:
    written = [filled(directory, turn, 3 + turn, end) for turn, end in ((9, 500), (10, None))]
    assert left(directory) == written
    store = TurnStore(directory, BOOT)
    assert store.end(10, 77) == ()
    assert store.begin(11, 4) == ()
    assert store.load() == [
        written[0],
        StoredTurn(10, -7, 77, written[1].packets),
        StoredTurn(11, 4, None, ()),
    ]
    assert store.used == sum(path.stat().st_size for path in directory.iterdir())


def test_only_the_owner_reads_it(directory: Path) -> None:
    before = os.umask(0)
    try:
        filled(directory, 1, 1)
    finally:
        os.umask(before)
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    (file,) = directory.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_killed_process_leaves_every_packet_it_was_told_of() -> None:
    seed = random.Random(11)
    places = set()
    with memory() as path:
        for attempt in range(count(15, 100, 1_000)):
            directory = path / str(attempt)
            writer = subprocess.Popen(
                [sys.executable, "-c", WRITER, str(directory)], stdout=subprocess.PIPE, text=True
            )
            assert writer.stdout is not None
            told = writer.stdout.readline()
            time.sleep(seed.uniform(0, 0.03))  # the moment is what is tried
            writer.kill()
            assert writer.wait() == -9
            # A line that was cut by the kill does not count.
            told = ([told] + [line for line in writer.stdout if line.endswith("\n")])[-1]
            writer.stdout.close()
            turn, index = map(int, told.split())
            found = left(directory, (1, 2))
            assert found, told
            for each in found:
                assert each.packets == tuple(packet_of(i) for i in range(len(each.packets)))
                assert each.start == 960 * each.turn
                assert each.end in (None, each.start + 1)
                if each.end is not None:
                    assert len(each.packets) == 400
            newest = found[-1]
            assert (newest.turn, len(newest.packets)) >= (turn, index + 1)
            places.add((newest.turn, len(newest.packets)))
            shutil.rmtree(directory)
    assert len(places) > 3, "the writer was always killed at the same place"


def ends_of(turn: StoredTurn) -> list[int]:
    """File length at which the head, each packet and the end are whole."""
    ends = [HEAD]
    for packet in turn.packets:
        ends.append(ends[-1] + BEFORE + len(packet))
    return [*ends, ends[-1] + END]


def test_a_torn_tail_leaves_the_packets_before_it(directory: Path) -> None:
    whole = filled(directory, 1, 5, 99)
    file = directory / "turn-1"
    data = file.read_bytes()
    ends = ends_of(whole)
    assert len(data) == ends[-1]
    for size in range(len(data)):
        file.write_bytes(data[:size])
        found = left(directory)
        kept = sum(end <= size for end in ends) - 1
        if kept < 0:
            assert found == [] and not file.exists()
        else:
            assert found == [StoredTurn(1, -7, None, whole.packets[:kept])]
            assert file.stat().st_size == ends[kept], "the torn record is cut off"


def test_a_torn_turn_takes_its_end(directory: Path) -> None:
    whole = filled(directory, 1, 5)
    file = directory / "turn-1"
    os.truncate(file, file.stat().st_size - 1)
    store = TurnStore(directory, BOOT)
    assert store.end(1, 12) == ()
    store.close()
    assert left(directory) == [StoredTurn(1, -7, 12, whole.packets[:4])]


def test_no_changed_byte_becomes_speech(directory: Path) -> None:
    whole = filled(directory, 1, 4, 99)
    file = directory / "turn-1"
    data = file.read_bytes()
    ends = ends_of(whole)
    for at in range(len(data)):
        file.write_bytes(data[:at] + bytes([data[at] ^ 0x40]) + data[at + 1 :])
        kept = sum(end <= at for end in ends) - 1
        expected = [] if kept < 0 else [StoredTurn(1, -7, None, whole.packets[:kept])]
        assert left(directory) == expected, f"byte {at}"


@pytest.mark.parametrize("boot", [(BOOT[0], 1), (1, BOOT[1]), (BOOT[1], BOOT[0])])
def test_what_another_boot_left_is_wiped(directory: Path, boot: tuple[int, int]) -> None:
    filled(directory, 1, 5)
    with (directory / "turn-1").open("rb") as held:
        assert left(directory, boot) == []
        assert set(held.read()) == {0}
    assert list(directory.iterdir()) == []


def test_other_files_are_left_alone(directory: Path) -> None:
    whole = filled(directory, 3, 2)
    others = [directory / name for name in ("journal", "turn-", "turn-1x", "xturn-1")]
    for other in others:
        other.write_bytes(b"mine")
    (directory / "turn-8").symlink_to(directory / "journal")
    (directory / "turn-9").mkdir()
    assert left(directory) == [whole]
    assert all(other.read_bytes() == b"mine" for other in others)


def test_a_turn_under_another_s_name_is_none(directory: Path) -> None:
    filled(directory, 3, 2)
    (directory / "turn-3").rename(directory / "turn-4")
    assert left(directory) == []
    assert list(directory.iterdir()) == []


def test_a_forgotten_turn_is_zeros(directory: Path) -> None:
    filled(directory, 1, 300, 99)
    store = TurnStore(directory, BOOT)
    with (directory / "turn-1").open("rb") as held:
        size = os.fstat(held.fileno()).st_size
        store.forget(1)
        data = held.read()
        assert len(data) == size > 100_000
        assert set(data) == {0}
    assert list(directory.iterdir()) == []
    assert store.used == 0
    assert store.begin(1, 0) == ()


def test_the_oldest_turn_makes_room_and_is_named(directory: Path) -> None:
    store = TurnStore(directory, BOOT, 3_000)
    packet = bytes(100)
    for turn in (1, 2):
        store.begin(turn, 0)
        for index in range(12):
            assert store.packet(turn, index, packet) == ()
    store.end(1, 5)
    lost = [each for index in range(12, 16) for each in store.packet(2, index, packet)]
    assert lost == [GivenUp(1, 0, "the store's 3000 bytes went to newer turns")]
    assert [turn.turn for turn in left(directory)] == [2]
    assert not (directory / "turn-1").exists()
    # Whoever still writes to it is not disturbed.
    assert store.packet(1, 12, packet) == ()
    assert store.end(1, 9) == ()
    with pytest.raises(UsageError, match="turn 1 is in the store already"):
        store.begin(1, 0)
    store.forget(1)
    with pytest.raises(UsageError, match="turn 1 is not in the store"):
        store.packet(1, 0, packet)


def test_a_turn_that_fills_the_store_keeps_its_beginning(directory: Path) -> None:
    store = TurnStore(directory, BOOT, 1_000)
    store.begin(1, 0)
    packet = bytes(100)
    lost = [store.packet(1, index, packet) for index in range(20)]
    kept = (1_000 - HEAD) // (BEFORE + 100)
    (named,) = [each for one in lost for each in one]
    assert named == GivenUp(1, kept, "this turn alone fills the 1000 bytes of the store")
    assert lost[kept] == (named,)
    assert store.end(1, 20 * 960) == ()
    assert left(directory) == [StoredTurn(1, 0, 20 * 960, (packet,) * kept)]


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """A write is cut at this size and then fails, as on a full file system."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize(
    "size", [HEAD + 5, HEAD + 2 * (BEFORE + 50), HEAD + 3 * (BEFORE + 50) + 30]
)
def test_no_room_stops_nothing_and_is_named(directory: Path, size: int) -> None:
    store = TurnStore(directory, BOOT)
    packet = bytes(50)
    kept = (size - HEAD) // (BEFORE + 50)
    with files_of_at_most(size):
        assert store.begin(1, 0) == ()
        lost = [each for index in range(6) for each in store.packet(1, index, packet)]
    assert [(each.turn, each.first) for each in lost] == [(1, kept)]
    assert "turn-1: " in lost[0].reason
    assert store.packet(1, 6, packet) == (), "nothing follows a gap"
    assert store.end(1, 3) == ()
    assert store.used == (directory / "turn-1").stat().st_size
    assert left(directory) == [StoredTurn(1, 0, 3, (packet,) * kept)]


def test_no_room_for_a_beginning_or_an_end(directory: Path) -> None:
    store = TurnStore(directory, BOOT)
    with files_of_at_most(HEAD - 1):
        (lost,) = store.begin(1, 0)
    assert (lost.turn, lost.first) == (1, 0)
    assert list(directory.iterdir()) == []
    assert store.packet(1, 0, b"x") == ()
    store.begin(2, 0)
    store.packet(2, 0, b"x")
    with files_of_at_most(HEAD + BEFORE + 5):
        (lost,) = store.end(2, 960)
    assert (lost.turn, lost.first) == (2, 1)
    assert left(directory) == [StoredTurn(2, 0, None, (b"x",))]


def test_misuse_is_refused_and_changes_nothing(directory: Path) -> None:
    store = TurnStore(directory, BOOT)
    store.begin(1, 0)
    store.packet(1, 0, b"x")
    refused: list[tuple[str, Callable[[], object]]] = [
        ("turn 1 is in the store already", lambda: store.begin(1, 0)),
        ("packet 0 after 1;", lambda: store.packet(1, 0, b"y")),
        ("packet 2 after 1;", lambda: store.packet(1, 2, b"y")),
        ("0 bytes is no Opus packet", lambda: store.packet(1, 1, b"")),
        ("1276 bytes is no Opus packet", lambda: store.packet(1, 1, bytes(1276))),
        ("turn 2 is not in the store", lambda: store.packet(2, 0, b"y")),
        ("turn 2 is not in the store", lambda: store.end(2, 0)),
    ]
    for words, call in refused:
        with pytest.raises(UsageError, match=words):
            call()
    store.end(1, 5)
    with pytest.raises(UsageError, match="packet 1 after 1 and its end"):
        store.packet(1, 1, b"y")
    assert store.end(1, 6) == ()
    store.forget(2)
    assert left(directory) == [StoredTurn(1, 0, 5, (b"x",))]


def test_speech_is_not_written_to_a_disk() -> None:
    assert in_memory(Path("/dev/shm"))
    assert not in_memory(Path("/proc"))
    with pytest.raises(UsageError, match=r"/proc/self is not in memory \(tmpfs\)"):
        TurnStore(Path("/proc/self"), BOOT)


def test_a_directory_of_others_is_refused(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o770)
    with pytest.raises(UsageError, match="has mode 0770, others may write to it"):
        own_directory(shared)
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="file can't be used: File exists"):
        own_directory(tmp_path / "file")


@pytest.mark.skipif(os.geteuid() != 0, reason="a root file system needs root")
def test_a_directory_of_another_user_is_refused(tmp_path: Path) -> None:
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    os.chown(foreign, 65_534, 65_534)
    with pytest.raises(UsageError, match="belongs to user 65534"):
        own_directory(foreign)


@pytest.mark.parametrize(
    ("swaps", "options", "may"),
    [
        ("", "rw,size=64k", False),
        ("/dev/zram0 partition 1 0 100\n", "rw,size=64k", True),
        ("/dev/zram0 partition 1 0 100\n", "rw,noswap", False),
        ("/dev/zram0 partition 1 0 100\n", None, True),
    ],
)
def test_swap_is_seen(tmp_path: Path, swaps: str, options: str | None, may: bool) -> None:
    (tmp_path / "self").mkdir()
    (tmp_path / "swaps").write_text(f"Filename Type Size Used Priority\n{swaps}")
    device = tmp_path.stat().st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    mounts = "22 1 999:9 / /a rw shared:1 - tmpfs tmpfs rw,noswap\n"
    if options is not None:
        mounts += f"23 1 {number} / /b rw,nosuid - tmpfs tmpfs {options}\n"
    (tmp_path / "self/mountinfo").write_text(mounts)
    assert may_be_swapped(tmp_path, tmp_path) is may


class Crashing(RuleBasedStateMachine):
    """A store that is left and opened anew at any moment, beside what it should hold."""

    MOST = 300

    def __init__(self) -> None:
        super().__init__()
        self.path = Path(tempfile.mkdtemp(prefix="kelter-turns-", dir="/dev/shm"))
        self.turns: dict[int, StoredTurn] = {}
        self.short: set[int] = set()
        self.gone: set[int] = set()
        self.newest = 0

    @initialize()
    def start(self) -> None:
        self.store = TurnStore(self.path, BOOT, self.MOST)

    def named(self, lost: tuple[GivenUp, ...]) -> None:
        for each in lost:
            if each.first == 0 and each.turn != self.newest:
                assert each.turn == min(self.turns), "the oldest goes first"
                del self.turns[each.turn]
                self.gone.add(each.turn)
            else:
                assert len(self.turns[each.turn].packets) == each.first
                self.short.add(each.turn)

    def open_turn(self) -> bool:
        return self.newest in self.turns and self.turns[self.newest].end is None

    @precondition(lambda self: not self.open_turn())
    @rule(start=st.integers(-(2**40), 2**40))
    def begin(self, start: int) -> None:
        self.newest += 1
        self.turns[self.newest] = StoredTurn(self.newest, start, None, ())
        self.named(self.store.begin(self.newest, start))

    @precondition(open_turn)
    @rule(packet=st.sampled_from([b"a", b"b" * 70, b"c" * 110]))
    def packet(self, packet: bytes) -> None:
        turn = self.turns[self.newest]
        lost = self.store.packet(self.newest, len(turn.packets), packet)
        self.named(lost)
        if self.newest not in self.short:
            self.turns[self.newest] = StoredTurn(
                turn.turn, turn.start, None, (*turn.packets, packet)
            )

    @precondition(open_turn)
    @rule(end=st.integers(-(2**40), 2**40))
    def end(self, end: int) -> None:
        turn = self.turns[self.newest]
        assert self.store.end(self.newest, end) == ()
        self.turns[self.newest] = StoredTurn(turn.turn, turn.start, end, turn.packets)

    @precondition(lambda self: self.newest)
    @rule(data=st.data())
    def forget(self, data: st.DataObject) -> None:
        turn = data.draw(st.integers(1, self.newest))
        self.store.forget(turn)
        self.turns.pop(turn, None)
        self.gone.discard(turn)

    @rule(torn=st.integers(0, BEFORE))
    def crash(self, torn: int) -> None:
        """With the first bytes of a record written; a turn that was cut starts no more."""
        self.store.close()
        if self.open_turn():
            with (self.path / f"turn-{self.newest}").open("ab") as file:
                file.write(bytes([1, 0, 50, 0, 0, 0, 0, 0, 9, 9, 9, 9])[:torn])
            if self.newest in self.short:
                self.turns[self.newest] = StoredTurn(
                    self.newest,
                    self.turns[self.newest].start,
                    0,
                    self.turns[self.newest].packets,
                )
        self.store = TurnStore(self.path, BOOT, self.MOST)
        if self.newest in self.short and self.newest in self.turns:
            self.store.end(self.newest, 0)
        self.gone.clear()

    @invariant()
    def the_store_holds_what_it_should(self) -> None:
        if not hasattr(self, "store"):
            return
        assert self.store.load() == [self.turns[turn] for turn in sorted(self.turns)]
        sizes = [file.stat().st_size for file in self.path.iterdir()]
        assert self.store.used == sum(sizes)
        assert self.store.used <= self.MOST + END + HEAD

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.store.close()
        shutil.rmtree(self.path)


def check_every_order(examples: int, derandomize: bool = False) -> None:
    run_state_machine_as_test(
        Crashing,
        settings=settings(
            max_examples=examples,
            stateful_step_count=40,
            deadline=None,
            derandomize=derandomize,
            # A fault that is to be found needs no smallest case.
            phases=[Phase.generate] if derandomize else tuple(Phase),
        ),
    )


@pytest.mark.grows
def test_every_order_of_calls_and_crashes() -> None:
    check_every_order(count(60, 500, 5_000))


def check_many_orders() -> None:
    """The same ones every time, so that what they find is no luck."""
    check_every_order(400, derandomize=True)


Planted = Callable[[pytest.MonkeyPatch], None]


def _unnamed(monkeypatch: pytest.MonkeyPatch) -> None:
    original = TurnStore._make_room

    def silent(self: TurnStore, *args: Any) -> tuple[GivenUp, ...]:
        original(self, *args)
        return ()

    monkeypatch.setattr(TurnStore, "_make_room", silent)


def _newest_first(monkeypatch: pytest.MonkeyPatch) -> None:
    original = TurnStore._make_room

    def reverse(self: TurnStore, *args: Any) -> tuple[GivenUp, ...]:
        self._files = dict(reversed(self._files.items()))
        try:
            return original(self, *args)
        finally:
            self._files = dict(sorted(self._files.items()))

    monkeypatch.setattr(TurnStore, "_make_room", reverse)


def _unbounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TurnStore, "_make_room", lambda self, needed, besides: ())


def _only_unlinked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TurnStore, "_wipe", lambda self, file: file.path.unlink())


def _any_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    class Sums:
        crc32 = staticmethod(lambda data, before=0: 0)

    monkeypatch.setattr(turn_store, "zlib", Sums)


def _any_boot(monkeypatch: pytest.MonkeyPatch) -> None:
    original = turn_store._read
    monkeypatch.setattr(turn_store, "_read", lambda data, boot: original(data, BOOT))


def _kept_in_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    original = turn_store._read
    monkeypatch.setattr(
        turn_store, "_read", lambda data, boot: original(data[: len(data) - len(data) % 64], boot)
    )


def _gap(monkeypatch: pytest.MonkeyPatch) -> None:
    original = TurnStore.packet

    def forgetful(self: TurnStore, turn: int, index: int, packet: bytes) -> tuple[GivenUp, ...]:
        lost = original(self, turn, index, packet)
        file = self._files.get(turn)
        if file is not None and file.cut:
            file.cut, file.packets = False, index + 1
        return lost

    monkeypatch.setattr(TurnStore, "packet", forgetful)


def in_a_directory(guard: Callable[..., None], *more: Any) -> Callable[[], None]:
    def check() -> None:
        with memory() as path:
            guard(path / "turns", *more)

    return check


@pytest.mark.parametrize(
    ("plant", "guard"),
    [
        (_unnamed, in_a_directory(test_the_oldest_turn_makes_room_and_is_named)),
        (_newest_first, check_many_orders),
        (_unbounded, in_a_directory(test_the_oldest_turn_makes_room_and_is_named)),
        (_only_unlinked, in_a_directory(test_a_forgotten_turn_is_zeros)),
        (_any_sum, in_a_directory(test_no_changed_byte_becomes_speech)),
        (_any_boot, in_a_directory(test_what_another_boot_left_is_wiped, (1, BOOT[1]))),
        (_kept_in_the_process, check_many_orders),
        (_gap, in_a_directory(test_no_room_stops_nothing_and_is_named, HEAD + 5)),
    ],
)
def test_a_planted_fault_turns_its_guard_red(
    plant: Planted, guard: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    with pytest.raises((AssertionError, KeyError, UsageError, ExceptionGroup)):
        guard()


@pytest.mark.campaign
def test_a_packet_costs_less_than_50_us(directory: Path) -> None:
    """At the median, with 100 turns waiting."""
    store = TurnStore(directory, BOOT)
    for turn in range(1, 101):
        store.begin(turn, 0)
        store.end(turn, 0)
    store.begin(101, 0)
    spent = []
    for index in range(10_000):
        begun = time.perf_counter_ns()
        store.packet(101, index, bytes(80))
        spent.append(time.perf_counter_ns() - begun)
    assert sorted(spent)[5_000] < 50_000
