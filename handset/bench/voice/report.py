"""The bench's table and its claims."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from handset.bench.voice.measure import END_S, EndResult, Result
from handset.bench.voice.scenes import PAUSES_S
from handset.bench.voice.voices import RATE
from handset.core.speech import SpeechSettings

NO_GOAL = ("babble 5 dB", "babble 0 dB", "short words", "coughs", "backchannels")
"""A crowd as loud as the person is speech, and a short word is what "mm-hm" is: reported,
not claimed."""


@dataclass(frozen=True, slots=True)
class Check:
    """One claim, whether it held, and the numbers it rests on."""

    name: str
    good: bool
    says: str


def judge(results: Iterable[Result], manual: EndResult, canceller: str) -> list[Check]:
    rows = list(results)
    own = [each for each in rows if each.name.startswith("echo")]
    own_false = sum(each.false_confirmed for each in own)
    minutes = sum(each.minutes for each in own)
    real = [each for each in rows if each.name not in NO_GOAL and each.events]
    missed = sum(each.missed for each in real)
    lost = [lost for each in real for lost in each.lost if lost]
    coughs = next((each for each in rows if each.name == "coughs"), None)
    checks = [
        Check(f"own echo never interrupts ({canceller})", own_false == 0,
              f"{own_false} in {minutes:.1f} minutes"),
        Check("every interruption found", missed == 0,
              f"{missed} of {sum(each.events for each in real)} missed; without {NO_GOAL[0]}, "
              f"{NO_GOAL[1]} and words shorter than a proof"),
        Check("no sample of them lost", not lost,
              f"{len(lost)} of {sum(len(each.lost) for each in real)}, "
              f"{max(lost, default=0)} samples at most"),
        Check("a manual turn is never ended by silence", manual.false == 0,
              f"{manual.false} of {manual.turns}, given every end that a detector found"),
    ]  # fmt: skip
    if coughs is not None and coughs.events:
        part = coughs.confirmed / coughs.events
        checks.append(
            Check("coughs are dismissed", part <= COUGHS, f"{coughs.confirmed} of "
                  f"{coughs.events} taken for speech; double coughs are long")
        )  # fmt: skip
    return checks


COUGHS = 0.1


def milliseconds(samples: Sequence[int]) -> str:
    if not samples:
        return "-"
    p50, p95 = np.percentile(samples, [50, 95]) * 1000 / RATE
    return f"{p50:.0f} / {p95:.0f}"


HEAD = (
    f"{'condition':36} {'events':>6} {'missed':>6} {'already':>7} {'pauses':>7} {'false':>7} "
    f"{'latency':>11} {'proof':>11} {'lost':>6}"
)


def row(each: Result, canceller: bool = False) -> str:
    name = f"{each.canceller}: {each.name}" if canceller else each.name
    per_minute = [
        f"{n / each.minutes:7.1f}" if each.minutes > 0 else f"{'-':>7}"
        for n in (each.false_suspected, each.false_confirmed)
    ]
    return (
        f"{name:36.36} {each.events:6} {each.missed:6} {each.already:7} {per_minute[0]} "
        f"{per_minute[1]} {milliseconds(each.latency):>11} {milliseconds(each.to_confirm):>11} "
        f"{max(each.lost, default=0):6}"
    )


def text(
    results: Iterable[Result],
    compared: Sequence[Result],
    ends: Iterable[EndResult],
    manual: EndResult,
    loads: dict[str, float],
    chosen: SpeechSettings,
    shipped: SpeechSettings,
) -> list[str]:
    same = "those that ship" if _thresholds(chosen) == _thresholds(shipped) else (
        f"NOT those that ship: {_words(shipped)}"
    )  # fmt: skip
    lines = [
        f"thresholds {_words(chosen)} ({same})",
        "pauses, false: a minute, outside of speech; latency to the pause and to the proof: ms, "
        "p50 / p95;",
        "already: a false alarm was still on; lost: samples of the beginning, worst; of coughs "
        "and backchannels",
        "the missed ones are right",
        "",
        HEAD,
        *(row(each) for each in results),
    ]
    if compared:
        lines += ["", "the echo, by canceller", HEAD, *(row(each, True) for each in compared)]
    lines += ["", *end_table(ends, manual), ""]
    lines += [f"{name}: {load:.1%} of a core" for name, load in loads.items()]
    return lines


def end_table(ends: Iterable[EndResult], manual: EndResult) -> list[str]:
    found = {(each.end_s, each.pause_s): each for each in ends}
    lines = [
        "turns ended in the pause of a self-correction, by the silence that ends a turn",
        f"{'':>14}" + "".join(f"{f'pause {pause:g} s':>14}" for pause in PAUSES_S)
        + f"{'end delay':>14}",
    ]  # fmt: skip
    for end_s in END_S:
        cells = [found.get((end_s, pause)) for pause in PAUSES_S]
        delays = [delay for cell in cells if cell is not None for delay in cell.delay]
        lines.append(
            f"{f'silence {end_s:g} s':>14}"
            + "".join(f"{f'{cell.false} of {cell.turns}' if cell else '-':>14}" for cell in cells)
            + f"{milliseconds(delays):>14}"
        )
    return [*lines, f"{'manual':>14}" + f"{f'{manual.false} of {manual.turns}':>14}"]


def _thresholds(settings: SpeechSettings) -> dict[str, object]:
    return {name: value for name, value in asdict(settings).items() if name != "end"}


def _words(settings: SpeechSettings) -> str:
    suspect, confirm = settings.suspect, settings.confirm
    return (
        f"suspect {suspect.k} of {suspect.n}, confirm {confirm.k} of {confirm.n}, dismiss "
        f"{settings.dismiss}, {settings.above_floor_db:g} dB above the floor"
    )
