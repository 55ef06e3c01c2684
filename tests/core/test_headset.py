"""The whole core: turns, cursors, the link and the end, joined."""

from __future__ import annotations

import numpy as np
import pytest
from headset_invariants import check, check_at_rest
from headset_rig import LOUD, MS, Rig, packet

from handset.core import events as ev
from handset.core import messages as msg
from handset.core.floor import CURSOR_PATIENCE_NS
from handset.core.headset import STOP_PATIENCE_NS
from handset.core.keys import Key
from handset.core.packets import ItemAudio, ItemStart


def kinds(events: list[msg.Durable]) -> list[str]:
    return [event.TYPE for event in events]


# ---- a turn and the cursor before it -------------------------------------------------------


def test_the_cursor_goes_out_before_the_commit() -> None:
    rig = Rig()
    rig.say("r", "a", 24_000)
    rig.play(14_400)
    rig.speak()
    said = kinds(rig.kept)
    assert said.index("conversation.item.truncate") < said.index("input_audio_buffer.commit")
    (commit,) = rig.of(msg.Commit)
    assert commit.cursor == "known"
    rig.run(100)
    check_at_rest(rig)


def hung_turn(rig: Rig) -> None:
    """A turn whose clear is not answered, because no callback runs."""
    rig.say("r", "a", 24_000)
    rig.play(14_400)
    rig.press()
    rig.card.hang(300 * MS)
    rig.release()
    rig.card.hang(300 * MS)
    rig.let_go()
    rig.tell(ev.CaptureReached(rig.position()))


def test_a_commit_waits_for_its_cursor() -> None:
    rig = Rig()
    hung_turn(rig)
    assert rig.of(msg.Commit) == []
    rig.step()
    assert rig.of(msg.Commit)[0].cursor == "known"
    said = kinds(rig.kept)
    assert said.index("playout.cleared") < said.index("input_audio_buffer.commit")


def test_a_commit_does_not_wait_for_ever() -> None:
    rig = Rig()
    hung_turn(rig)
    rig.card.hang(CURSOR_PATIENCE_NS)
    rig.tell(ev.Tick())
    assert rig.of(msg.Commit)[0].cursor == "pending"
    rig.run(100)
    assert rig.truncates() == {"a": 300}
    check_at_rest(rig)


def test_a_press_while_a_commit_waits_lets_it_go_first() -> None:
    """No commit is ever lost, or goes out behind the turn after it."""
    rig = Rig()
    hung_turn(rig)
    rig.press()
    assert [e.turn for e in rig.of(msg.TurnStarted)] == [1, 2]
    assert [(e.turn, e.cursor) for e in rig.of(msg.Commit)] == [(1, "pending")]
    rig.card.hang(300 * MS)
    rig.release()
    rig.card.hang(300 * MS)
    rig.tell(ev.CaptureReached(rig.position()))
    rig.run(600)
    assert [e.turn for e in rig.of(msg.Commit)] == [1, 2]
    check(rig)


def test_a_press_in_the_post_roll_commits_the_turn_before() -> None:
    rig = Rig()
    rig.press()
    rig.run(300)
    rig.release()
    rig.run(100)
    rig.press()
    (commit,) = rig.of(msg.Commit)
    started = rig.of(msg.TurnStarted)[1]
    assert commit.capture.end == started.capture_start
    rig.run(300)
    rig.release()
    rig.run(400)
    assert len(rig.of(msg.Commit)) == 2
    check_at_rest(rig)


def test_a_bounce_changes_nothing() -> None:
    rig = Rig()
    rig.say("r", "a", 24_000)
    rig.play(14_400)
    rig.press()
    for _ in range(9):
        rig.press()
    rig.card.hang(300 * MS)
    rig.release()
    rig.card.hang(300 * MS)
    rig.let_go()
    rig.tell(ev.CaptureReached(rig.position()))
    assert rig.of(msg.Commit) == []  # it still knows the clear that it waits for
    rig.step()
    assert len(rig.of(msg.TurnStarted)) == len(rig.of(msg.Commit)) == 1


def test_a_turn_goes_on_when_the_control_is_lost_and_comes_back() -> None:
    rig = Rig()
    rig.press()
    rig.run(200)
    rig.tell(ev.ControlGone("button", rig.now, "gone"))
    rig.run(2_000)
    assert kinds(rig.kept) == ["turn.started"]
    rig.press()
    rig.run(100)
    rig.release()
    rig.run(400)
    (commit,) = rig.of(msg.Commit)
    assert commit.commit.evidence["control_lost"] is True
    assert commit.capture.end - commit.capture.start > 2_300 * 48
    check_at_rest(rig)


