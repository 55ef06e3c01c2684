"""Which audio plays, which waits and which is dead."""

from __future__ import annotations

import numpy as np
import pytest
from headset_invariants import check, check_at_rest
from headset_rig import LOUD, Rig, packet

from handset.core import messages as msg
from handset.core.packets import CaptureData, ItemAudio, ItemStart
from handset.core.playback import END_DEADLINE_NS


def sounds(rig: Rig, item: str) -> bool:
    marks = rig.card.tape
    return bool(np.any((marks >= LOUD) & ((marks - LOUD) // 8 == rig.number(item))))


def rest(rig: Rig) -> None:
    rig.run(2_600)
    check_at_rest(rig)


def test_a_speculative_response_waits_for_its_turn() -> None:
    rig = Rig()
    rig.press()
    rig.run(300)
    rig.response("r", turn=1, speculative=True)
    rig.start_item("a", "r", turn=1)
    rig.audio("a", 4_800)
    rig.end_item("a", 4_800)
    rig.done("r")
    rig.run(500)
    assert not sounds(rig, "a")
    rig.release()
    rig.run(100)
    assert not sounds(rig, "a")  # released, and not committed yet
    rig.run(500)
    assert rig.of(msg.Commit)
    assert rig.final_states() == {"a": "played"}
    rest(rig)


def test_a_speculative_response_of_an_abandoned_turn_never_sounds() -> None:
    rig = Rig()
    rig.press()
    rig.response("r", turn=1, speculative=True)
    rig.start_item("a", "r", turn=1)
    rig.audio("a", 4_800)
    rig.run(50)
    rig.release()
    rig.run(60)
    assert rig.of(msg.TurnAbandoned)[0].reason == "too_short"
    rig.run(500)
    assert not sounds(rig, "a")
    rig.clear_remotely("r")
    rest(rig)


def test_a_response_to_an_older_turn_than_the_committed_one_is_stale() -> None:
    rig = Rig()
    rig.speak()
    rig.speak()
    rig.say("r", "a", 4_800, turn=1)
    rig.run(300)
    assert not sounds(rig, "a")
    fenced = rig.headset.playback.lane.fenced
    assert (fenced["stale_response"], fenced["dead_response"]) == (1, 3)
    rest(rig)


def test_unprompted_speech_for_the_newest_turn_plays() -> None:
    rig = Rig()
    rig.speak()
    rig.say("r", "a", 4_800, turn=1)
    rig.run(400)
    assert rig.final_states() == {"a": "played"}
    rest(rig)


def test_what_arrives_while_the_person_talks_is_stale_once_the_turn_is_committed() -> None:
    rig = Rig()
    rig.press()
    rig.run(200)
    rig.say("r", "a", 4_800)
    rig.run(200)
    rig.release()
    rig.run(200)
    assert not sounds(rig, "a")  # not in the post-roll either
    rig.run(300)
    assert rig.final_states() == {"a": "cleared"}
    assert not sounds(rig, "a")
    assert rig.truncates() == {}
    rest(rig)


def test_what_arrives_while_the_person_talks_plays_if_the_turn_is_abandoned() -> None:
    rig = Rig()
    rig.press()
    rig.say("r", "a", 4_800)
    rig.run(50)
    rig.release()
    rig.run(400)
    assert rig.final_states() == {"a": "played"}
    rest(rig)


def test_a_response_without_audio_yet_is_not_killed_by_a_tap() -> None:
    """It answers a committed turn and was not heard: only a commit makes it stale."""
    rig = Rig()
    rig.speak()
    rig.response("r", turn=1)
    rig.press()
    rig.run(50)
    rig.release()
    rig.run(60)
    (abandoned,) = rig.of(msg.TurnAbandoned)
    assert (abandoned.stopped, abandoned.live) == ([], ["r"])
    rig.start_item("a", "r", turn=1)
    rig.audio("a", 4_800)
    rig.end_item("a", 4_800)
    rig.done("r")
    rig.run(400)
    assert rig.final_states() == {"a": "played"}
    rest(rig)


def test_an_abandoned_turn_says_what_it_had_stopped() -> None:
    rig = Rig()
    rig.say("r", "a", 24_000)
    rig.play(9_600)
    rig.press()
    rig.run(50)
    rig.release()
    rig.run(60)
    (abandoned,) = rig.of(msg.TurnAbandoned)
    assert abandoned.stopped == ["r"]
    rest(rig)


def test_a_response_that_was_heard_whole_is_not_stopped_by_the_next_turn() -> None:
    rig = Rig()
    rig.say("r", "a", 4_800)
    rig.run(500)
    rig.speak()
    assert rig.of(msg.PlayoutCleared) == []
    assert rig.of(msg.Truncate) == []
    rest(rig)


def test_done_may_overtake_the_audio() -> None:
    """They are on two channels, and audio is paced."""
    rig = Rig()
    rig.response("r")
    rig.done("r")
    rig.run(500)
    rig.start_item("a", "r")
    rig.audio("a", 4_800)
    rig.end_item("a", 4_800)
    rig.run(500)
    rig.start_item("b", "r")
    rig.audio("b", 4_800)
    rig.end_item("b", 4_800)
    rig.run(500)
    assert rig.final_states() == {"a": "played", "b": "played"}
    rest(rig)
    assert rig.headset.playback.lane.responses == {}


def test_an_end_that_never_comes_is_unfinished_after_a_while() -> None:
    rig = Rig()
    rig.response("r")
    rig.start_item("a", "r")
    rig.audio("a", 4_800)
    rig.run(500)
    rig.done("r")
    rig.run(END_DEADLINE_NS // 1_000_000 - 50)
    assert rig.final_states() == {}
    rig.run(100)
    assert rig.final_states() == {"a": "unfinished"}
    assert rig.finals()["a"].cursor.played == 4_800
    rig.say("r2", "b", 4_800)
    rig.run(400)
    assert rig.final_states()["b"] == "played"
    rest(rig)


def test_audio_after_an_unfinished_item_is_counted() -> None:
    rig = Rig()
    rig.response("r")
    rig.start_item("a", "r")
    rig.audio("a", 4_800)
    rig.done("r")
    rig.start_item("b", "r")
    rig.audio("b", 480)
    rig.run(END_DEADLINE_NS // 1_000_000 + 500)
    rig.audio("a", 480)
    rig.run(100)
    assert rig.final_states() == {"a": "unfinished", "b": "unfinished"}
    assert rig.headset.playback.lane.fenced["dead_response"] == 1
    rest(rig)


def test_audio_that_comes_late_moves_the_deadline_and_the_silence() -> None:
    """What was thought to be the last frame is not: nothing is final before its silence."""
    rig = Rig()
    rig.response("r")
    rig.start_item("a", "r")
    rig.audio("a", 4_800)
    rig.done("r")
    rig.run(END_DEADLINE_NS // 1_000_000 - 40)
    rig.audio("a", 24_000)
    rig.run(500)
    assert rig.final_states() == {}
    rig.run(3_000)
    receipt = rig.finals()["a"]
    assert (receipt.state, receipt.cursor.played) == ("unfinished", 28_800)
    rest(rig)


def test_nothing_is_overdue_while_the_link_is_down() -> None:
    """A link loss cancels nothing; the rest comes after the resume."""
    rig = Rig()
    rig.response("r")
    rig.start_item("a", "r")
    rig.audio("a", 4_800)
    rig.done("r")
    rig.lose_link()
    rig.headset.session._due_ns = rig.now + 6_000_000_000
    rig.run(5_000)
    assert rig.final_states() == {}
    rig.run(1_100)
    rig.connect()
    rig.handles["a"] = 77
    rig.edge_audio(ItemStart(77, "a", 0, "r", 0, 24_000, 0))
    rig.audio("a", 4_800)
    rig.end_item("a", 9_600)
    rig.run(500)
    assert rig.final_states() == {"a": "played"}
    assert rig.finals()["a"].cursor.played == 9_600
    rest(rig)


@pytest.mark.parametrize("other_response", [True, False])
def test_an_item_name_is_used_once(other_response: bool) -> None:
    """A peer that uses one twice costs nothing but a count."""
    rig = Rig()
    rig.say("r1", "a", 4_800)
    rig.run(400 if other_response else 20)
    rig.response("r2")
    rig.start_item("a", "r2")
    rig.audio("a", 4_800)
    rig.end_item("a", 4_800)
    rig.done("r2")
    rig.run(500)
    assert rig.final_states() == {"a": "played"}
    assert rig.headset.playback.lane.fenced["duplicate_item"] == 1
    rest(rig)


def test_another_content_part_under_the_same_item_is_refused() -> None:
    rig = Rig()
    rig.response("r")
    rig.start_item("a", "r")
    rig.edge_audio(ItemStart(9, "a", 1, "r", 0, 24_000, 0))
    rig.edge_audio(ItemAudio(9, 0, (packet(480),)))
    assert rig.headset.playback.lane.fenced == {"duplicate_item": 1, "after_end": 1}
    check(rig)


def test_packets_are_taken_in_order_and_once() -> None:
    rig = Rig()
    rig.response("r")
    rig.start_item("a", "r")
    three = tuple(packet(480) for _ in range(3))
    rig.edge_audio(ItemAudio(1, 0, three))
    rig.edge_audio(ItemAudio(1, 1, three))  # two of them again
    rig.edge_audio(ItemAudio(1, 9, three))  # a hole
    rig.edge_audio(ItemAudio(1, 12, three))  # and again: asked for once
    fenced = rig.headset.playback.lane.fenced
    assert (fenced["duplicate"], fenced["gap"]) == (2, 6)
    wanted = rig.sent_to_edge(msg.AudioWanted)
    assert [(w.item_id, w.next_packet) for w in wanted] == [("a", 4)]
    rig.edge_audio(ItemAudio(1, 4, three))
    rig.run(100)
    assert rig.headset.playback.ledger.items["a"].received == 7 * 480


def test_what_makes_no_sense_is_counted_and_costs_nothing() -> None:
    rig = Rig()
    rig.say("r", "a", 9_600)
    rig.edge_audio(ItemAudio(42, 0, (packet(480),)))
    rig.edge_audio(CaptureData(1, 0, (packet(480),)))
    rig.edge_audio(ItemStart(43, "z", 0, "unknown", 0, 24_000, 0))
    rig.response("r")
    fenced = rig.headset.playback.lane.fenced
    assert fenced["unknown_handle"] == fenced["duplicate_response"] == 1
    rig.run(500)
    assert rig.final_states() == {"a": "played"}
    rest(rig)
    rig.lose_link()
    rig.connect()
    assert fenced["unknown_response"] == 1  # it was never announced


def test_audio_that_overtakes_its_announcement_is_played() -> None:
    rig = Rig()
    rig.start_item("a", "r")
    rig.audio("a", 4_800)
    rig.end_item("a", 4_800)
    rig.run(200)
    rig.response("r")
    rig.done("r")
    rig.run(400)
    assert rig.final_states() == {"a": "played"}
    assert not rig.headset.playback.lane.fenced
    rest(rig)


def test_an_item_that_goes_on_at_the_last_moment_ends_later() -> None:
    """It was overdue and all of it handed; what was thought to be its last frame is not."""
    rig = Rig()
    rig.response("r")
    rig.start_item("a", "r")
    rig.audio("a", 60_000)
    rig.done("r")
    rig.play(120_000)
    rig.audio("a", 4_800)
    rig.end_item("a", 64_800)
    while not rig.finals():
        rig.step()
    last = int(np.flatnonzero(rig.card.tape)[-1])
    assert rig.card.now_ns > rig.card.time_of(last)
    assert rig.final_states() == {"a": "played"}
    rest(rig)
