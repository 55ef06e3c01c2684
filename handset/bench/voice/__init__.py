"""``handset bench voice``: does the voice detector find who interrupts, and nobody else?

Synthetic people in noise, over the echo of the assistant, coughing, agreeing, and correcting
themselves: see ``scenes``. Each scene goes through the product's own front (``bed``). The
thresholds are chosen on one half of the seeds and reported on the other.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from handset.audio.echo import CANCELLERS
from handset.bench.speech.espeak import EspeakMissing
from handset.bench.voice import measure, report, scenes
from handset.bench.voice.bed import Heard, hear
from handset.bench.voice.picture import svg
from handset.bench.voice.voices import RATE
from handset.core.speech import SpeechSettings
from handset.errors import HandsetError


@dataclass(frozen=True, slots=True)
class Corpus:
    """Scenes as the front heard them. ``spent_s``: processor time of the front, ``lasted_s``
    how long the scenes are."""

    heard: list[Heard]
    spent_s: float
    lasted_s: float

    @property
    def load(self) -> float:
        """Share of one core in real time."""
        return self.spent_s / self.lasted_s


def listen(
    conditions: Iterable[scenes.Condition], seeds: Sequence[int], canceller: str, events: int
) -> Corpus:
    """Raises EspeakMissing, or DeviceError for a canceller that is not there."""
    heard, spent, lasted = [], 0.0, 0.0
    for condition in conditions:
        for seed in seeds:
            scene = scenes.make(condition, seed, events)
            before = time.process_time()
            heard.append(hear(scene, canceller))
            spent += time.process_time() - before
            lasted += len(scene.mic) / RATE
            if sys.stdout.isatty():
                print(f"\r\033[K{canceller}: {condition.name}, seed {seed}", end="", flush=True)
    if sys.stdout.isatty():
        print("\r\033[K", end="", flush=True)
    return Corpus(heard, spent, lasted)


def choose(seeds: Sequence[int], canceller: str, events: int) -> SpeechSettings:
    """Thresholds for these seeds; everything else as it ships."""
    return measure.choose(listen(scenes.detection_conditions(), seeds, canceller, events).heard)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--seeds", type=int, default=8, metavar="N",
        help="scenes of each condition; thresholds are chosen on one half (default 8)",
    )  # fmt: skip
    parser.add_argument("--first-seed", type=int, default=0, metavar="N", help="for other scenes")
    parser.add_argument("--events", type=int, default=scenes.EVENTS, help="in each scene")
    parser.add_argument("--canceller", choices=CANCELLERS, default="livekit")
    parser.add_argument(
        "--choose", action=argparse.BooleanOptionalAction, default=True,
        help="choose the thresholds anew; --no-choose: those that ship",
    )  # fmt: skip
    parser.add_argument(
        "--compare", action=argparse.BooleanOptionalAction, default=True,
        help="the echo with every canceller",
    )  # fmt: skip
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--svg", type=Path, metavar="FILE", help="the result as a picture")


def run(args: argparse.Namespace) -> int:
    """Exit status: 0 when every claim held, 1 when one did not, 2 when nothing was measured."""
    try:
        return _run(args)
    except (EspeakMissing, HandsetError) as error:
        print(f"voice: {error}", file=sys.stderr)
        return 2


def _run(args: argparse.Namespace) -> int:
    if args.seeds < 2 or args.events < 1:
        print("voice: --seeds must be at least 2 (a half each), --events 1", file=sys.stderr)
        return 2
    chosen_on, reported_on = scenes.halves(range(args.first_seed, args.first_seed + args.seeds))
    shipped = SpeechSettings()
    chosen = choose(chosen_on, args.canceller, args.events) if args.choose else shipped
    main = listen(scenes.detection_conditions(), reported_on, args.canceller, args.events)
    corrections = listen(scenes.correction_conditions(), reported_on, args.canceller, args.events)
    results = measure.by_condition(main.heard, chosen)
    ends = measure.false_ends(corrections.heard, chosen)
    compared = []
    loads = {args.canceller: main.load}
    for canceller in CANCELLERS if args.compare else ():
        found = listen(scenes.echo_conditions(), reported_on, canceller, args.events)
        loads.setdefault(canceller, found.load)
        compared += measure.by_condition(found.heard, chosen)
    manual = measure.manual_ends(corrections.heard, chosen)
    checks = report.judge(results, manual, args.canceller)
    good = all(check.good for check in checks)
    print("\n".join(report.text(results, compared, ends, manual, loads, chosen, shipped)))
    for check in checks:
        print(f"{'ok  ' if check.good else 'FAIL'} {check.name}: {check.says}")
    if args.json is not None:
        whole = {
            "passed": good,
            "seeds": {"chosen_on": chosen_on, "reported_on": reported_on},
            "settings": asdict(chosen),
            "checks": [asdict(check) for check in checks],
            "conditions": [asdict(each) for each in results],
            "cancellers": [asdict(each) for each in compared],
            "ends": [asdict(each) for each in ends],
            "manual": asdict(manual),
            "load": loads,
        }
        args.json.write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")
    if args.svg is not None:
        args.svg.write_text(svg(results, ends, manual), encoding="utf-8")
    return 0 if good else 1