def test_a_control_that_stays_away_commits_nothing() -> None:
    rig = Rig()
    rig.press()
    rig.run(200)
    rig.tell(ev.ControlGone("button", rig.now, "gone"))
    rig.run(31_000)
    assert rig.of(msg.TurnAbandoned)[0].reason == "control_lost"
    assert rig.of(msg.Commit) == []
    check_at_rest(rig)


@pytest.mark.parametrize("why", ["muted", "no microphone", "stopping"])
def test_a_press_that_can_not_be_a_turn_is_denied_and_says_why(why: str) -> None:
    rig = Rig()
    if why == "muted":
        rig.key(Key.MUTE, True)
    if why == "stopping":
        rig.tell(ev.Stop("update"))
    sample = None if why == "no microphone" else msg.Estimate(0, 0, 0)
    rig.tell(ev.KeyLevel("button", Key.TALK, True, rig.now, sample))
    denied = [e for e in rig.effects if isinstance(e, ev.Observe) and e.kind == "press.denied"]
    assert [e.facts["why"] for e in denied] == [why]
    assert rig.of(msg.TurnStarted) == []


def test_the_microphone_is_told_the_range() -> None:
    rig = Rig()
    rig.press()
    at = rig.position()
    rig.run(300)
    rig.release()
    end = rig.position()
    rig.run(400)
    begin = [e for e in rig.effects if isinstance(e, ev.BeginTurnAudio)]
    ends = [e for e in rig.effects if isinstance(e, ev.EndTurnAudio)]
    assert [(e.turn, e.start) for e in begin] == [(1, at - 14_400)]
    assert [(e.turn, e.end) for e in ends] == [(1, end + 12_000)]


def test_what_the_edge_misses_of_a_turn_is_sent_again() -> None:
    rig = Rig()
    rig.edge_says(msg.CaptureMissing(turn=3, ranges=[msg.Span(0, 960)]))
    rig.edge_says(msg.CaptureReceived(turn=3, samples=960))
    assert ev.ResendTurnAudio(3, (msg.Span(0, 960),)) in rig.effects
    assert ev.ForgetTurnAudio(3) in rig.effects


# ---- links and sessions ----------------------------------------------------------------------


def test_playing_goes_on_over_a_link_loss() -> None:
    rig = Rig()
    rig.say("r", "a", 48_000)
    rig.run(300)
    rig.lose_link()
    rig.headset.session._due_ns = rig.now + 3_000 * MS
    rig.run(2_500)
    assert rig.final_states() == {"a": "played"}
    assert [e.origin_epoch for e in rig.of(msg.PlayoutReceipt)] == [1, None]
    rig.run(600)
    rig.connect()
    rig.run(50)
    check_at_rest(rig)


def test_a_reconnect_asks_for_the_rest_and_drops_what_it_has() -> None:
    rig = Rig()
    rig.response("r")
    rig.start_item("a", "r")
    rig.audio("a", 4_800)
    rig.run(50)
    rig.lose_link()
    rig.run(300)
    rig.connect()
    resume = rig.sent_to_edge(msg.Hello)[-1].resume
    assert resume == msg.Resume("s1", "token", [msg.ResumeItem("a", 10)])
    rig.handles["a"] = 50
    rig.edge_audio(ItemStart(50, "a", 0, "r", 0, 24_000, 0))
    rig.edge_audio(ItemAudio(50, 8, tuple(packet(480) for _ in range(7))))
    rig.sent["a"] = 15
    rig.end_item("a", 7_200)
    rig.done("r")
    rig.run(500)
    assert rig.headset.playback.lane.fenced["duplicate"] == 2
    assert rig.finals()["a"].cursor.played == 7_200
    rig.run(2_200)
    check_at_rest(rig)


def test_a_hole_is_asked_for_again_on_another_connection() -> None:
    rig = Rig()
    rig.response("r")
    rig.start_item("a", "r")
    rig.edge_audio(ItemAudio(1, 5, (packet(480),)))
    rig.lose_link()
    rig.run(300)
    rig.connect()
    rig.edge_audio(ItemStart(9, "a", 0, "r", 0, 24_000, 0))
    rig.edge_audio(ItemAudio(9, 5, (packet(480),)))
    assert len(rig.sent_to_edge(msg.AudioWanted)) == 2


