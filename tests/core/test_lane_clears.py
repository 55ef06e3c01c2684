"""Clears: every one is answered, by number, and changes nothing that it must not."""

from __future__ import annotations

import numpy as np
from headset_invariants import check, check_at_rest
from headset_rig import LOUD, Rig

from handset.core import events as ev
from handset.core import messages as msg
from handset.core.ledger import CLEAR_SLOTS
from handset.core.messages import Cause


def rest(rig: Rig) -> None:
    rig.run(2_600)
    check_at_rest(rig)


def test_before_the_first_sample() -> None:
    """Zero is a position, and not the same as none."""
    rig = Rig()
    rig.say("r", "a", 24_000)
    rig.press()
    rig.run(50)
    assert rig.truncates() == {"a": 0}
    assert np.all(rig.card.tape == 0)
    rig.release()
    rest(rig)


def test_before_the_first_write() -> None:
    rig = Rig()
    rig.response("r")
    rig.start_item("a", "r")
    rig.press()
    rig.run(50)
    assert rig.truncates() == {}
    assert rig.final_states() == {"a": "cleared"}
    assert rig.answers[0].cursor == 0
    rig.release()
    rest(rig)


def test_twice_while_idle() -> None:
    rig = Rig()
    rig.run(50)
    for _ in range(2):
        effects = rig.headset.playback.clear(Cause("gesture", rig.now))
        assert effects == []
    assert rig.kept == []


def test_twice_while_playing_gives_one_truncate() -> None:
    rig = Rig()
    rig.say("r", "a", 24_000)
    rig.play(28_800)
    rig.press()
    rig.clear_remotely("r")
    rig.run(50)
    assert rig.truncates() == {"a": 600}
    assert len(rig.of(msg.Truncate)) == 1
    rig.release()
    rest(rig)


def test_a_stop_needs_no_edge() -> None:
    """Nothing is audible one block after the clear, whatever the edge says or not."""
    rig = Rig(acks=False)
    rig.say("r", "a", 240_000)
    rig.play(48_000)
    rig.press()
    rig.run(1_000)
    assert np.all(rig.card.tape[48_000:] == 0)


def test_late_audio_of_a_stopped_response_is_counted_and_silent() -> None:
    rig = Rig()
    rig.response("r")
    rig.start_item("a", "r")
    rig.audio("a", 24_000)
    rig.play(9_600)
    rig.press()
    for _ in range(5):
        rig.audio("a", 480)
    rig.end_item("a", 26_400)
    rig.run(200)
    assert np.all(rig.card.tape[9_600:] == 0)
    assert rig.headset.playback.lane.fenced["dead_response"] == 6
    assert rig.truncates() == {"a": 200}
    rig.release()
    rest(rig)


def test_audio_that_waits_for_room_is_fenced_with_its_item() -> None:
    rig = Rig(seconds=0.5)
    rig.say("r", "a", 48_000)
    rig.play(4_800)
    rig.press()
    rig.run(100)
    (receipt,) = rig.finals().values()
    cursor = receipt.cursor
    assert cursor.handed == 2_400
    assert cursor.received + cursor.fenced == 48_000
    rig.release()
    rest(rig)


def test_a_next_response_plays_at_once() -> None:
    """No sticky flag: what is fenced is the dead response, and nothing else."""
    rig = Rig()
    rig.say("r1", "a", 48_000)
    rig.play(9_600)
    rig.speak(300)
    turn = rig.of(msg.Commit)[0].turn
    before = rig.card.handed
    rig.say("r2", "b", 4_800, turn=turn)
    rig.step()
    assert rig.card.tape[before] == LOUD + 8 * rig.number("b")
    rig.run(400)
    assert rig.final_states() == {"a": "cleared", "b": "played"}
    rest(rig)


def test_a_late_answer_of_an_old_number_changes_nothing() -> None:
    rig = Rig()
    rig.say("r1", "a", 24_000)
    rig.play(9_600)
    rig.press()
    rig.run(50)
    kept = list(rig.kept)
    seen = rig.playout.look()
    rig.tell(ev.PlayoutSeen(seen[0], (*rig.answers, *seen[1]), seen[2]))
    assert rig.kept == kept
    rig.release()
    rest(rig)


