"""``handset bench loopback``: is the playout cursor what was really played?

Clears at random moments through the real adapter, judged by the card's own tape: see
``clears`` for how one is made and ``analyse`` for how the tape is read. On the simulated
card the error allowed is 0 samples, for every clear without a stream restart.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from handset.audio.stream import StreamSettings
from handset.bench.clears import Clear, ItemResult, Trials
from handset.bench.loads import BusyMachine, HeldGil
from handset.bench.rig import Rig
from handset.core.segments import DeviceTiming
from handset.fakes.virtual_card import VirtualCard, VirtualCardError

SIMULATED = "simulated"
SECOND = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Check:
    """One claim, whether it held, and the numbers it rests on."""

    name: str
    good: bool
    says: str


@dataclass(frozen=True, slots=True)
class Widths:
    """The estimate at the request, per clear: the item that was sounding."""

    errors: list[int]
    widths: list[int]
    misses: int


def _hit(clears: Iterable[Clear]) -> list[ItemResult]:
    return [item for clear in clears for item in clear.items if item.at_request is not None]


def estimates(clears: Sequence[Clear]) -> Widths:
    errors, widths, misses = [], [], 0
    for clear in clears:
        hit = _hit([clear])
        misses += sum(not i.at_request.lo <= i.truth <= i.at_request.hi for i in hit)  # type: ignore[union-attr]
        wide = [(i.at_request.hi - i.at_request.lo, i.at_request.est - i.truth) for i in hit]  # type: ignore[union-attr]
        if hit:
            widths.append(max(wide)[0])
            errors.append(max((error for _, error in wide), key=abs))
    return Widths(errors, widths, misses)


def judge(
    clears: Sequence[Clear], timing: DeviceTiming, realtime: bool, accelerated: bool
) -> list[Check]:
    """The claims. ``realtime``: the callback's thread is; only then is it held to a time.
    ``accelerated``: the card's clock is not real time, so only counts are judged."""
    steady = [clear for clear in clears if clear.restarts == 0]
    broken = [clear for clear in clears if clear.restarts]
    items = [item for clear in steady for item in clear.items]
    errors = [item for item in items if item.error]
    faults = [fault for clear in steady for fault in clear.faults]
    fades = [item for item in items if item.faded != item.heard_faded and item.faded > 2]
    silences = [item for item in items if item.silence != item.synthesized]
    sums = [i for i in items if i.received != i.handed + i.dropped and i.state != "played"]
    moved = sum(
        a.offset != b.offset
        for a, b in pairwise(clears)
        if a.restarts == b.restarts == 0 and None not in (a.offset, b.offset)
    )
    lost = timing.buffer + timing.block
    outside = [
        i for c in broken for i in c.items if not i.handed - lost <= i.heard <= i.handed
    ]  # fmt: skip
    late = [clear for clear in clears if not clear.late_write_refused]
    checks = [
        Check("cursor exact", not errors, f"{len(errors)} of {len(items)} items off, "
              f"in {len(steady)} clears without a stream restart"),
        Check("nothing else on the tape", not faults, _kinds(f.kind.value for f in faults)),
        Check("fades as counted", not fades, f"{len(fades)} of {len(items)} differ"),
        Check("silence as counted", not silences, f"{len(silences)} of {len(items)} differ"),
        Check("received = handed + dropped", not sums, f"{len(sums)} of {len(items)} differ"),
        Check("device frames never shift", moved == 0, f"{moved} shifts"),
        Check("audio of before a clear refused", not late, f"{len(late)} writes taken"),
        Check("cursor within its bound", not outside, f"{len(outside)} items outside, "
              f"in {len(broken)} clears with a restart; bound {lost} frames"),
    ]  # fmt: skip
    return checks if accelerated else checks + _timed(steady, timing, realtime)


