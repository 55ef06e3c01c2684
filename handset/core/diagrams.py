"""The tables of the state machines as Mermaid diagrams: ``STATES.md`` beside this file.

``python -m handset.core.diagrams`` prints the page; a test compares it with the file.
"""

from __future__ import annotations

from collections.abc import Iterable

from handset.core import session, turn

Edge = tuple[str, str, str]
"""From, to, and what is written on the arrow."""


def _turn_edges() -> list[Edge]:
    return [
        (before.value, after.value, f"{what.value} / {', '.join(actions).replace('_', ' ')}")
        for (before, what), (after, actions) in turn.TABLE.items()
    ]


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
    machines = [
        ("The turn", "turn", mermaid(turn.TurnState.IDLE.value, _turn_edges())),
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
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    print(page(), end="")