def test_clears_beyond_the_slots_coalesce_and_are_answered() -> None:
    """Callbacks have stopped, and people press on: one answer for all of them."""
    rig = Rig(seconds=2)
    for number in range(CLEAR_SLOTS + 4):
        rig.response(f"r{number}")
        rig.start_item(f"i{number}", f"r{number}")
        rig.audio(f"i{number}", 4_800)
        rig.clear_remotely(f"r{number}")
    assert rig.headset.playback.generation == CLEAR_SLOTS
    rig.run(50)
    assert len(rig.of(msg.PlayoutCleared)) == 1
    (cleared,) = rig.of(msg.PlayoutCleared)
    assert cleared.responses == [f"r{number}" for number in range(CLEAR_SLOTS + 4)]
    assert len(cleared.causes) == CLEAR_SLOTS + 4
    assert len(rig.finals()) == CLEAR_SLOTS + 4
    rig.say("last", "z", 480)
    rig.run(200)
    assert rig.final_states()["z"] == "played"
    rest(rig)


# ---- remote clears ------------------------------------------------------------------------


def test_a_remote_clear_of_what_plays_leaves_what_waits() -> None:
    rig = Rig()
    rig.say("r1", "a", 24_000)
    rig.say("r2", "b", 12_000)
    rig.play(9_600)
    rig.clear_remotely("r1")
    rig.run(1_000)
    assert rig.final_states() == {"a": "cleared", "b": "played"}
    assert rig.truncates() == {"a": 200}
    assert rig.finals()["b"].cursor.played == 12_000
    assert rig.of(msg.PlayoutCleared)[0].responses == ["r1"]
    rest(rig)


def test_a_remote_clear_of_what_waits_leaves_what_plays() -> None:
    rig = Rig()
    rig.say("r1", "a", 24_000)
    rig.say("r2", "b", 12_000)
    rig.play(9_600)
    rig.clear_remotely("r2")
    rig.run(1_500)
    assert rig.final_states() == {"a": "played", "b": "cleared"}
    assert rig.truncates() == {}
    assert rig.clears == []
    b = rig.finals()["b"]
    assert b.cleared == rig.of(msg.PlayoutCleared)[0].event_id
    rest(rig)


def test_a_dead_reply_of_minutes_does_not_delay_the_next() -> None:
    rig = Rig(seconds=90)
    rig.say("r1", "a", 24_000 * 60)
    rig.play(48_000)
    rig.clear_remotely("r1")
    rig.say("r2", "b", 12_000)
    before = rig.card.handed
    rig.step()
    assert rig.card.tape[before] == LOUD + 8 * rig.number("b")
    rig.run(400)
    rest(rig)


def test_a_repeated_remote_clear_repeats_the_cursor() -> None:
    rig = Rig()
    rig.say("r1", "a", 24_000)
    rig.play(9_600)
    rig.press()
    rig.run(50)
    (first,) = rig.of(msg.PlayoutCleared)
    rig.clear_remotely("r1")
    again = rig.of(msg.PlayoutCleared)[1]
    assert again.repeats == first.event_id
    assert (again.items, again.responses) == (first.items, first.responses)
    assert again.event_id.count("s1/") == 1
    assert rig.clears == [1]
    rig.release()
    rest(rig)


def test_a_remote_clear_of_what_was_heard_whole_says_nothing() -> None:
    rig = Rig()
    rig.say("r1", "a", 4_800)
    rig.run(400)
    kept = len(rig.kept)
    rig.clear_remotely("r1")
    rig.run(100)
    assert rig.kept[kept:] == []
    rest(rig)


def test_a_remote_clear_of_an_unknown_response_is_nothing() -> None:
    rig = Rig()
    rig.clear_remotely("never")
    rig.run(50)
    assert rig.kept == []
    check(rig)
