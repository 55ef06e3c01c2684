"""The claim that this product stands on: a cursor that is what was played, in every clear.

The accelerated card gives numbers, the one in real time, loaded and with the GIL held,
gives times as well. The checks are those of ``handset bench loopback``.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from handset.audio.stream import StreamSettings
from handset.bench.clears import Clear, Trials
from handset.bench.loads import BusyMachine, HeldGil
from handset.bench.loopback import judge, report
from handset.bench.rig import Rig

TIER = ("suite", "long", "campaign").index(os.environ.get("HANDSET_TIER", "suite"))
REAL_TIME = (100, 1_000, 10_000)[TIER]
ACCELERATED = (2_000, 5_000, 50_000)[TIER]
SPEED = 20.0


def assert_holds(rig: Rig, clears: list[Clear], accelerated: bool) -> None:
    timing = rig.stream.timing
    print("\n".join(report(clears, timing, accelerated)))
    checks = judge(clears, timing, rig.stream.grant.realtime, accelerated)
    assert [f"{check.name}: {check.says}" for check in checks if not check.good] == []


@pytest.mark.grows
@pytest.mark.timeout(60 + REAL_TIME)
def test_clears_in_real_time_under_load(rig: Rig) -> None:
    with BusyMachine(2), HeldGil(stall_ms=200, seed=1) as held:
        clears = list(Trials(rig, seed=1).run(REAL_TIME))
    assert len(clears) == REAL_TIME
    assert held.stalls > REAL_TIME // 5
    cut_short = sum(any(item.dropped for item in clear.items) for clear in clears)
    assert cut_short > REAL_TIME // 2
    assert_holds(rig, clears, accelerated=False)


@pytest.mark.grows
@pytest.mark.timeout(120 + ACCELERATED // 10)
def test_clears_on_the_accelerated_card(make_rig: Callable[..., Rig]) -> None:
    rig = make_rig(speed=SPEED)
    clears = list(Trials(rig, seed=2, speed=SPEED).run(ACCELERATED))
    assert len(clears) == ACCELERATED
    assert sum(clear.restarts == 0 for clear in clears) > ACCELERATED * 0.9
    assert_holds(rig, clears, accelerated=True)


@pytest.mark.parametrize("rate", [44_100, 16_000])
def test_clears_at_the_other_rates(rate: int, make_rig: Callable[..., Rig]) -> None:
    rig = make_rig(StreamSettings(rate=rate))
    assert_holds(rig, list(Trials(rig, seed=rate).run(15)), accelerated=False)
