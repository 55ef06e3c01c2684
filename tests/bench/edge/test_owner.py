"""The session owner: admission, refusals, and every event once, in every order of arrival."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations, product
from typing import Any

import pytest

from handset.bench.edge.effects import Attach, Continue, Effect, Generate, Send, StopItems
from handset.bench.edge.lives import RESPONSE, TURN, Response, Turn
from handset.bench.edge.owner import Owner
from handset.bench.edge.session import ASK_AFTER_NS, ASK_AGAIN_NS
from handset.core import messages as m
from handset.core.packets import Malformed

AT = m.Instant(1, "boot")
LENGTH = 48_000


class Captures:
    def __init__(self) -> None:
        self.holes: list[m.Span] = []

    def missing(self, span: m.Span) -> list[m.Span]:
        return self.holes


class Ids:
    def __init__(self) -> None:
        self.count = 0

    def __call__(self, kind: str) -> str:
        self.count += 1
        return f"{kind}{self.count}"


def hello(epoch: int = 1, **fields: Any) -> m.Hello:
    return m.Hello(
        handset_id="h",
        label="h",
        software="s",
        protocol=fields.pop("protocol", m.Versions(1, 1)),
        boot_id="boot",
        epoch=epoch,
        outbox_id="box",
        unacknowledged=fields.pop("unacknowledged", 0),
        capabilities=[],
        output_route="r",
        output_rate=48_000,
        **fields,
    )


class Bench:
    """An owner with one session, turn 1 committed and answered by one item of a second."""

    def __init__(self, answered: bool = True) -> None:
        self.captures = Captures()
        self.owner = Owner(self.captures, Ids())
        self.sent(self.owner.handle(1, hello(), 0))
        assert self.owner.session is not None
        self.session = self.owner.session
        if answered:
            self.take(self.event(m.TurnStarted, 1, **STARTED))
            effects = self.take(self.event(m.Commit, 2, **COMMITTED))
            (self.response,) = [e.response_id for e in effects if isinstance(e, Generate)]
            self.add_item("item")

    def add_item(self, item_id: str) -> None:
        self.session.history.begin(item_id, self.response, 1, 1000, "one two", None)
        self.session.history.grow(item_id, 1000, ended=True)

    def event(self, kind: type[m.Durable], seq: int, **fields: Any) -> m.Durable:
        return kind(
            event_id=fields.pop("event_id", f"{kind.__name__}{seq}"),
            session=fields.pop("session", self.session.session_id),
            origin_epoch=1,
            at=AT,
            domain="turn",
            outbox_id=fields.pop("outbox_id", "box"),
            seq=seq,
            **fields,
        )

    def take(self, event: m.Durable, now_ns: int = 0, connection: int = 1) -> list[Effect]:
        return self.owner.handle(connection, event, now_ns)

    @staticmethod
    def sent(effects: list[Effect]) -> list[Any]:
        return [effect.message for effect in effects if isinstance(effect, Send)]

    def ack(self, outbox_id: str = "box") -> m.EventAck:
        return next(ack for ack in self.owner.acks() if ack.outbox_id == outbox_id)

    def cut(self, seq: int) -> list[m.Durable]:
        """A clear with what belongs to it, and the next turn's beginning."""
        cursor = m.ItemCursor(
            item_id="item",
            response_id=self.response,
            content_index=0,
            rate=1000,
            state="cleared",
            received=600,
            handed=400,
            dropped=200,
            queued=0,
            played=400,
            exact=True,
            audio_end_ms=400,
        )
        cleared = self.event(
            m.PlayoutCleared,
            seq,
            request=1,
            causes=[],
            responses=[self.response],
            items=[cursor],
            cut_ns=0,
        )
        truncate = self.event(
            m.Truncate,
            seq + 1,
            item_id="item",
            content_index=0,
            audio_end_ms=400,
            played=400,
            exact=True,
            cleared=cleared.event_id,
        )
        receipt = self.event(m.PlayoutReceipt, seq + 2, state="cleared", cursor=cursor)
        started = self.event(m.TurnStarted, seq + 3, **{**STARTED, "turn": 2})
        return [cleared, truncate, receipt, started]


STARTED = {"turn": 1, "source": "ptt", "capture_start": 0, "pre_roll": 0}
COMMITTED = {"turn": 1, "commit": m.CommitBy("ptt"), "capture": m.Span(0, LENGTH)}


def outcome(bench: Bench) -> tuple[Any, ...]:
    session = bench.session
    return (
        session.history.view(),
        {number: turn.state for number, turn in session.turns.items()},
        {key: record.state for key, record in session.responses.items()},
        sorted(session.receipts),
        session.clears,
        bench.ack(),
    )


