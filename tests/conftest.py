"""Skips what belongs to a higher tier than the current one; see ``tiers``."""

from __future__ import annotations

import pytest
from tiers import TIER, TIERS


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        for tier in TIERS[TIERS.index(TIER) + 1 :]:
            if item.get_closest_marker(tier):
                item.add_marker(pytest.mark.skip(reason=f"runs at HANDSET_TIER={tier}"))