def _timed(steady: Sequence[Clear], timing: DeviceTiming, realtime: bool) -> list[Check]:
    found = estimates(steady)
    p50, worst = (float(np.median(found.widths or [0])), max(found.widths, default=0))
    items = [i for c in steady for i in c.items if i.silent_at is not None and i.silent_ns]
    silent = [i for i in items if not i.silent_at.lo <= i.silent_ns <= i.silent_at.hi]  # type: ignore
    period_ns = timing.period * SECOND // timing.rate
    due = [c.block_due_ns - c.call_ns for c in steady if c.block_due_ns is not None]
    over = sum(each > period_ns for each in due)
    strict = sum(c.call_to_cut_ns > period_ns for c in steady)
    return [
        Check("at_request within its bounds", found.misses == 0,
              f"{found.misses} misses in {len(found.widths)} clears"),
        Check("at_request narrow", p50 <= timing.period and worst <= timing.buffer,
              f"width p50 {p50:.0f}, max {worst}; a period is {timing.period}, "
              f"the buffer {timing.buffer}"),
        Check("silent_at within its bounds", not silent, f"{len(silent)} misses in {len(items)}"),
        Check("cut by the first block after the call", over == 0 or not realtime,
              f"{over} of {len(due)} blocks due more than one period after the call; with the "
              f"lateness of the thread, {strict} cuts took longer"
              + ("" if realtime else " (not judged: the thread is not real-time)")),
    ]  # fmt: skip


def _kinds(kinds: Iterable[str]) -> str:
    return ", ".join(f"{n} x {kind}" for kind, n in sorted(Counter(kinds).items())) or "no fault"


# ---- what is printed ---------------------------------------------------------------------------


def spread(values: Sequence[float], unit: str, scale: float = 1.0) -> str:
    if not values:
        return "none"
    p50, p99 = np.percentile(values, [50, 99]) / scale
    low, high = min(values) / scale, max(values) / scale
    return f"min {low:.3g}  p50 {p50:.3g}  p99 {p99:.3g}  max {high:.3g} {unit}  (n={len(values)})"


def histogram(values: Sequence[float], bins: Sequence[float], unit: str) -> list[str]:
    counts, edges = np.histogram(values, bins)
    most = max(int(counts.max(initial=0)), 1)
    return [
        f"  {low:6.3g} .. {high:<6.3g} {unit} {n:6d} {'#' * (40 * int(n) // most)}".rstrip()
        for low, high, n in zip(edges[:-1], edges[1:], counts, strict=True)
        if n
    ]


def report(clears: Sequence[Clear], timing: DeviceTiming, accelerated: bool) -> list[str]:
    errors = Counter(i.error for c in clears if c.restarts == 0 for i in c.items)
    cut = sum(any(i.state == "cleared" and i.dropped for i in c.items) for c in clears)
    lines = [
        f"clears {len(clears)}, of which {cut} cut an item short; underruns: "
        f"{sum(c.restarts for c in clears)} by the card, {sum(c.underflows for c in clears)} by us",
        "cursor error, samples (items in clears without a stream restart):",
        *(f"  {error:+6d} {n:6d}" for error, n in sorted(errors.items())),
    ]
    restarted = [i.error for c in clears if c.restarts for i in c.items if i.error]
    if restarted:
        lines.append(f"  with a restart: {spread(restarted, 'samples')}")
    if accelerated:
        return [*lines, "at_request and times: not judged, the card's clock is accelerated"]
    steady = [clear for clear in clears if clear.restarts == 0]
    found = estimates(steady)
    period = timing.period / timing.rate
    to_cut = [c.call_to_cut_ns / SECOND / period for c in steady]
    lateness = [c.cut_ns - c.block_due_ns for c in steady if c.block_due_ns is not None]
    silence = [
        c.silent_ns - c.cut_ns for c in steady if c.silent_ns and c.silent_ns > c.cut_ns
    ]  # fmt: skip
    return [
        *lines,
        f"at_request error  {spread(found.errors, 'samples')}",
        f"at_request width  {spread(found.widths, 'samples')}",
        f"clear call to cut {spread([c.call_to_cut_ns for c in steady], 'ms', 1e6)}",
        *histogram(to_cut, [*np.arange(0, 1.01, 0.1), 1.05, 1.5, 2, 1000], "host periods"),
        f"thread lateness   {spread(lateness, 'ms', 1e6)}",
        f"cut to silence    {spread(silence, 'ms', 1e6)}",
    ]