def test_each_event_has_one_effect_in_every_order_and_with_every_copy() -> None:
    straight = Bench()
    for event in straight.cut(3):
        straight.take(event)
    wanted = outcome(straight)
    assert wanted[-1] == m.EventAck(outbox_id="box", seq=6)
    orders = set(permutations(range(4))) | set(product(range(4), repeat=5))
    tried = 0
    for order in orders:
        bench = Bench()
        events = bench.cut(3)
        for position, index in enumerate(order):
            bench.take(events[index])
            arrived = {events[i].seq for i in order[: position + 1]} | {1, 2}
            assert arrived >= set(range(1, bench.ack().seq + 1)), "nothing unseen is acknowledged"
            assert bench.ack().seq + 1 not in arrived, "and no less than what has no hole"
        if set(order) == {0, 1, 2, 3}:
            tried += 1
            assert outcome(bench) == wanted, order
            applied = [a for a in bench.owner.arrivals if a.outcome == "applied"]
            assert len({a.event.event_id for a in applied}) == len(applied) == 6, order
    assert tried == 24 + 240


def test_only_clears_and_truncates_overtake() -> None:
    bench = Bench()
    cleared, truncate, receipt, started = bench.cut(3)
    for event in (started, receipt):
        bench.take(event)
    assert bench.ack() == m.EventAck(outbox_id="box", seq=2)
    assert 2 not in bench.session.turns and bench.session.receipts == {}
    bench.take(truncate)
    assert bench.ack() == m.EventAck(outbox_id="box", seq=2, applied=[truncate.event_id])
    assert bench.session.history.view()[1].text == ""
    bench.take(cleared)
    assert bench.ack() == m.EventAck(outbox_id="box", seq=6)
    assert 2 in bench.session.turns


@pytest.mark.parametrize("kept", list(product([True, False], repeat=4)))
def test_lost_acknowledgements_and_a_new_connection_change_nothing(kept: tuple[bool, ...]) -> None:
    """Events whose acknowledgement was lost come again, from the same or a new outbox."""
    bench = Bench()
    events = bench.cut(3)
    for event in events:
        bench.take(event)
    wanted = outcome(bench)[:-1]
    again = [event for event, lost in zip(events, kept, strict=True) if lost]
    token = bench.session.token
    resume = m.Resume(bench.session.session_id, token)
    bench.owner.handle(2, hello(2, resume=resume, unacknowledged=len(again)), 0)
    for seq, event in enumerate(again, 1):
        bench.take(event, connection=2)
        bench.take(replace(event, outbox_id="after the crash", seq=seq), connection=2)
    assert outcome(bench)[:-1] == wanted
    if again:
        assert bench.ack("after the crash").seq == len(again)


def test_a_rejection_uses_its_number_up_and_is_repeated_word_for_word() -> None:
    bench = Bench()
    bad = bench.event(
        m.Truncate,
        3,
        item_id="item",
        content_index=0,
        audio_end_ms=1001,
        played=1001,
        exact=True,
        cleared="c",
    )
    first = bench.sent(bench.take(bad))
    assert first == bench.sent(bench.take(bad))
    rejected, ack = first
    assert (rejected.code, rejected.limit_ms, rejected.seq) == ("beyond_end", 1000, 3)
    assert ack == m.EventAck(outbox_id="box", seq=3)
    retry = replace(bad, event_id="t2", seq=4, audio_end_ms=1000, played=1000, supersedes="t1")
    assert [type(message) for message in bench.sent(bench.take(retry))] == [m.EventAck]


def test_events_of_an_unknown_session_are_settled_and_have_no_effect() -> None:
    bench = Bench()
    before = outcome(bench)[:-1]
    stray = bench.event(m.TurnStarted, 3, session="forgotten", **{**STARTED, "turn": 7})
    assert bench.sent(bench.take(stray)) == [m.EventAck(outbox_id="box", seq=3)]
    assert outcome(bench)[:-1] == before
    assert bench.owner.counters["events_orphaned"] == 1


def test_an_ended_session_still_takes_its_events_and_gives_no_answer() -> None:
    bench = Bench()
    bench.take(bench.event(m.Shutdown, 3, cause="off"))
    assert bench.session.responses[bench.response].state is Response.CANCELLED
    bench.owner.handle(2, hello(2), 0)
    assert bench.owner.session is not bench.session
    bench.take(bench.event(m.TurnStarted, 4, **{**STARTED, "turn": 2}), connection=2)
    effects = bench.take(bench.event(m.Commit, 5, **{**COMMITTED, "turn": 2}), connection=2)
    assert not any(isinstance(effect, Generate) for effect in effects)
    assert bench.session.turns[2].state is Turn.ADMITTED