def test_what_was_made_without_a_link_is_sent_in_order_once_there_is_one() -> None:
    rig = Rig()
    rig.say("r", "a", 48_000)
    rig.run(300)
    rig.lose_link()
    rig.headset.session._due_ns = rig.now + 2_000 * MS
    rig.speak()
    rig.run(1_000)
    before = len(rig.edge.messages)
    rig.run(700)
    rig.connect()
    arrived = [m for _, m in rig.edge.messages[before:] if isinstance(m, msg.Durable)]
    assert [e.seq for e in arrived] == list(range(arrived[0].seq, rig.kept[-1].seq + 1))
    assert all(e.origin_epoch is None for e in arrived)
    rig.run(100)
    check_at_rest(rig)


def test_a_cursor_arrives_once_although_its_copies_do_too() -> None:
    rig = Rig(acks=False)
    rig.say("r", "a", 24_000)
    rig.play(14_400)
    rig.press()
    rig.run(300)
    copies = rig.sent_to_edge(msg.Truncate)
    assert len(copies) == 4  # at once, and at 0, 20 and 60 ms on the quick channel
    assert len({(e.event_id, e.seq) for e in copies}) == 1
    rig.edge.acknowledge_all()
    rig.serve()
    rig.run(300)
    assert len(rig.sent_to_edge(msg.Truncate)) == 4


def test_copies_stop_when_the_cursor_is_acknowledged() -> None:
    rig = Rig()
    rig.say("r", "a", 24_000)
    rig.play(14_400)
    rig.press()
    rig.run(300)
    assert len(rig.sent_to_edge(msg.Truncate)) <= 2


def test_what_is_unacknowledged_comes_before_new_audio() -> None:
    rig = Rig(acks=False)
    rig.say("r", "a", 24_000)
    rig.play(14_400)
    rig.clear_remotely("r")
    rig.run(100)
    rig.lose_link()
    rig.run(300)
    rig.connect()
    assert rig.sent_to_edge(msg.Hello)[-1].unacknowledged == len(rig.headset.outbox) > 0
    rig.say("s", "b", 4_800)
    rig.run(500)
    assert rig.final_states() == {"a": "cleared"}
    rig.edge.acknowledge_all()
    rig.serve()
    rig.run(400)
    assert rig.final_states() == {"a": "cleared", "b": "played"}
    rig.run(2_200)
    check_at_rest(rig)


def test_what_a_crash_left_is_acknowledged_first() -> None:
    before = Rig(acks=False)
    before.say("r", "a", 24_000)
    before.play(14_400)
    before.press()
    before.run(100)
    left = before.headset.outbox.pending()
    rig = Rig(pending=left, outbox_id="ob2", turn=1, first_clear=1)
    rig.run(50)
    assert len(rig.headset.outbox) == 0
    assert [e.event_id for e in rig.sent_to_edge(msg.Durable)] == [e.event_id for e in left]
    rig.say("s", "b", 4_800, turn=1)
    rig.play(4_800)
    rig.speak()
    assert rig.of(msg.TurnStarted)[0].turn == 2
    assert rig.of(msg.PlayoutCleared)[0].request == 2


def test_another_session_ends_what_the_old_one_said() -> None:
    """And what is told of it then is still told as of the old one."""
    rig = Rig()
    rig.say("r", "a", 48_000)
    rig.say("q", "b", 4_800)
    rig.run(300)
    rig.lose_link()
    rig.edge.session = "s2"
    rig.run(300)
    rig.connect()
    rig.run(100)
    assert rig.final_states() == {"a": "cleared", "b": "cleared"}
    about_a = [e for e in rig.kept if e.item_id in ("a", "b") or e.TYPE == "playout.cleared"]
    assert {e.session for e in about_a} == {"s1"}
    assert all(e.event_id.startswith("s1/") for e in about_a)
    (cleared,) = rig.of(msg.PlayoutCleared)
    assert {e.cleared for e in rig.of(msg.Truncate)} == {cleared.event_id}
    assert {e.cleared for e in rig.finals().values()} == {cleared.event_id}
    rig.clear_remotely("r")
    rig.run(50)
    assert len(rig.of(msg.PlayoutCleared)) == 1
    rig.say("r", "a", 4_800)  # the same names in the new session are other things
    rig.run(500)
    assert rig.final_states()["a"] == "played"
    assert rig.finals()["a"].event_id.startswith("s2/")
    rig.speak()
    assert {e.session for e in rig.of(msg.Commit)} == {"s2"}


