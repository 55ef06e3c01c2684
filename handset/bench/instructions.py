"""``handset bench instructions``: what the audio callback costs, in instructions.

Counted by callgrind, so the numbers do not depend on what else the machine does. Four
functions do the same work on the same blocks: ours, python-rtmixer's, and the least that
the work can be, a memcpy of the speech and a mix of the notice. Ours also keeps cursor,
segment log and snapshot, which is what the goals leave room for.

One Python process runs under callgrind. A small C library, compiled at run time, calls
each function block by block from a function of its own, around which callgrind counts.
"""

from __future__ import annotations

import argparse
import importlib
import json
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from cffi import FFI

from handset.audio.playout import Playout, PlayoutConfig

BLOCK = 480
BLOCKS = 64
CLEAR_RATE = 16_000
"""Of the queues that are cleared: 30 minutes are 64 MB then."""
QUEUED_S = {"clear_10ms": 0.01, "clear_10s": 10.0, "clear_30min": 1800.0}
MOST_OF_BARE = 1.5
MOST_OF_RTMIXER = 0.5

_DECLARED = "".join(
    f"void measured_{name}(void *call, void *what, void *out, uint32_t n, uint32_t blocks);"
    for name in ("warm_up", "speech", "speech_notice", *QUEUED_S, "rtmixer", "rtmixer_two")
) + (
    "void measured_bare(const int16_t *speech, const int16_t *notice, int16_t *out,"
    " uint32_t n, uint32_t blocks);"
)
_SOURCE = """
#include <stdint.h>
#include <string.h>
#include <valgrind/callgrind.h>
typedef void render(void *, int16_t *, uint32_t, int64_t, int64_t, uint32_t);
typedef int callback(const void *, void *, unsigned long, const double *, unsigned long, void *);

#define RENDER(name) \\
  void measured_##name(void *call, void *q, void *out, uint32_t n, uint32_t blocks) { \\
    int64_t now = 1000000000; \\
    CALLGRIND_ZERO_STATS; \\
    for (; blocks > 0; blocks--, now += 10000000) \\
      ((render *)call)(q, out, n, now + 20000000, now, 0); \\
    CALLGRIND_DUMP_STATS_AT(#name); \\
  }
RENDER(warm_up)
RENDER(speech)
RENDER(speech_notice)
RENDER(clear_10ms)
RENDER(clear_10s)
RENDER(clear_30min)

#define RTMIXER(name) \\
  void measured_##name(void *call, void *state, void *out, uint32_t n, uint32_t blocks) { \\
    double time[3] = {0, 1, 1.02}; \\
    CALLGRIND_ZERO_STATS; \\
    for (; blocks > 0; blocks--, time[1] += 0.01, time[2] += 0.01) \\
      ((callback *)call)(0, out, n, time, 0, state); \\
    CALLGRIND_DUMP_STATS_AT(#name); \\
  }
RTMIXER(rtmixer)
RTMIXER(rtmixer_two)

void measured_bare(const int16_t *speech, const int16_t *notice, int16_t *out,
                   uint32_t n, uint32_t blocks) {
  CALLGRIND_ZERO_STATS;
  for (; blocks > 0; blocks--, speech += n, notice += n) {
    uint32_t i;
    memcpy(out, speech, n * sizeof *out);
    for (i = 0; i < n; i++) {
      int32_t sum = out[i] + notice[i];
      out[i] = (int16_t)(sum > 32767 ? 32767 : sum < -32768 ? -32768 : sum);
    }
  }
  CALLGRIND_DUMP_STATS_AT("bare");
}
"""


class NotMeasured(RuntimeError):
    """A tool is missing, or did not do what was asked."""


@dataclass(frozen=True, slots=True)
class Goal:
    name: str
    good: bool
    says: str


# ---- inside callgrind ----------------------------------------------------------------------------


def work(library: str) -> None:
    """Runs every case once. Called in the process that callgrind watches."""
    own = FFI()
    own.cdef(_DECLARED)
    helper = own.dlopen(library)
    out = own.new("int16_t[]", 2 * BLOCK)

    def render(case: str, queue: Playout, blocks: int) -> None:
        call, q = queue.native_render()
        case_of = getattr(helper, f"measured_{case}")
        case_of(own.cast("void *", call), own.cast("void *", q), out, BLOCK, blocks)

    frames = np.full((BLOCKS + 1) * BLOCK, 20_000, np.int16)
    for case in ("warm_up", "speech", "speech_notice"):
        queue = Playout(PlayoutConfig(48_000, seconds=1, notice_seconds=1))
        queue.write(0, frames, True)
        if case != "speech":
            queue.notice(frames)
        queue.render(BLOCK, 0, 0)
        render(case, queue, BLOCKS)
        queue.close()
    for case, seconds in QUEUED_S.items():
        queue = Playout(PlayoutConfig(CLEAR_RATE, seconds=seconds + 1, notice_seconds=1))
        _fill(queue, round(seconds * CLEAR_RATE) + BLOCK)
        queue.render(BLOCK, 0, 0)
        queue.clear()
        render(case, queue, 1)
        queue.close()
    speech, notice = (own.from_buffer("int16_t[]", each) for each in (frames, frames.copy()))
    helper.measured_bare(speech, notice, out, BLOCK, BLOCKS)
    _rtmixer(own, helper)


