"""Tiers of proof: the same tests at every tier, with counts as parameters.

``HANDSET_TIER`` is ``suite`` (default), ``long`` or ``campaign``.
"""

from __future__ import annotations

import os

TIERS = ("suite", "long", "campaign")
TIER = os.environ.get("HANDSET_TIER", "suite")
if TIER not in TIERS:
    raise ValueError(f"HANDSET_TIER is {TIER!r}; it is one of {', '.join(TIERS)}")


def count(suite: int, long: int, campaign: int) -> int:
    """How many repetitions the current tier asks for."""
    return (suite, long, campaign)[TIERS.index(TIER)]