def test_one_answer_for_clears_of_two_sessions_is_told_to_each() -> None:
    rig = Rig()
    rig.say("r", "a", 24_000)
    rig.play(14_400)
    rig.lose_link()
    rig.edge.session = "s2"
    rig.run(250)
    rig.tell(ev.Tick())
    (epoch,) = rig.opening
    rig.links = [epoch]
    rig.tell(ev.LinkOpened(epoch))
    rig.serve()  # no callback runs from here on
    rig.edge.acknowledge_all()
    rig.serve()
    rig.say("r", "b", 24_000)
    rig.press()
    rig.run(100)
    cleared = rig.of(msg.PlayoutCleared)
    assert [(e.event_id, [i.item_id for i in e.items]) for e in cleared] == [
        ("s1/clear/2", ["a"]),
        ("s2/clear/2", ["b"]),
    ]
    assert [e.causes[0].kind for e in cleared] == ["session_end", "gesture"]
    assert {e.item_id: e.cleared for e in rig.of(msg.Truncate)} == {
        "a": "s1/clear/2",
        "b": "s2/clear/2",
    }


def test_a_session_that_ended_stops_playing() -> None:
    rig = Rig()
    rig.say("r", "a", 48_000)
    rig.play(14_400)
    rig.edge_says(msg.Ended(reason="time"))
    rig.run(100)
    assert rig.truncates() == {"a": 300}
    rig.lose_link()
    rig.run(300)
    rig.connect()
    assert rig.sent_to_edge(msg.Hello)[-1].resume is None


def test_a_session_that_was_forgotten_is_not_asked_for_again() -> None:
    rig = Rig()
    rig.lose_link()
    rig.run(300)
    rig.tell(ev.Tick())
    epoch = rig.opening.pop()
    rig.links = [epoch]
    rig.tell(ev.LinkOpened(epoch))
    rig.edge.replies.clear()
    assert rig.sent_to_edge(msg.Hello)[-1].resume is not None
    rig.edge_says(msg.Refused(code="forgotten", reason="no such session"))
    rig.edge.session = "s2"
    rig.run(1_100)
    rig.connect()
    assert rig.sent_to_edge(msg.Hello)[-1].resume is None
    assert rig.headset.session.session == "s2"


def test_a_refusal_waits_long() -> None:
    rig = Rig(connect=False)
    rig.tell(ev.Tick())
    epoch = rig.opening.pop()
    rig.links = [epoch]
    rig.tell(ev.LinkOpened(epoch))
    rig.edge.replies.clear()
    rig.edge_says(msg.Refused(code="full", reason="no room"))
    assert rig.links == []
    rig.run(9_900)
    assert rig.opening == []
    rig.run(200)
    assert rig.opening == [2]


def test_a_silent_edge_is_a_dead_link() -> None:
    rig = Rig()
    rig.edge.pongs = False
    rig.run(2_900)
    assert rig.links == [1]
    rig.run(300)
    assert rig.links == []
    lost = [e for e in rig.effects if isinstance(e, ev.Observe) and e.kind == "link.lost"]
    assert "nothing heard" in str(lost[0].facts["reason"])


def test_an_edge_that_does_not_greet_is_a_dead_link() -> None:
    rig = Rig(connect=False)
    rig.tell(ev.Tick())
    epoch = rig.opening.pop()
    rig.links = [epoch]
    rig.tell(ev.LinkOpened(epoch))
    rig.edge.replies.clear()
    rig.run(5_200)
    assert rig.links == []


def test_what_comes_over_an_old_link_is_ignored() -> None:
    rig = Rig()
    rig.lose_link()
    rig.run(300)
    rig.connect()
    rig.tell(ev.EdgeSaid(1, msg.ResponseCreated(response_id="old", turn=0)))
    rig.tell(ev.EdgeAudio(1, ItemStart(1, "x", 0, "old", 0, 24_000, 0)))
    rig.tell(ev.LinkClosed(1, "late"))
    assert rig.headset.playback.lane.responses == {}
    assert rig.headset.counters["other_epoch"] == 2
    assert rig.headset.session.open


def test_nonsense_is_answered_and_costs_nothing() -> None:
    rig = Rig()
    rig.tell(ev.EdgeNonsense(1, "x" * 1_000))
    rig.tell(ev.EdgeNonsense(1, "from the future", "unknown_type"))
    assert [len(f.message) for f in rig.sent_to_edge(msg.Fault)] == [200]
    assert rig.headset.counters == {"malformed": 1, "unknown_type": 1}


# ---- acknowledgements and rejections ------------------------------------------------------------


def rejected(rig: Rig, event: msg.Durable, limit_ms: int | None = None) -> None:
    rig.edge_says(
        msg.EventRejected(
            outbox_id=event.outbox_id,
            seq=event.seq,
            event_id=event.event_id,
            code="too_long",
            limit_ms=limit_ms,
        )
    )