def _fill(queue: Playout, frames: int) -> None:
    while frames > 0:
        frames -= queue.write(0, np.full(min(frames, 1 << 20), 20_000, np.int16), False)


def _rtmixer(own: FFI, helper: Any) -> None:
    """Its callback with one, then two, buffers playing; nothing where it is not installed."""
    try:
        module = importlib.import_module("_rtmixer")
        ffi, lib = module.ffi, module.lib
        ring = importlib.import_module("pa_ringbuffer").init(ffi, lib)
    except ImportError:
        return
    total = (BLOCKS + 1) * BLOCK
    out = own.new("float[]", BLOCK)
    for case, buffers in (("rtmixer", 1), ("rtmixer_two", 2)):
        queues = [ring(ffi.sizeof("struct action*"), 16) for _ in range(2)]
        state = ffi.new(
            "struct state*",
            {"output_channels": 1, "samplerate": 48_000, "action_q": queues[0]._ptr,
             "result_q": queues[1]._ptr},
        )  # fmt: skip
        actions = []
        for _ in range(buffers):
            sound = ffi.new("float[]", total)
            action = ffi.new(
                "struct action*",
                {"type": lib.PLAY_BUFFER, "actual_time": -1.0, "buffer": sound,
                 "total_frames": total, "channels": 1, "mapping": [1]},
            )  # fmt: skip
            actions.append((sound, action))
            queues[0].write(ffi.new("struct action**", action))
        call, where = (
            own.cast("void *", int(ffi.cast("intptr_t", each)))
            for each in (ffi.addressof(lib, "callback"), state)
        )
        getattr(helper, f"measured_{case}")(call, where, out, BLOCK, BLOCKS)


# ---- around it ---------------------------------------------------------------------------------


def measure() -> dict[str, float]:
    """Instructions per block of ``BLOCK`` frames, by case. ``NotMeasured`` without the tools."""
    for tool in ("valgrind", "cc"):
        if shutil.which(tool) is None:
            raise NotMeasured(f"{tool} is not installed")
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        (directory / "measured.c").write_text(_SOURCE, encoding="utf-8")
        library = directory / "measured.so"
        _run("cc", "-O3", "-DNDEBUG", "-shared", "-fPIC", "-o", library, directory / "measured.c")
        _run(
            "valgrind", "--tool=callgrind", f"--callgrind-out-file={directory}/out",
            sys.executable, "-c",
            f"from handset.bench.instructions import work; work({str(library)!r})",
        )  # fmt: skip
        counts = dict(_counts(path) for path in directory.glob("out.*") if _case(path))
    del counts["warm_up"]  # the linker's work is in it
    return counts


def _run(*command: str | Path) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise NotMeasured(f"{command[0]} failed: {done.stderr.strip()[-500:]}")


def _case(path: Path) -> str | None:
    found = re.search(r"^desc: Trigger: Client Request: (\w+)", path.read_text(), re.MULTILINE)
    return found[1] if found else None


def _counts(path: Path) -> tuple[str, float]:
    case = _case(path)
    total = re.search(r"^(?:summary|totals): (\d+)", path.read_text(), re.MULTILINE)
    if case is None or total is None:
        raise NotMeasured(f"{path}: callgrind wrote no count")
    return case, int(total[1]) / (1 if case in QUEUED_S else BLOCKS)


def goals(counts: dict[str, float]) -> list[Goal]:
    bare = MOST_OF_BARE * counts["bare"]
    clears = {counts[case] for case in QUEUED_S}
    found = [
        Goal(f"{case} <= {MOST_OF_BARE} x memcpy and mix", counts[case] <= bare,
             f"{counts[case] / counts['bare']:.2f} x")
        for case in ("speech", "speech_notice")
    ]  # fmt: skip
    for case, other in (("speech", "rtmixer"), ("speech_notice", "rtmixer_two")):
        if other in counts:
            ratio = counts[case] / counts[other]
            name = f"{case} <= {MOST_OF_RTMIXER} x {other}"
            found.append(Goal(name, ratio <= MOST_OF_RTMIXER, f"{ratio:.2f} x"))
    says = ", ".join(f"{case} {counts[case]:.0f}" for case in QUEUED_S)
    return [*found, Goal("a clear costs the same whatever is queued", len(clears) == 1, says)]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", type=Path, metavar="FILE")


def run(args: argparse.Namespace) -> int:
    """Exit status: 0 when every goal is met, 1 when not, 2 when nothing was measured."""
    try:
        counts = measure()
    except NotMeasured as error:
        print(f"instructions: {error}", file=sys.stderr)
        return 2
    print(f"instructions per block of {BLOCK} frames, one channel:")
    for case, count in sorted(counts.items(), key=lambda each: each[1]):
        print(f"  {case:14} {count:9.0f}")
    if "rtmixer" not in counts:
        print("  rtmixer is not installed: not compared (pip install rtmixer)")
    found = goals(counts)
    for goal in found:
        print(f"{'ok  ' if goal.good else 'FAIL'} {goal.name}: {goal.says}")
    if args.json:
        whole = {"counts": counts, "goals": [asdict(goal) for goal in found]}
        args.json.write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")
    return 0 if all(goal.good for goal in found) else 1
