"""Durable events: order, once, and settled only by the edge."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from handset.core.messages import Durable, Instant, TurnAbandoned
from handset.core.outbox import Outbox


def event(name: str) -> TurnAbandoned:
    at = Instant(0, "boot")
    return TurnAbandoned(
        event_id=name, session="s", origin_epoch=None, at=at, domain="turn", reason="cancelled"
    )


def names(events: list[Durable] | tuple[Durable, ...]) -> list[str]:
    return [each.event_id for each in events]


def numbers(events: list[Durable] | tuple[Durable, ...]) -> list[tuple[str, int]]:
    return [(each.outbox_id, each.seq) for each in events]


def test_numbers_follow_the_order_of_making() -> None:
    box = Outbox("x")
    added = box.add([event("a"), event("b")])
    added += box.add([event("c")])
    assert numbers(added) == [("x", 1), ("x", 2), ("x", 3)]
    assert names(box.pending()) == ["a", "b", "c"]


def test_the_same_fact_is_kept_once() -> None:
    box = Outbox("x", settled=["old"])
    assert names(box.add([event("a"), event("a"), event("old")])) == ["a"]
    box.acknowledge("x", 1)
    assert box.add([event("a")]) == ()
    assert numbers(box.add([event("b")])) == [("x", 2)]


def test_what_an_earlier_run_left_goes_first_under_its_own_numbers() -> None:
    before = Outbox("x")
    left = before.add([event("a"), event("b"), event("c")])[1:]
    box = Outbox("y", left)
    box.add([event("d"), event("b")])
    assert numbers(box.pending()) == [("x", 2), ("x", 3), ("y", 1)]
    assert box.acknowledge("y", 1) == ["d"]
    assert box.acknowledge("x", 3) == ["b", "c"]
    assert len(box) == 0


def test_an_acknowledgement_settles_a_prefix_and_what_was_applied_above_it() -> None:
    box = Outbox("x")
    box.add([event(name) for name in "abcde"])
    assert box.acknowledge("x", 2, ["d"]) == ["a", "b", "d"]
    assert names(box.pending()) == ["c", "e"]
    assert box.acknowledge("x", 2, ["d"]) == []
    assert box.acknowledge("z", 5) == []


def test_an_acknowledgement_of_what_was_never_sent_is_refused() -> None:
    box = Outbox("x")
    box.add([event("a")])
    assert box.acknowledge("x", 2) == []
    assert (len(box), box.refused_acks) == (1, 1)


def test_a_rejection_settles_one_event() -> None:
    box = Outbox("x")
    box.add([event("a"), event("b")])
    assert box.reject("a") is not None
    assert box.reject("a") is None
    assert names(box.pending()) == ["b"]
    assert numbers(box.add([event("c")])) == [("x", 3)]


@given(st.lists(st.tuples(st.sampled_from("aar"), st.integers(0, 12)), max_size=40))
def test_nothing_is_lost_and_nothing_comes_twice(steps: list[tuple[str, int]]) -> None:
    """Whatever is added, acknowledged and rejected: pending or settled, never both."""
    box = Outbox("x")
    made: list[str] = []
    settled: list[str] = []
    for what, n in steps:
        if what == "a":
            added = box.add([event(f"e{n}"), event(f"f{len(made)}")])
            made += names(added)
            settled += box.acknowledge("x", n)
        elif (gone := box.reject(f"e{n}")) is not None:
            settled.append(gone.event_id)
    pending = names(box.pending())
    assert sorted(pending + settled) == sorted(made)
    assert len(set(made)) == len(made)
    seqs = [each.seq for each in box.pending()]
    assert seqs == sorted(seqs)
