"""How much of each item was played: the values."""

from __future__ import annotations

import pytest
from headset_invariants import check_at_rest, cursors
from headset_rig import MS, Rig

from handset.core import events as ev
from handset.core import messages as msg

RATES = (8_000, 16_000, 24_000, 48_000)
DEVICE_RATES = (48_000, 44_100, 16_000)


def finish(rig: Rig) -> None:
    """Everything sounds, everything is acknowledged, every invariant holds."""
    rig.run(400)
    check_at_rest(rig)


def test_an_item_played_to_its_end_gets_no_truncate() -> None:
    rig = Rig()
    rig.say("r", "a", 48_000)
    rig.run(2_200)
    assert rig.final_states() == {"a": "played"}
    cursor = rig.finals()["a"].cursor
    assert (cursor.received, cursor.handed, cursor.played, cursor.exact) == (48_000,) * 3 + (True,)
    assert rig.of(msg.Truncate) == []
    finish(rig)


def test_speech_long_after_the_end_sends_nothing() -> None:
    rig = Rig()
    rig.say("r", "a", 48_000)
    rig.run(5_000)
    kept = len(rig.kept)
    rig.press()
    assert [type(event) for event in rig.kept[kept:]] == [msg.TurnStarted]
    assert rig.clears == []


def test_milliseconds_are_rounded_down() -> None:
    """24,001 samples are 1000.04 ms: 1001 would be refused as longer than the item."""
    rig = Rig()
    rig.response("r")
    rig.start_item("a", "r")
    rig.audio("a", 24_001)
    rig.run(1_100)  # dry, and its end has not come
    rig.press()
    rig.run(50)
    assert rig.truncates() == {"a": 1_000}
    assert rig.of(msg.Truncate)[0].played == 24_001
    rig.release()
    finish(rig)


def test_the_audible_item_is_cut_and_the_queued_one_is_at_zero() -> None:
    rig = Rig()
    rig.response("r")
    for item in "ab":
        rig.start_item(item, "r")
        rig.audio(item, 24_000)
        rig.end_item(item, 24_000)
    rig.done("r")
    rig.play(28_800)
    rig.press()
    rig.run(100)
    assert rig.truncates() == {"a": 600, "b": 0}
    b = rig.finals()["b"].cursor
    assert (b.received, b.handed, b.dropped, b.state) == (24_000, 0, 24_000, "cleared")
    rig.release()
    finish(rig)


def test_an_item_announced_without_audio_gets_a_receipt_and_no_truncate() -> None:
    rig = Rig()
    rig.response("r")
    rig.start_item("a", "r")
    rig.audio("a", 24_000)
    rig.start_item("b", "r")
    rig.play(28_800)
    rig.press()
    rig.run(100)
    assert rig.truncates() == {"a": 600}
    assert rig.final_states() == {"a": "cleared", "b": "cleared"}
    assert rig.finals()["b"].cursor.received == 0
    assert [cursor.item_id for cursor in rig.of(msg.PlayoutCleared)[0].items] == ["a", "b"]
    rig.release()
    finish(rig)


def test_positions_of_an_item_in_pieces_add_up() -> None:
    """A 500 ms, B 200, A 100: A is at 600, not at 100."""
    rig = Rig()
    rig.response("r")
    for item, samples in (("a", 12_000), ("b", 4_800), ("a", 2_400)):
        if item not in rig.handles:
            rig.start_item(item, "r")
        rig.audio(item, samples)
    rig.run(900)
    rig.press()
    rig.run(50)
    assert rig.truncates() == {"a": 600, "b": 200}
    rig.release()
    finish(rig)


def test_a_cut_in_the_third_piece_is_cumulative() -> None:
    rig = Rig()
    rig.response("r")
    for item, samples in (("a", 12_000), ("b", 4_800), ("a", 12_000)):
        if item not in rig.handles:
            rig.start_item(item, "r")
        rig.audio(item, samples)
    rig.play(38_400)
    rig.press()
    rig.run(50)
    assert rig.truncates() == {"a": 600, "b": 200}
    rig.release()
    finish(rig)


def test_two_items_of_a_response_are_clamped_each_to_its_own_length() -> None:
    """2650 ms and 6450 ms: a cut in the second is relative to the second."""
    rig = Rig()
    rig.response("r")
    for item, samples in (("a", 63_600), ("b", 154_800)):
        rig.start_item(item, "r")
        rig.audio(item, samples)
        rig.end_item(item, samples)
    rig.done("r")
    rig.play(48 * 4_000)
    rig.press()
    rig.run(100)
    assert rig.truncates() == {"b": 1_350}
    assert rig.final_states() == {"a": "played", "b": "cleared"}
    rig.release()
    finish(rig)


