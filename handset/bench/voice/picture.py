"""The result of the bench as an SVG: false barge-ins and misses per condition, latencies, and
what a silence costs those who pause."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from xml.sax.saxutils import escape

import numpy as np

from handset.bench.voice.measure import END_S, EndResult, Result
from handset.bench.voice.scenes import PAUSES_S
from handset.bench.voice.voices import RATE

WIDTH, ROW, LEFT = 900, 20, 250
GOOD, BAD, PALE, INK = "#2a7f62", "#c0392b", "#d9e4e0", "#222222"
SPAN_MS = 2_000
NO_SPEECH = ("coughs", "backchannels")
"""What is found of them is too much."""


def svg(results: Iterable[Result], ends: Iterable[EndResult], manual: EndResult) -> str:
    rows = list(results)
    parts: list[str] = []
    y = 30
    parts.append(
        _text(
            10,
            y,
            "Taken for an interruption, false barge-ins a minute, latency to pause and proof",
            15,
        )
    )
    y += 14
    for x, words in (
        (LEFT, "found"),
        (LEFT + 110, "false/min"),
        (LEFT + 200, "ms after the onset, pause (amber) and proof (green): p50, pale: p95"),
    ):
        parts.append(_text(x, y + 10, words, 10))
    parts.append(_text(WIDTH - 60, y + 10, f"{SPAN_MS / 1000:g} s", 10))
    y += 16
    for each in rows:
        parts += _row(each, y)
        y += ROW
    y += 30
    parts.append(_text(10, y, "Turns ended in the pause of a self-correction", 15))
    y += 22
    parts += _ends({(e.end_s, e.pause_s): e for e in ends}, manual, y)
    height = y + (len(END_S) + 2) * 26 + 10
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
        f'font-family="sans-serif"><rect width="100%" height="100%" fill="white"/>\n'
        + "\n".join(parts)
        + "\n</svg>\n"
    )


def _row(each: Result, y: int) -> list[str]:
    parts = [_text(10, y + 14, each.name, 12)]
    if each.events:
        found = each.confirmed / each.events
        parts.append(_box(LEFT, y + 4, 100, 12, PALE))
        good = each.confirmed == 0 if each.name in NO_SPEECH else each.missed == 0
        parts.append(_box(LEFT, y + 4, 100 * found, 12, GOOD if good else BAD))
    if each.minutes > 0:
        rate = each.false_confirmed / each.minutes
        parts.append(_text(LEFT + 112, y + 14, f"{rate:.1f}", 12, GOOD if rate == 0 else BAD))
    first, scale = LEFT + 200, (WIDTH - LEFT - 240) / SPAN_MS
    for samples, colour, at in ((each.latency, "#e0a030", 4), (each.to_confirm, GOOD, 11)):
        if samples:
            p50, p95 = np.percentile(samples, [50, 95]) * 1000 / RATE
            parts.append(_box(first, y + at, min(p95, SPAN_MS) * scale, 5, PALE))
            parts.append(_box(first, y + at, min(p50, SPAN_MS) * scale, 5, colour))
    return parts


def _ends(found: dict[tuple[float, float], EndResult], manual: EndResult, y: int) -> Sequence[str]:
    parts = [
        _text(LEFT + column * 110, y, f"pause {pause:g} s", 11)
        for column, pause in enumerate(PAUSES_S)
    ]
    for line, end_s in enumerate(END_S):
        top = y + 8 + line * 26
        parts.append(_text(10, top + 16, f"silence of {end_s:g} s ends it", 12))
        for column, pause in enumerate(PAUSES_S):
            each = found.get((end_s, pause))
            if each is not None and each.turns:
                parts += _cell(LEFT + column * 110, top, each.false, each.turns)
    top = y + 8 + len(END_S) * 26
    parts.append(_text(10, top + 16, "manual: a gesture ends it", 12))
    return parts + _cell(LEFT, top, manual.false, manual.turns)


def _cell(x: float, y: float, false: int, turns: int) -> list[str]:
    colour = GOOD if false == 0 else BAD
    return [
        f'<rect x="{x}" y="{y}" width="104" height="22" fill="{colour}" '
        f'fill-opacity="{0.25 + 0.75 * false / max(turns, 1):.2f}"/>',
        _text(x + 8, y + 15, f"{false} of {turns}", 11),
    ]


def _box(x: float, y: float, width: float, height: float, colour: str) -> str:
    return f'<rect x="{x}" y="{y}" width="{width:.1f}" height="{height}" fill="{colour}"/>'


def _text(x: float, y: float, words: str, size: int, colour: str = INK) -> str:
    return f'<text x="{x}" y="{y}" font-size="{size}" fill="{colour}">{escape(words)}</text>'
