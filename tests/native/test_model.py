"""The model check of the native code: every order needed, every planted race found."""

from __future__ import annotations

import os
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from builds import NATIVE, ChangedSource, build, cache, checked, run

SCALE = {"suite": "100", "long": "1000", "campaign": "10000"}[
    os.environ.get("HANDSET_TIER", "suite")
]
RELACY = Path("/usr/include/relacy/relacy.hpp")

pytestmark = [
    pytest.mark.timeout(3600),
    pytest.mark.skipif(not RELACY.exists(), reason="Debian package relacy-dev is missing"),
]


@pytest.fixture(scope="module")
def model() -> Path:
    return build(NATIVE / "model", cache("model")) / "model"


def named_orders() -> list[str]:
    return re.findall(r"^#ifndef (KH_\w+_(?:STORE|LOAD))$", (NATIVE / "order.h").read_text(), re.M)


def weakened(model: Path, what: str) -> tuple[str, bool]:
    done = run(model, "--weaken", what, "--scale", "15")
    return what, done.returncode == 1 and "FAIL" in done.stdout


def all_caught(model: Path, weakenings: list[str]) -> None:
    with ThreadPoolExecutor(2) as pool:
        survivors = [
            what
            for what, caught in pool.map(lambda w: weakened(model, w), weakenings)
            if not caught
        ]
    assert not survivors, f"relaxed without any test noticing: {survivors}"


def test_model_holds(model: Path) -> None:
    text = checked(model, "--scale", SCALE, timeout=3000)
    print(text)
    assert all(line.startswith("ok  ") for line in text.splitlines())
    assert sum(int(n) for n in re.findall(r": (\d+) executions", text)) > 2_000_000


def test_every_named_order_is_needed(model: Path) -> None:
    orders = named_orders()
    assert orders
    all_caught(model, orders)


def test_every_single_access_needs_its_order(model: Path) -> None:
    """One name can stand at several places: each place is weakened on its own."""
    text = checked(model, "--scale", "5", "--show", "sites")
    sites = sorted(set(re.findall(r"^site (\S+:\d+) ", text, re.M)))
    assert len(sites) > 30
    all_caught(model, sites)


FAULTS = {
    "the write index loaded before the control word": (
        "playout_render.c",
        "  uint64_t control = KH_LOAD(s->control, KH_CONTROL_LOAD);\n"
        "  uint64_t write = known_write(q, control >> 2);\n",
        "  uint64_t write = KH_LOAD(s->write, KH_WRITE_LOAD);\n"
        "  uint64_t control = KH_LOAD(s->control, KH_CONTROL_LOAD);\n",
    ),
    "frames behind a clear that the block does not know": (
        "playout_render.c",
        "    ready = lesser(ready, KH_LOAD(next->fence, KH_RELAXED) - read);\n",
        "    (void)next;\n",
    ),
    "the read index released before the fade is copied": (
        "playout_render.c",
        "  faded = n == 0 ? 0 : take_fade(q, fence);\n",
        "  KH_STORE(s->read, fence, KH_READ_STORE);\n  faded = n == 0 ? 0 : take_fade(q, fence);\n",
    ),
    "an answer dropped when there is no room": (
        "playout_render.c",
        "KH_ANSWER_FREE_LOAD) == KH_N(KH_ANSWERS)) return 1;",
        "KH_ANSWER_FREE_LOAD) == KH_N(KH_ANSWERS)) return c->answered = request, 0;",
    ),
    "the control word stored before the fence": (
        "playout_control.c",
        "  c->clears++;\n  slot =",
        "  c->clears++;\n  store_control(q);\n  slot =",
    ),
    "the start of a run published after its frames": (
        "playout_render.c",
        "  /* After `write`: a start is written before its frames are. */\n",
        "  write = KH_LOAD(s->write, KH_WRITE_LOAD);\n",
    ),
    "frames published before the gap in front of them": (
        "capture.c",
        "  if (k > 0 && !publish_gap(c)) k = 0;\n",
        "  if (k > 0) KH_STORE(c->write, c->stored + k, KH_WRITE_STORE);\n"
        "  if (k > 0 && !publish_gap(c)) k = 0;\n",
    ),
    "notice frames given back before they are mixed": (
        "playout_render.c",
        "  k = (uint32_t)lesser(n - at, write - c->notice_read);\n",
        "  k = (uint32_t)lesser(n - at, write - c->notice_read);\n"
        "  KH_STORE(q->shared->notice_read, c->notice_read + k, KH_READ_STORE);\n",
    ),
    "the notice fence loaded after the notice index": (
        "playout_render.c",
        "  uint64_t fence = KH_LOAD(q->shared->notice_fence, KH_CONTROL_LOAD);\n"
        "  uint64_t write = KH_LOAD(q->shared->notice_write, KH_WRITE_LOAD);\n",
        "  uint64_t write = KH_LOAD(q->shared->notice_write, KH_WRITE_LOAD);\n"
        "  uint64_t fence = KH_LOAD(q->shared->notice_fence, KH_CONTROL_LOAD);\n",
    ),
}


@pytest.fixture(scope="module")
def changed(tmp_path_factory: pytest.TempPathFactory) -> ChangedSource:
    return ChangedSource(tmp_path_factory.mktemp("faults") / "native")


@pytest.mark.long
@pytest.mark.parametrize("fault", FAULTS)
def test_planted_race_is_found(fault: str, changed: ChangedSource) -> None:
    with changed.fault(*FAULTS[fault]):
        tree = build(changed.root / "model", changed.root.parent / "build")
        found = run(tree / "model")
    assert found.returncode == 1 and "FAIL" in found.stdout, f"no model test notices: {fault}"
