"""Edges from threads of controls: none lost, in order, each at its place in the capture."""

from __future__ import annotations

import os
import threading

from handset.core import events as ev
from handset.core.keys import Key
from handset.core.messages import Estimate
from handset.intake import Intake

EDGES = 5_000


def test_a_slow_consumer_loses_nothing() -> None:
    wake = os.eventfd(0, os.EFD_NONBLOCK)
    intake = Intake(wake)

    def hand(name: str) -> None:
        for n in range(EDGES):
            intake.level(name, Key.TALK, n % 2 == 0, n)

    hands = [threading.Thread(target=hand, args=(name,)) for name in "abc"]
    for each in hands:
        each.start()
    for each in hands:
        each.join()
    assert os.eventfd_read(wake) == 3 * EDGES
    taken = intake.drain(lambda ns: Estimate(ns, ns, ns))
    os.close(wake)
    for name in "abc":
        mine = [e for e in taken if isinstance(e, ev.KeyLevel) and e.control == name]
        assert [e.at_ns for e in mine] == list(range(EDGES))
        assert all(e.sample == Estimate(e.at_ns, e.at_ns, e.at_ns) for e in mine)
    assert intake.drain(lambda ns: None) == []


def test_everything_else_keeps_its_place_among_the_edges() -> None:
    intake = Intake()
    intake.back("b", 1, frozenset({Key.TALK}))
    intake.level("b", Key.TALK, False, 2)
    intake.fact("b", "battery", 5)
    intake.lost("b", 3, "unplugged")
    assert intake.drain(lambda ns: None) == [
        ev.ControlThere("b", 1, frozenset({Key.TALK})),
        ev.KeyLevel("b", Key.TALK, False, 2, None),
        ev.ControlTold("b", "battery", 5),
        ev.ControlGone("b", 3, "unplugged"),
    ]