def test_an_outbox_of_before_this_edge_goes_on_where_it_is() -> None:
    bench = Bench()
    old = [
        bench.event(m.TurnStarted, seq, outbox_id="old", **{**STARTED, "turn": seq})
        for seq in (500, 501, 503)
    ]
    resume = m.Resume(bench.session.session_id, bench.session.token)
    bench.owner.handle(2, hello(2, resume=resume, unacknowledged=3), 0)
    bench.take(old[0], connection=2)
    assert bench.ack("old").seq == 500
    bench.take(old[1], connection=2)
    bench.take(old[2], connection=2)
    assert bench.ack("old").seq == 503, "all it announced is there: 502 was settled elsewhere"
    assert {500, 501, 503} <= set(bench.session.turns)
    late = bench.event(m.TurnStarted, 499, outbox_id="old", **{**STARTED, "turn": 499})
    bench.take(late, connection=2)
    assert 499 in bench.session.turns and bench.ack("old").seq == 503


def test_a_commit_is_admitted_when_its_capture_is_whole_and_not_before() -> None:
    bench = Bench(answered=False)
    bench.captures.holes = [m.Span(960, 1920), m.Span(9600, 10_560)]
    bench.take(bench.event(m.TurnStarted, 1, **STARTED))
    assert [type(x) for x in bench.sent(bench.take(bench.event(m.Commit, 2, **COMMITTED)))] == [
        m.EventAck
    ]
    assert bench.sent(bench.owner.poll(ASK_AFTER_NS - 1)) == []
    (asked,) = bench.sent(bench.owner.poll(ASK_AFTER_NS))
    assert asked == m.CaptureMissing(turn=1, ranges=bench.captures.holes)
    bench.captures.holes = bench.captures.holes[1:]
    assert bench.sent(bench.owner.poll(ASK_AFTER_NS + ASK_AGAIN_NS)) == [], "some came just now"
    (again,) = bench.sent(bench.owner.poll(ASK_AFTER_NS + 2 * ASK_AGAIN_NS))
    assert again.ranges == bench.captures.holes
    assert bench.session.history.view() == []
    bench.captures.holes = []
    effects = bench.owner.poll(ASK_AFTER_NS + 2 * ASK_AGAIN_NS)
    assert bench.sent(effects) == [m.CaptureReceived(turn=1, samples=LENGTH)]
    assert [effect.nth for effect in effects if isinstance(effect, Generate)] == [0]
    assert [entry.role for entry in bench.session.history.view()] == ["user"]


def test_nothing_acts_on_a_turn_that_is_lost_though_its_packets_come_later() -> None:
    bench = Bench(answered=False)
    bench.captures.holes = [m.Span(0, 960)]
    bench.take(bench.event(m.TurnStarted, 1, **STARTED))
    bench.take(bench.event(m.Commit, 2, **COMMITTED))
    bench.take(bench.event(m.CaptureLost, 3, turn=1, ranges=[m.Span(0, 960)]))
    bench.captures.holes = []
    assert bench.owner.poll(10 * ASK_AGAIN_NS) == []
    assert bench.session.turns[1].state is Turn.LOST
    assert bench.session.history.view() == []


def test_a_committed_turn_can_not_be_abandoned_and_an_abandoned_one_not_committed() -> None:
    bench = Bench()
    (refused, _) = bench.sent(
        bench.take(bench.event(m.TurnAbandoned, 3, turn=1, reason="cancelled"))
    )
    assert refused.code == "turn_state"
    bench.take(bench.event(m.TurnAbandoned, 4, turn=2, reason="cancelled"))
    (refused, _) = bench.sent(bench.take(bench.event(m.Commit, 5, **{**COMMITTED, "turn": 2})))
    assert refused.code == "turn_state"
    assert bench.session.turns[2].state is Turn.ABANDONED


@pytest.mark.parametrize("span", [m.Span(5, 4), m.Span(-1, 5), m.Span(0, 1 << 40)])
def test_an_impossible_range_is_refused(span: m.Span) -> None:
    bench = Bench(answered=False)
    commit = bench.event(m.Commit, 1, **{**COMMITTED, "capture": span})
    assert bench.sent(bench.take(commit))[0].code == "malformed"


def test_items_the_report_of_a_clear_does_not_name_leave_the_view() -> None:
    bench = Bench()
    bench.add_item("not announced")
    cleared = bench.cut(3)[0]
    effects = bench.take(cleared)
    assert StopItems(bench.response, end=False) in effects
    assert [entry.item_id for entry in bench.session.history.view()] == [None, "item"]


