"""How the bench looks: live while it runs, a table when it is over.

On a terminal the view is redrawn; anywhere else every event is a line of its own.
"""

from __future__ import annotations

import time
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from handset.bench import speech
from handset.bench.stage import Stage
from handset.bench.verdict import ItemResult, Verdict

BAR = 44
LINES = {
    "session.open": "connected to the bench edge",
    "turn.started": "button down: turn {turn} begins, pre-roll from capture sample {start}",
    "turn.committed": "turn {turn} committed by {source}: capture samples {start}..{end}",
    "capture.received": "turn {turn} received whole: {samples} samples",
    "response.created": "the edge answers turn {turn}",
    "item.announced": "a reply begins to arrive ({item})",
    "clear.asked": "playback is cut: clear {request} asked for by {cause}",
    "clear.answered": "clear {request} answered: {cursor} frames handed, {discarded} discarded",
}


def seconds(samples: int, rate: int) -> str:
    return f"{samples / rate:6.2f} s"


def event_line(stage: Stage, record: Any) -> str | None:
    """One event as a line with its time, None for those that are only numbers."""
    at = (record.at_ns - stage.started_ns) / 1e9
    if record.kind == "item.final":
        cursor = record.facts["cursor"]
        return (
            f"{at:8.3f} s  {cursor.item_id}: {cursor.state}, {cursor.played} of "
            f"{cursor.received} samples received were played"
        )
    text = LINES.get(record.kind)
    return None if text is None else f"{at:8.3f} s  {text.format(**record.facts)}"


def _bar(share: float, style: str) -> Text:
    full = round(min(max(share, 0.0), 1.0) * BAR)
    bar = Text("█" * full, style=style)
    bar.append("·" * (BAR - full), style="dim")
    return bar


def _cursors(name: str, length: int, rate: int, values: dict[str, int]) -> Table:
    styles = {"generated": "magenta", "sent": "blue", "received": "cyan", "played": "green"}
    table = Table.grid(padding=(0, 1))
    table.add_row(Text(name, style="bold"), "", "")
    for what, value in values.items():
        bar = _bar(value / length if length else 0, styles[what])
        table.add_row(f"  {what:<14}", bar, seconds(value, rate))
    return table


def live(stage: Stage) -> RenderableType:
    """Who speaks, the queue, and the cursors of the newest items."""
    headset = stage.app.headset
    at = (time.monotonic_ns() - stage.started_ns) / 1e9
    head = Text(f"{at:6.1f} s  ")
    if headset.turn.has_floor:
        head.append(" TALK ", style="bold white on red")
    else:
        head.append("      ")
    if stage.speaking:
        head.append(f'  operator: "{stage.speaking}"', style="yellow")
    elif headset.queued_ms > 0:
        head.append("  assistant is speaking", style="green")
    queue = Text.assemble(
        "  queue     ",
        _bar(headset.queued_ms / 8000, "cyan"),
        f" {headset.queued_ms / 1000:6.2f} s",
    )
    parts: list[RenderableType] = [head, queue]
    ledger = headset.playback.ledger
    for edge in stage.session.get("items", [])[-2:]:
        item = None
        if ledger is not None:
            item = ledger.items.get(edge["item_id"]) or ledger.closed.get(edge["item_id"])
        cursor = item.cursor() if item is not None else None
        values = {
            "generated": edge["generated"],
            "sent": max(edge["sent"], cursor.received if cursor else 0),
            "received": cursor.received if cursor else 0,
            "played": cursor.played if cursor else 0,
        }
        parts.append(_cursors(edge["clip"], edge["samples"], edge["rate"], values))
    return Panel(Group(*parts), title="Kelter handset bench", border_style="blue")


def _with_bounds(result: ItemResult) -> str:
    if result.at_press is None:
        return "-"
    p = result.at_press
    return f"{p.est} ({p.lo}..{p.hi})"


def _cell(samples: int, rate: int) -> str:
    return f"{samples}\n{samples / rate:.2f} s"


def item_table(verdict: Verdict) -> Table:
    table = Table(title="Per item: samples of the item, and seconds", title_justify="left")
    table.add_column("item", no_wrap=True)
    names = ("generated", "sent", "received", "handed", "played")
    for name in names:
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("at the press", justify="right", no_wrap=True)
    table.add_column("audio_end_ms", justify="right")
    table.add_column("words played", justify="right")
    table.add_column("", no_wrap=True)
    for result in verdict.items:
        words = len(result.words_played.split())
        table.add_row(
            result.clip or result.item_id,
            *(_cell(getattr(result, name), result.rate) for name in names),
            _with_bounds(result),
            str(result.audio_end_ms),
            f"{words} of {result.words_total}",
            result.state + ("" if result.exact else f" (at most {result.lost_max} fewer)"),
        )
    return table


def history_view(stage: Stage, verdict: Verdict) -> Table:
    """The history as the model will see it; what was not played is struck out beside it."""
    table = Table(title="The history as the model will see it", title_justify="left")
    table.add_column("role", no_wrap=True)
    table.add_column("text")
    table.add_column("not played, so not in the history", style="dim")
    said = {spoken.turn: speech.load(spoken.clip).text for spoken in stage.spoken}
    results = {result.item_id: result for result in verdict.items}
    for entry in verdict.history:
        if entry["role"] == "user":
            spoken = said.get(entry["turn"], "")
            text = Text(entry["text"])
            text.append(f'  what was said: "{spoken}"' if spoken else "", style="dim")
            table.add_row("user", text, "")
            continue
        result = results.get(entry["item_id"])
        rest = result.text[len(entry["text"]) :].strip() if result else ""
        text = Text(entry["text"], style="green")
        if entry["interrupted"]:
            text.append(" [interrupted]", style="red")
        table.add_row("assistant", text, Text(rest, style="strike dim"))
    return table


def checks_view(verdict: Verdict) -> Text:
    failed = [what for what, ok in verdict.checks if not ok]
    text = Text()
    for what in failed:
        text.append(f"FAILED  {what}\n", style="bold red")
    style = "bold green" if verdict.passed else "bold red"
    passed = len(verdict.checks) - len(failed)
    if verdict.xruns:
        text.append(f"the card ran dry {verdict.xruns} times: this machine is busy\n", "yellow")
    text.append(f"{passed} of {len(verdict.checks)} checks passed", style=style)
    return text


def final(console: Console, stage: Stage, verdict: Verdict) -> None:
    console.print(item_table(verdict))
    console.print(history_view(stage, verdict))
    console.print(checks_view(verdict))
