"""The tables of the state machines as Mermaid diagrams: ``STATES.md`` beside this file.

``python -m handset.core.diagrams`` prints the page; a test compares it with the file.
"""

from __future__ import annotations

from collections.abc import Iterable

from handset.core import session, speech, turn
from handset.core.gestures import GESTURES
from handset.core.keys import Gesture

Edge = tuple[str, str, str]
"""From, to, and what is written on the arrow."""


def _turn_edges(gestures: bool) -> list[Edge]:
    """By gestures, or by the voice, time and faults. Rows that do the same share an arrow."""
    shared: dict[tuple[str, str, str], list[str]] = {}
    for (before, what), (after, actions) in turn.TABLE.items():
        if (what in turn.GESTURES) == gestures:
            does = ", ".join(actions).replace("_", " ") or "-"
            shared.setdefault((before.value, after.value, does), []).append(what.value)
    return [
        (before, after, f"{' or '.join(whats)} / {does}")
        for (before, after, does), whats in shared.items()
    ]


def _speech_edges() -> list[Edge]:
    return [
        (before.value, after.value, f"{what.value} / {action}")
        for (before, what), (after, action) in speech.TABLE.items()
    ]


def gesture_matrix() -> str:
    """The gesture table: what each does to the turn, and beside it."""
    lines = [
        f"| | {' | '.join(gesture.value for gesture in Gesture)} |",
        f"|---{'|---' * len(Gesture)}|",
    ]
    for state in turn.TurnState:
        cells = []
        for gesture in Gesture:
            cell = GESTURES[state, gesture]
            parts = []
            if cell.turn is not None:
                following, actions = turn.TABLE[state, cell.turn]
                does = ", ".join(actions).replace("_", " ") or "-"
                parts.append(f"{does} → **{following.value}**")
            if cell.beside.value:
                parts.append(cell.beside.value)
            cells.append("; ".join(parts) or "·")
        lines.append(f"| **{state.value}** | {' | '.join(cells)} |")
    return "\n".join(lines)


def _session_edges() -> list[Edge]:
    return [
        (before.value, after.value, what.value) for (before, what), after in session.TABLE.items()
    ]


def mermaid(first: str, edges: Iterable[Edge], last: Iterable[str] = ()) -> str:
    """A state diagram. ``first``: where it begins; ``last``: where it stays."""
    lines = ["stateDiagram-v2", f"    [*] --> {first}"]
    lines += [f"    {before} --> {after}: {label}" for before, after, label in edges]
    lines += [f"    {state} --> [*]" for state in last]
    return "\n".join(lines)


def page() -> str:
    idle = turn.TurnState.IDLE.value
    machines = [
        ("The turn: gestures", "turn", mermaid(idle, _turn_edges(gestures=True))),
        ("The turn: voice, time and faults", "turn", mermaid(idle, _turn_edges(gestures=False))),
        ("Speech", "speech", mermaid(speech.SpeechState.IDLE.value, _speech_edges())),
        (
            "The session",
            "session",
            mermaid(
                session.SessionState.WAITING.value,
                _session_edges(),
                [session.SessionState.ENDED.value],
            ),
        ),
    ]
    parts = ["# State machines", "Made from the tables by `handset/core/diagrams.py`."]
    for title, module, diagram in machines:
        parts += [
            f"## {title}",
            f"`handset/core/{module}.py`. What has no arrow changes nothing.",
            f"```mermaid\n{diagram}\n```",
        ]
    parts += [
        "## Gestures",
        "`handset/core/gestures.py`: what each gesture does in each state of the turn, and "
        "beside it. · is nothing.",
        gesture_matrix(),
    ]
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    print(page(), end="")
