"""A process that is killed, and a disk that is asked: kept means kept."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from handset.edge.store import OutboxStore


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "outbox.db"


KILLED = """
import sys
from test_store import OutboxStore, event
store = OutboxStore(sys.argv[1])
store.open()
for seq in range(1, 100_000, 2):
    store.append([event(seq), event(seq + 1)]).result()
    print(seq + 1, flush=True)
"""


@pytest.mark.parametrize("lines", [1, 7, 40])
def test_a_kill_loses_nothing_that_was_said_to_be_kept(path: Path, lines: int) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, path],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert process.stdout is not None
    for _ in range(lines):
        process.stdout.readline()
    process.kill()
    said = [lines * 2, *map(int, process.stdout.read().split())][-1]
    process.wait()
    process.stdout.close()
    store = OutboxStore(path)
    seqs = [each.seq for each in store.open().pending]
    store.close()
    assert seqs == list(range(1, len(seqs) + 1))
    assert len(seqs) >= said and len(seqs) % 2 == 0


COUNT_SYNCS = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>
static int counted(const char *name, int fd)
{
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
    int result = real(fd);
    return write(atoi(getenv("SYNC_PIPE")), "s", 1) == 1 ? result : -1;
}
int fsync(int fd) { return counted("fsync", fd); }
int fdatasync(int fd) { return counted("fdatasync", fd); }
"""
SYNCED = """
import os, sys
from test_store import OutboxStore, event
store = OutboxStore(sys.argv[1])
store.open()
for seq in range(1, 21):
    store.append([event(seq)]).result()
    os.write(int(os.environ["SYNC_PIPE"]), b"k")
store.close()
"""


def test_kept_is_said_only_after_the_disk_has_it(path: Path) -> None:
    """Between two events that are said to be kept lies a sync: a kill can't tell, a power
    cut could."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    library = path.with_name("syncs.so")
    library.parent.mkdir()
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-o", library, "-x", "c", "-", "-ldl"],
        input=COUNT_SYNCS,
        text=True,
        check=True,
    )
    reader, writer = os.pipe()
    environment = {
        "LD_PRELOAD": str(library),
        "SYNC_PIPE": str(writer),
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    subprocess.run(
        [sys.executable, "-c", SYNCED, path],
        env={**os.environ, **environment},
        pass_fds=[writer],
        check=True,
    )
    os.close(writer)
    with open(reader, "rb") as pipe:
        order = pipe.read()
    parts = order.split(b"k")
    assert len(parts) == 21 and all(parts[:20]), order
