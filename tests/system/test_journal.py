"""The crash journal: what is in it outlives the process, whenever that is killed."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiers import count

from handset.system.journal import Journal, JournalFull, read_journal

BOOT = (0x1122334455667788, 0x99AABBCCDDEEFF00)
HEADER = 32
WRITER = """
import sys
from pathlib import Path
from handset.system.journal import Journal, JournalFull

journal = Journal(Path(sys.argv[1]), (1, 2), 1 << 22)
print("ready", flush=True)
n = 0
while True:
    try:
        # Of any length, so that a record ends and begins at any byte.
        journal.append({"n": n, "text": "x" * (n * 7 % 401)})
    except JournalFull:
        journal.reset()
    else:
        n += 1
"""


def test_what_was_appended_is_there_in_order(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "run/journal", BOOT)
    records = [{"k": "append", "item": "ä\n", "frames": n} for n in range(100)]
    for n, record in enumerate(records):
        journal.append(record)
        assert read_journal(tmp_path / "run/journal", BOOT) == records[: n + 1]
    journal.close()
    assert read_journal(tmp_path / "run/journal", BOOT) == records


def test_a_killed_process_leaves_whole_records(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    seed = random.Random(7)
    lengths = set()
    for _ in range(count(25, 200, 2_000)):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True
        )
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
        time.sleep(seed.uniform(0, 0.08))  # the moment is what is tried
        writer.kill()
        assert writer.wait() == -9
        writer.stdout.close()
        records = read_journal(path, (1, 2))
        first = records[0]["n"] if records else 0
        assert records == [
            {"n": n, "text": "x" * (n * 7 % 401)} for n in range(first, first + len(records))
        ]
        lengths.add(len(records))
    assert len(lengths) > 3, "the writer was always killed at the same place"


@given(st.integers(0, 63))
def test_a_process_killed_in_the_middle_of_a_record(torn: int) -> None:
    """``torn`` bytes of the next record had been written, and not its covering word."""
    path = Path("/dev/shm") / f"kelter-journal-test-{random.getrandbits(64):x}"
    try:
        journal = Journal(path, BOOT, 4096)
        journal.append({"n": 1})
        covered = path.read_bytes()
        journal.append({"n": 2, "text": "y" * 60})
        after = path.read_bytes()
        journal.close()
        used = HEADER + int.from_bytes(covered[24:32], sys.byteorder) - HEADER
        data = bytearray(covered)
        data[used : used + torn] = after[used : used + torn]
        path.write_bytes(data)
        assert read_journal(path, BOOT) == [{"n": 1}]
    finally:
        path.unlink(missing_ok=True)


@pytest.mark.parametrize(
    "boot", [(BOOT[0], BOOT[1] + 1), (BOOT[0] - 1, BOOT[1]), (BOOT[1], BOOT[0]), (0, 0)]
)
def test_a_journal_of_another_boot_is_empty(tmp_path: Path, boot: tuple[int, int]) -> None:
    journal = Journal(tmp_path / "journal", BOOT)
    journal.append({"n": 1})
    assert read_journal(tmp_path / "journal", boot) == []


@pytest.mark.parametrize("at", range(8))
def test_a_file_of_another_layout_is_empty(tmp_path: Path, at: int) -> None:
    path = tmp_path / "journal"
    Journal(path, BOOT, 4096).append({"n": 1})
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)
    assert read_journal(path, BOOT) == []


@pytest.mark.parametrize("size", [0, 1, HEADER - 1])
def test_a_file_cut_in_its_head_is_empty(tmp_path: Path, size: int) -> None:
    path = tmp_path / "journal"
    Journal(path, BOOT, 4096).append({"n": 1})
    path.write_bytes(path.read_bytes()[:size])
    assert read_journal(path, BOOT) == []


def test_a_file_cut_later_keeps_its_whole_records(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    journal = Journal(path, BOOT, 4096)
    ends = []
    for n in range(5):
        journal.append({"n": n})
        ends.append(HEADER + journal.used)
    data = path.read_bytes()
    for size in range(HEADER, ends[-1] + 1):
        path.write_bytes(data[:size])
        assert len(read_journal(path, BOOT)) == sum(end <= size for end in ends)


def test_no_file_is_empty(tmp_path: Path) -> None:
    assert read_journal(tmp_path / "none", BOOT) == []


def test_a_full_journal_says_so_and_stays_whole(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    journal = Journal(path, BOOT, 1024)
    kept = []
    with pytest.raises(JournalFull, match=r"full \(1024 bytes\)"):
        while True:
            record = {"n": len(kept), "text": "z" * 50}
            journal.append(record)
            kept.append(record)
    assert len(kept) > 5
    assert read_journal(path, BOOT) == kept
    used = journal.used
    left = 1024 - HEADER - used
    exact = {"f": "f" * (left - 4 - len('{"f":""}'))}
    with pytest.raises(JournalFull):
        journal.append({"f": exact["f"] + "f"})
    assert journal.used == used
    journal.append(exact)  # to the last byte
    assert read_journal(path, BOOT) == [*kept, exact]


def test_after_a_reset_it_begins_anew(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    journal = Journal(path, BOOT, 1024)
    for n in range(10):
        journal.append({"n": n})
    journal.reset()
    assert journal.used == 0
    assert read_journal(path, BOOT) == []
    journal.append({"m": 1})
    assert read_journal(path, BOOT) == [{"m": 1}]


def test_a_new_journal_forgets_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    old = Journal(path, BOOT)
    old.append({"n": 1})
    new = Journal(path, BOOT)
    assert read_journal(path, BOOT) == []
    old.append({"n": 2})  # by a process that still has the old file
    new.append({"n": 3})
    assert read_journal(path, BOOT) == [{"n": 3}]
