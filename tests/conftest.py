"""Which tests run: the tier decides, and where everything was set up, nothing is left out.

``HANDSET_SET_UP=1`` (``image/test`` sets it) says that the setup script has installed all
that the tests need. Then a test that finds a tool missing has failed, not been skipped.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from tiers import TIER, TIERS

SET_UP = os.environ.get("HANDSET_SET_UP") == "1"
# What no setup can bring: another tier, another Debian release, rights, a real card.
MAY_BE_LEFT_OUT = (
    "runs at HANDSET_TIER=",
    "made with espeak-ng",
    "a root file system needs root",
    "no network namespaces here",
    "needs HANDSET_HW_DEVICE",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        for tier in TIERS[TIERS.index(TIER) + 1 :]:
            if item.get_closest_marker(tier):
                item.add_marker(pytest.mark.skip(reason=f"runs at HANDSET_TIER={tier}"))


def _of_a_higher_tier(item: pytest.Item) -> bool:
    return any(item.get_closest_marker(tier) for tier in TIERS[TIERS.index(TIER) + 1 :])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Iterator[pytest.TestReport]:
    report: pytest.TestReport = yield  # type: ignore[misc]
    if _of_a_higher_tier(item):  # what it lacks, its own tier's setup brings
        return report
    if SET_UP and report.skipped and isinstance(report.longrepr, tuple):
        reason = str(report.longrepr[2]).removeprefix("Skipped: ")
        if not reason.startswith(MAY_BE_LEFT_OUT):
            report.outcome = "failed"
            report.longrepr = f"left out although everything is set up: {reason}"
    return report  # type: ignore[return-value]