def test_a_cursor_that_does_not_add_up_is_refused_whole() -> None:
    bench = Bench()
    before = outcome(bench)[:-1]
    cleared, _, receipt, _ = bench.cut(3)
    assert isinstance(cleared, m.PlayoutCleared) and isinstance(receipt, m.PlayoutReceipt)
    for wrong in ({"dropped": 199}, {"audio_end_ms": 401}, {"played": 401}, {"handed": -1}):
        bad = replace(receipt.cursor, **wrong)
        bench = Bench()
        assert bench.sent(bench.take(replace(cleared, items=[bad])))[0].seq == 3
        assert bench.sent(bench.take(replace(receipt, seq=4, cursor=bad)))[0].seq == 4
        assert outcome(bench)[:-1] == before


def test_there_is_one_final_receipt() -> None:
    bench = Bench()
    for event in bench.cut(3):
        bench.take(event)
    second = replace(bench.cut(7)[2], event_id="second", seq=7)
    assert bench.sent(bench.take(second))[0].code == "second_final"


def test_audio_is_taken_up_when_the_backlog_is_settled() -> None:
    bench = Bench()
    resume = m.Resume(bench.session.session_id, bench.session.token, [m.ResumeItem("item", 7)])
    effects = bench.owner.handle(2, hello(2, resume=resume, unacknowledged=2), 0)
    assert not any(isinstance(effect, Attach) for effect in effects)
    cleared, truncate, *_ = bench.cut(3)
    for event in (cleared, cleared):
        assert not any(isinstance(e, Attach) for e in bench.take(event, connection=2))
    effects = bench.take(truncate, connection=2)
    assert Attach(2, bench.session.session_id, {"item": 7}) in effects
    assert not any(isinstance(e, Attach) for e in bench.take(truncate, connection=2))


def test_a_session_is_resumed_with_its_newest_token_only() -> None:
    bench = Bench()
    token = bench.session.token
    resume = m.Resume(bench.session.session_id, token)
    (welcome,) = bench.sent(bench.owner.handle(2, hello(2, resume=resume), 0))
    assert welcome.resumed and welcome.resume_token != token
    (refused,) = bench.sent(bench.owner.handle(3, hello(3, resume=resume), 0))
    assert refused.code == "forgotten"
    stale = replace(resume, token=welcome.resume_token)
    with pytest.raises(Malformed, match="epoch 2 after epoch 2"):
        bench.owner.handle(3, hello(2, resume=stale), 0)


@pytest.mark.parametrize("versions", [m.Versions(2, 3), m.Versions(0, 0), m.Versions(1, 0)])
def test_a_refusal_of_the_protocol_names_both_ranges(versions: m.Versions) -> None:
    owner = Owner(Captures(), Ids())
    (refused,) = Bench.sent(owner.handle(1, hello(protocol=versions), 0))
    assert refused.code == "protocol" and refused.protocol == m.Versions(1, 1)
    assert f"{versions.min} to {versions.max}" in refused.reason
    (welcome,) = Bench.sent(owner.handle(1, hello(protocol=m.Versions(0, 9)), 0))
    assert welcome.protocol == 1


def test_what_has_no_place_is_malformed_and_changes_nothing() -> None:
    bench = Bench()
    ping = m.ClockPing(id=1, sent_ns=2)
    before = outcome(bench)
    for connection, message in (
        (9, ping),
        (1, hello()),
        (1, m.ResponseCancel(response_id="never")),
        (1, m.CaptureMap(epoch=2, ssrc=1, rtp_ts=0, capture_sample=0, lookahead=0)),
        (1, bench.event(m.TurnStarted, 0, **STARTED)),
    ):
        with pytest.raises(Malformed):
            bench.owner.handle(connection, message, 0)
    assert outcome(bench) == before
    assert Bench.sent(bench.owner.handle(1, ping, 5))[0].edge_received_ns == 5


def test_wanted_cancel_and_remote_clear() -> None:
    bench = Bench()
    wanted = bench.owner.handle(1, m.AudioWanted(item_id="item", next_packet=3), 0)
    assert wanted == [Continue(1, "item", 3)]
    effects = bench.owner.handle(1, m.ResponseCancel(response_id=bench.response), 0)
    assert StopItems(bench.response, end=True) in effects
    assert Bench.sent(effects)[0].status == "cancelled"
    effects = bench.owner.clear(bench.response, 0)
    assert Bench.sent(effects) == [m.OutputClear(response_id=bench.response)]
    with pytest.raises(KeyError):
        bench.owner.clear("never", 0)


def test_unprompted_speech_carries_the_highest_admitted_turn() -> None:
    bench = Bench()
    response_id, effects = bench.owner.say(0)
    assert effects == [Generate(response_id, 1, None)]


def test_the_tables_have_no_way_back() -> None:
    assert not any(state in (Turn.ADMITTED, Turn.ABANDONED, Turn.LOST) for state, _ in TURN)
    assert not any(state is Response.CLEARED for state, _ in RESPONSE)
    assert not any(following is Response.LIVE for following, _ in RESPONSE.values())
