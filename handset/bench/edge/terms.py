"""What an edge asks of a session before the first word: set before, said in the welcome.

In a script: ``"require_manual": true``, ``"require_consent": true``, and ``"disclosure"``:
``{"id": "site-7", "clip": "yes-five", "text": "..."}`` is the edge's own, voiced by it;
``{"id": "site-7"}`` has the handset play the prompt it is shipped with.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class DisclosureTerms:
    """What has to be told first. ``clip`` voices it; without one there is no text either."""

    id: str
    clip: str | None = None
    text: str = ""


@dataclass(frozen=True, slots=True)
class Terms:
    """``require_manual``: no commit that silence decided; ``require_consent``: no capture that
    the wearer has not agreed to."""

    require_manual: bool = False
    require_consent: bool = False
    disclosure: DisclosureTerms | None = None


def parse_terms(body: dict[str, Any]) -> Terms:
    """From the fields of a script; ``ValueError`` says what is wrong with one."""
    for name in ("require_manual", "require_consent"):
        if not isinstance(body.get(name, False), bool):
            raise ValueError(f"{name} is true or false, not {body[name]!r}")
    return Terms(
        body.get("require_manual", False),
        body.get("require_consent", False),
        _disclosure(body.get("disclosure")),
    )


def _disclosure(body: object) -> DisclosureTerms | None:
    if body is None:
        return None
    if not isinstance(body, dict) or set(body) - {"id", "clip", "text"}:
        raise ValueError(f'a disclosure has "id", "clip" and "text", not {body!r}')
    if not all(isinstance(each, str) for each in body.values()) or not body.get("id"):
        raise ValueError(f"a disclosure has an id, and nothing but text: {body!r}")
    if "text" in body and "clip" not in body:
        raise ValueError(f"the disclosure {body['id']} has a text and no clip that voices it")
    return DisclosureTerms(body["id"], body.get("clip"), body.get("text", ""))