def test_an_item_that_was_delivered_whole_can_be_cut() -> None:
    rig = Rig(seconds=20)
    rig.say("r", "a", 240_000)
    rig.play(144_000)
    rig.press()
    rig.run(50)
    assert rig.truncates() == {"a": 3_000}
    rig.release()
    finish(rig)


def test_a_second_of_ten_is_a_second() -> None:
    """Sent is not played, however fast it was delivered."""
    rig = Rig(seconds=20)
    rig.say("r", "a", 240_000)
    rig.play(48_000)
    rig.press()
    rig.run(50)
    assert rig.truncates() == {"a": 1_000}


@pytest.mark.parametrize("played", [0, 480, 57_600])
def test_the_smallest_positions_count(played: int) -> None:
    rig = Rig()
    rig.say("r", "a", 48_000)
    rig.play(played)
    rig.press()
    rig.run(50)
    assert rig.truncates() == {"a": played * 1000 // 48_000}
    assert rig.of(msg.Truncate)[0].played == played // 2
    rig.release()
    finish(rig)


def test_the_fade_of_a_clear_was_played() -> None:
    rig = Rig(fade_ms=5)
    rig.say("r", "a", 24_000)
    rig.play(28_800)
    rig.press()
    rig.run(50)
    (truncate,) = rig.of(msg.Truncate)
    assert (truncate.played, truncate.audio_end_ms) == (14_520, 605)
    assert rig.finals()["a"].cursor.faded == 120
    rig.release()
    finish(rig)


@pytest.mark.parametrize("device_rate", DEVICE_RATES)
@pytest.mark.parametrize("rate", RATES)
def test_a_whole_item_is_all_of_its_samples(rate: int, device_rate: int) -> None:
    rig = Rig(device_rate, device_rate // 100)
    for name, samples in (("a", rate + 1), ("b", rate // 3), ("c", 1), ("d", 2 * rate // 7)):
        rig.say(f"r{name}", name, samples, rate)
    rig.run(2_300)
    finish(rig)
    assert set(rig.final_states().values()) == {"played"}
    lengths = {name: receipt.cursor.played for name, receipt in rig.finals().items()}
    assert lengths == {"a": rate + 1, "b": rate // 3, "c": 1, "d": 2 * rate // 7}


@pytest.mark.parametrize("device_rate", DEVICE_RATES)
@pytest.mark.parametrize("rate", RATES)
def test_a_cut_lands_within_a_sample_of_the_frames(rate: int, device_rate: int) -> None:
    block = device_rate // 100
    rig = Rig(device_rate, block)
    rig.say("r", "a", 2 * rate, rate)
    rig.play(block * 77)
    rig.press()
    rig.run(50)
    rig.release()
    finish(rig)
    assert rig.finals()["a"].cursor.handed == block * 77 * rate // device_rate


@pytest.mark.parametrize("drift_ppm", [-200, 0, 200])
def test_no_clock_moves_a_cursor(drift_ppm: int) -> None:
    """The core is given times that are hours off: the positions are the same."""
    positions = []
    for step in (0, 3_600_000 * MS, -9_000 * MS):
        rig = Rig(drift_ppm=drift_ppm)
        rig.say("r", "a", 48_000)
        rig.play(28_800)
        told = rig.headset.handle
        rig.headset.handle = lambda event, now, told=told, step=step: told(event, now + step)
        rig.press()
        rig.look()
        rig.card.block()
        rig.look()
        positions.append(rig.of(msg.Truncate)[0].played)
    assert positions == [14_400] * 3


def test_progress_names_the_item_that_sounds() -> None:
    rig = Rig()
    rig.response("r")
    for item in "ab":
        rig.start_item(item, "r")
        rig.audio(item, 24_000)
    rig.run(500)
    progress = rig.sent_to_edge(msg.PlayoutProgress)[-1]
    assert progress.item_id == "a"
    assert 0 < progress.handed <= cursors(rig)["a"].handed


@pytest.mark.parametrize("typed", [False, True])
def test_what_was_handed_whole_is_not_cut_while_it_leaves_the_device(typed: bool) -> None:
    rig = Rig()
    rig.say("r", "a", 4_800)
    rig.play(9_600)
    assert rig.card.in_device(rig.now) > 0
    if typed:
        rig.tell(ev.Typed("words"))
    else:
        rig.press()
    assert rig.clears == []
    rig.run(200)
    assert rig.final_states() == {"a": "played"}
    assert rig.of(msg.Truncate) == []
    rig.release()
    finish(rig)