def test_a_rejected_truncate_is_tried_once_more_with_the_edges_length() -> None:
    rig = Rig(acks=False)
    rig.say("r", "a", 24_000)
    rig.play(28_800)
    rig.press()
    rig.run(50)
    (first,) = rig.of(msg.Truncate)
    rejected(rig, first, limit_ms=580)
    _, second = rig.of(msg.Truncate)
    assert (second.audio_end_ms, second.supersedes) == (580, first.event_id)
    assert second.seq > first.seq
    rejected(rig, second, limit_ms=570)
    assert len(rig.of(msg.Truncate)) == 2
    pending = {e.event_id for e in rig.headset.outbox.pending()}
    assert not {first.event_id, second.event_id} & pending


def test_a_rejection_stops_no_sound() -> None:
    rig = Rig(acks=False)
    rig.say("r", "a", 24_000)
    rig.run(50)
    rejected(rig, rig.kept[0])
    rig.run(1_100)
    assert rig.final_states() == {"a": "played"}


def test_the_edge_never_hears_of_an_input_clear() -> None:
    rig = Rig()
    rig.say("r", "a", 24_000)
    rig.speak()
    assert all(m.TYPE != "input_audio_buffer.clear" for _, m in rig.edge.messages)


# ---- the journal ---------------------------------------------------------------------------


def test_the_journal_is_kept_while_anything_is_undecided() -> None:
    rig = Rig()

    def resets() -> int:
        return sum(isinstance(effect, ev.ResetLog) for effect in rig.effects)

    rig.run(50)
    before = resets()
    rig.press()
    rig.run(300)
    rig.release()
    rig.run(200)  # in the post-roll
    assert resets() == before
    rig.run(200)
    assert resets() == before + 1
    rig.say("r", "a", 4_800, turn=1)
    rig.run(100)
    assert resets() == before + 1
    rig.run(300)
    assert resets() == before + 2


# ---- the end -------------------------------------------------------------------------------


def test_a_stop_sends_cursors_first_and_leaves_when_they_are_acknowledged() -> None:
    rig = Rig(fade_ms=5)
    rig.say("r", "a", 48_000)
    rig.play(14_400)
    rig.tell(ev.Stop("update"))
    rig.run(200)
    assert rig.exited == "update"
    said = kinds(rig.kept)
    assert said[-1] == "shutdown"
    assert said[-4:-1] == ["playout.cleared", "conversation.item.truncate", "playout.receipt"]
    assert rig.of(msg.PlayoutCleared)[0].causes[0].kind == "shutdown"
    check(rig)


def test_a_stop_without_an_answer_leaves_after_a_while() -> None:
    rig = Rig(acks=False)
    rig.say("r", "a", 48_000)
    rig.play(14_400)
    rig.tell(ev.Stop("update"))
    rig.run(2_500)
    assert rig.exited is None
    rig.run(STOP_PATIENCE_NS // MS - 2_450)
    assert rig.exited == "update"
    assert len(rig.headset.outbox) == len(rig.kept)


def test_a_stop_without_a_link_leaves_at_once_and_keeps_all() -> None:
    rig = Rig()
    rig.lose_link()
    rig.tell(ev.Stop("update"))
    rig.step()
    assert rig.exited == "update"
    assert kinds(rig.headset.outbox.pending()) == ["shutdown"]


def test_a_stop_commits_no_turn_that_was_not_released() -> None:
    rig = Rig()
    rig.press()
    rig.run(500)
    rig.tell(ev.Stop("update"))
    rig.run(100)
    assert kinds(rig.kept) == ["turn.started", "turn.abandoned", "shutdown"]
    assert rig.exited


def test_a_stop_commits_a_turn_that_was_released() -> None:
    rig = Rig()
    rig.press()
    rig.run(500)
    rig.release()
    rig.tell(ev.Stop("update"))
    rig.run(100)
    assert kinds(rig.kept) == ["turn.started", "input_audio_buffer.commit", "shutdown"]


def test_nothing_new_plays_while_stopping() -> None:
    rig = Rig(acks=False)
    rig.tell(ev.Stop("update"))
    rig.say("r", "a", 4_800)
    rig.run(300)
    assert np.all(rig.card.tape < LOUD)
    assert "a" not in rig.headset.playback.ledger.items


def test_a_stop_twice_is_one() -> None:
    rig = Rig()
    rig.tell(ev.Stop("one"))
    rig.tell(ev.Stop("two"))
    rig.run(100)
    assert rig.exited == "one"
    assert len(rig.of(msg.Shutdown)) == 1