def _rows(clears: Iterable[Clear]) -> list[dict[str, Any]]:
    rows = []
    for clear in clears:
        whole = asdict(clear)
        items, faults = whole.pop("items"), whole.pop("faults")
        whole["faults"] = len(faults)
        for result, item in zip(clear.items, items, strict=True):
            row = whole | item | {"error": result.error}
            for name in ("at_request", "silent_at"):
                value = row.pop(name) or {}
                row |= {f"{name}_{key}": value.get(key) for key in ("est", "lo", "hi")}
            rows.append(row)
    return rows


# ---- the command ---------------------------------------------------------------------------------


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--clears", type=int, default=100, metavar="N")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--device", default=SIMULATED, metavar="NAME", help="default: the simulated card"
    )
    parser.add_argument("--rate", type=int, default=48_000, help="of the card, Hz")
    parser.add_argument(
        "--speed", type=float, default=1.0, help="accelerated card: only counts are judged"
    )
    parser.add_argument(
        "--load", action=argparse.BooleanOptionalAction, default=None,
        help="two busy processes beside it; default: yes, but not on an accelerated card",
    )  # fmt: skip
    parser.add_argument(
        "--stall-ms", type=float, default=None, metavar="MS",
        help="how long the GIL is held at a time; default: 200, 0 on an accelerated card",
    )  # fmt: skip
    parser.add_argument("--csv", type=Path, metavar="FILE", help="one row per item")
    parser.add_argument("--json", type=Path, metavar="FILE", help="checks and every clear")


def run(args: argparse.Namespace) -> int:
    """Exit status: 0 when every claim held, 1 when one did not, 2 when nothing was measured."""
    if args.device != SIMULATED:
        print(
            f"loopback: {args.device!r} is a real card, and measuring a real card's loop is not "
            f"available yet. Leave --device out to measure on the simulated card.",
            file=sys.stderr,
        )
        return 2
    accelerated = args.speed != 1
    load = not accelerated if args.load is None else args.load
    stall_ms = (0 if accelerated else 200) if args.stall_ms is None else args.stall_ms
    with ExitStack() as stack:
        try:
            card = stack.enter_context(VirtualCard(rate=args.rate, speed=args.speed))
        except VirtualCardError as error:
            print(f"loopback: {error}", file=sys.stderr)
            return 2
        rig = Rig(card, StreamSettings(rate=args.rate))
        stack.callback(rig.close)
        grant, timing = rig.stream.grant, rig.stream.timing
        pace = f"clock accelerated {args.speed:g} times" if accelerated else "real-time pace"
        print(
            f"simulated card {card.device!r}: {grant.rate} Hz, block {grant.block}, period "
            f"{grant.period}, buffer {grant.buffer} frames; {pace}; callback thread "
            f"{'real-time' if grant.realtime else 'NOT real-time: ' + grant.problem}"
        )
        print(
            f"beside it: {2 if load else 0} busy processes, GIL held {stall_ms:g} ms at a time; "
            f"seed {args.seed}",
            flush=True,
        )
        stack.enter_context(BusyMachine(2 if load else 0))
        stack.enter_context(HeldGil(stall_ms, args.seed))
        clears = []
        for clear in Trials(rig, args.seed, args.speed).run(args.clears):
            clears.append(clear)
            if sys.stdout.isatty():
                wrong = sum(item.error != 0 for each in clears for item in each.items)
                print(f"\r{len(clears)}/{args.clears} clears, {wrong} wrong", end="", flush=True)
        if sys.stdout.isatty():
            print("\r\033[K", end="")
    checks = judge(clears, timing, grant.realtime, accelerated)
    return _finish(args, clears, checks, report(clears, timing, accelerated))


def _finish(
    args: argparse.Namespace, clears: Sequence[Clear], checks: Sequence[Check], lines: list[str]
) -> int:
    good = all(check.good for check in checks) and len(clears) == args.clears
    print("\n".join(lines))
    for check in checks:
        print(f"{'ok  ' if check.good else 'FAIL'} {check.name}: {check.says}")
    print(f"{'PASS' if good else 'FAIL'}: {len(clears)} clears")
    if args.csv:
        rows = _rows(clears)
        with args.csv.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, fieldnames=list(rows[0]) if rows else [])
            writer.writeheader()
            writer.writerows(rows)
    if args.json:
        whole = {
            "passed": good,
            "checks": [asdict(check) for check in checks],
            "clears": [asdict(clear) for clear in clears],
        }
        args.json.write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")
    return 0 if good else 1
