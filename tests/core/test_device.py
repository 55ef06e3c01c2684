"""The device: starvation, xruns, loss, and what was in its buffer."""

from __future__ import annotations

import random
import statistics

import numpy as np
import pytest
from headset_invariants import check, check_at_rest, cursors
from headset_rig import CYCLE, LOUD, MS, Rig
from tiers import count

from handset.core import events as ev
from handset.core import messages as msg


def rest(rig: Rig) -> None:
    rig.run(2_600)
    check_at_rest(rig)


def test_starvation_moves_no_position() -> None:
    """Ten times 20 ms without data: silence that is counted as synthesized."""
    rig = Rig()
    rig.response("r")
    rig.start_item("a", "r")
    for _ in range(11):
        rig.audio("a", 2_400)
        rig.play(4_800)
        rig.play(960)
    cursor = cursors(rig)["a"]
    assert cursor.handed == 11 * 2_400
    assert cursor.synthesized == 10 * 480
    rig.press()
    rig.run(50)
    assert rig.truncates() == {"a": 1_100}
    rig.release()
    rest(rig)


def test_starvation_is_not_an_end() -> None:
    rig = Rig()
    rig.response("r")
    rig.start_item("a", "r")
    rig.audio("a", 4_800)
    rig.run(160)
    rig.audio("a", 4_800)
    rig.end_item("a", 9_600)
    rig.done("r")
    rig.run(500)
    assert rig.final_states() == {"a": "played"}
    assert rig.finals()["a"].cursor.received == 9_600
    rest(rig)


def test_silence_before_an_item_is_not_synthesized() -> None:
    rig = Rig()
    rig.run(300)
    rig.say("r", "a", 4_800)
    rig.run(500)
    rig.say("s", "b", 4_800)
    rig.run(500)
    assert [c.synthesized for c in cursors(rig).values()] == [0, 0]
    rest(rig)


def test_a_pause_is_where_the_clear_finds_it() -> None:
    rig = Rig(fade_ms=5)
    rig.say("r", "a", 24_000)
    rig.play(14_400)
    rig.playout.pause()
    rig.play(48_000)
    position = cursors(rig)["a"].handed
    assert position == (14_400 + 240) // 2
    rig.press()
    rig.run(50)
    assert rig.of(msg.Truncate)[0].played == position
    rig.release()
    rig.run(2_600)


def test_a_dismissed_pause_goes_on_at_the_next_sample() -> None:
    rig = Rig()
    rig.say("r", "a", 24_000)
    rig.play(14_400)
    number = rig.playout.pause()
    rig.play(9_600)
    assert rig.playout.dismiss(number)
    rig.run(1_200)
    rest(rig)
    sounded = rig.card.tape[rig.card.tape >= LOUD]
    assert np.array_equal(sounded, LOUD + np.arange(48_000) % CYCLE)
    assert cursors(rig)["a"].synthesized == 0


def test_an_item_is_final_only_after_its_silence() -> None:
    rig = Rig()
    rig.say("r", "a", 4_800)
    while not rig.finals():
        rig.step()
    receipt = rig.finals()["a"]
    last = int(np.flatnonzero(rig.card.tape)[-1])
    silent = receipt.cursor.silent_at_ns
    assert silent.lo <= rig.card.time_of(last) + 20_834 <= silent.hi
    assert rig.card.now_ns > silent.hi
    rest(rig)


def test_a_cut_item_is_final_only_after_its_silence() -> None:
    rig = Rig(fade_ms=5)
    rig.say("r", "a", 24_000)
    rig.play(14_400)
    rig.press()
    rig.step()
    assert rig.of(msg.Truncate) and not rig.finals()
    while not rig.finals():
        rig.step()
    assert rig.card.now_ns > rig.finals()["a"].cursor.silent_at_ns.hi
    rig.release()
    rest(rig)


@pytest.mark.parametrize("hung_ms", [20, 500, 5_000])
def test_played_is_not_said_while_no_callback_runs(hung_ms: int) -> None:
    """All was handed, the callbacks stop, time passes: the tail may be lost."""
    rig = Rig()
    rig.say("r", "a", 4_800)
    rig.play(9_600)
    rig.card.kill()
    at = rig.card.now_ns
    rig.card.now_ns += hung_ms * MS
    rig.look()
    rig.tell(ev.Tick())
    assert rig.finals() == {}
    rig.card.now_ns = at
    rig.unplug()
    receipt = rig.finals()["a"]
    assert receipt.state == "cleared"
    assert not receipt.cursor.exact
    assert rig.of(msg.Truncate)[0].played == receipt.cursor.played < 4_800
    check(rig)


def test_a_device_lost_in_mid_item() -> None:
    rig = Rig()
    rig.say("r", "a", 24_000)
    rig.play(14_400)
    rig.unplug()
    cursor = rig.finals()["a"].cursor
    assert (cursor.handed, cursor.exact) == (7_200, False)
    assert cursor.lost_max == (1_440 + 480) // 2
    assert cursor.played == 7_200 - 960
    (truncate,) = rig.of(msg.Truncate)
    assert (truncate.played, truncate.exact) == (cursor.played, False)
    (cleared,) = rig.of(msg.PlayoutCleared)
    assert cleared.causes[0].kind == "device_lost"
    card, _ = rig.tapes[0]
    left = np.count_nonzero(card.heard >= LOUD) // 2
    assert cursor.played <= left <= cursor.handed
    check(rig)


def test_a_loss_reaches_back_over_several_items() -> None:
    """The bound is taken from the newest item first; the older ones get the rest."""
    rig = Rig()
    rig.response("r")
    for number in range(4):
        rig.start_item(f"i{number}", "r")
        rig.audio(f"i{number}", 300)
        rig.end_item(f"i{number}", 300)
    rig.play(1_920)
    rig.unplug(lost=1_000)
    cursors_ = {name: receipt.cursor for name, receipt in rig.finals().items()}
    assert [cursors_[f"i{n}"].lost_max for n in range(4)] == [0, 140, 300, 60]
    assert [event.item_id for event in rig.of(msg.Truncate)] == ["i3", "i1", "i2"]
    assert {c.item_id for c in rig.of(msg.PlayoutCleared)[0].items} == {"i1", "i2", "i3"}


def test_a_loss_after_a_cut_lowers_the_truncate() -> None:
    rig = Rig(fade_ms=5)
    rig.say("r", "a", 24_000)
    rig.play(14_400)
    rig.press()
    rig.step()
    (first,) = rig.of(msg.Truncate)
    rig.unplug()
    _, second = rig.of(msg.Truncate)
    assert second.supersedes == first.event_id
    assert second.played < first.played
    assert not second.exact
    assert len(rig.finals()) == 1
    assert rig.finals()["a"].cursor.played == second.played
    check(rig)


def test_a_loss_after_the_silence_of_a_cut_lowers_nothing() -> None:
    rig = Rig()
    rig.say("r", "a", 24_000)
    rig.play(14_400)
    rig.press()
    rig.run(200)
    rig.unplug()
    assert len(rig.of(msg.Truncate)) == 1
    assert rig.finals()["a"].cursor.exact


@pytest.mark.parametrize("rate", [48_000, 44_100, 16_000])
def test_another_device_goes_on_with_the_next_response(rate: int) -> None:
    rig = Rig()
    rig.say("r", "a", 24_000)
    rig.play(14_400)
    rig.unplug()
    rig.run(1_000)
    rig.block_frames = rate // 100
    rig.plug(rate)
    rig.say("s", "b", 24_000)
    rig.run(1_300)
    assert rig.final_states() == {"a": "cleared", "b": "played"}
    assert rig.finals()["b"].cursor.played == 24_000
    rest(rig)


def test_what_comes_while_there_is_no_device_waits_for_one() -> None:
    rig = Rig(device=False)
    rig.say("r", "a", 4_800)
    rig.run(100)
    assert rig.kept == []
    rig.plug()
    rig.run(400)
    assert rig.final_states() == {"a": "played"}
    rig.unplug()
    rig.say("s", "b", 4_800)
    rig.run(100)
    rig.plug(44_100)
    rig.run(400)
    assert rig.final_states() == {"a": "played", "b": "played"}
    assert [r.cursor.received for r in rig.finals().values()] == [4_800, 4_800]
    rest(rig)


def test_without_a_device_a_press_stops_what_waits() -> None:
    rig = Rig()
    rig.unplug()
    clears = len(rig.clears)
    rig.say("r", "a", 4_800)
    rig.response("s")
    rig.press()
    assert len(rig.clears) == clears
    assert rig.final_states() == {"a": "cleared"}
    assert rig.of(msg.Truncate) == []
    rig.run(300)
    rig.release()
    rig.run(300)
    assert rig.of(msg.Commit)[0].cursor == "known"
    rig.plug()
    rig.run(300)
    assert np.all(rig.card.tape == 0)
    rest(rig)


def test_an_xrun_changes_no_position() -> None:
    rig = Rig()
    rig.say("r", "a", 24_000)
    rig.play(14_400)
    rig.card.xrun()
    rig.play(4_800)
    rig.press()
    rig.run(100)
    assert rig.truncates() == {"a": 400}
    rig.release()
    rest(rig)


def truth_at(rig: Rig, item: str, at_ns: int) -> int:
    """Frames of the item that had left the converter, on the card's word."""
    left = rig.card.tape[: rig.card.left(at_ns)]
    return int(np.count_nonzero((left >= LOUD) & ((left - LOUD) // CYCLE == rig.number(item))))


def what_had_left_lies_within_the_bounds(seed: int) -> int:
    """One clear; returns the width of the bounds, samples at 48 kHz."""
    rng = random.Random(seed)
    rig = Rig(
        blocks=rng.choice([256, 480, 960]),
        buffer=rng.choice([1_440, 1_920, 2_880]),
        drift_ppm=rng.uniform(-200, 200),
        step_ns=rng.choice([1, 100_000, 1_000_000]),
    )
    rig.response("r")
    rig.start_item("a", "r", rate=48_000)
    rig.audio("a", 4_800, 960)
    for _ in range(rng.randrange(3, 30)):
        match rng.randrange(5):
            case 0:
                rig.audio("a", rng.choice([960, 1_920, 4_800]), 960)
            case 1:
                rig.run(rng.choice([20, 60]))
            case 2:
                number = rig.playout.pause()
                rig.run(rng.choice([10, 30]))
                rig.playout.dismiss(number)
            case 3 if rng.random() < 0.2:
                rig.card.xrun(rng.randrange(16, 40) * MS)
            case _:
                rig.step()
    if rng.random() < 0.9:  # mostly in the middle of speech, now and then dry
        rig.audio("a", 9_600, 960)
        rig.run(rng.choice([20, 30, 50]))
    rig.card.now_ns += rng.randrange(0, 5 * MS)
    asked = rig.now
    rig.press()
    rig.run(200)
    (cleared,) = rig.of(msg.PlayoutCleared)
    (cursor,) = cleared.items
    truth = truth_at(rig, "a", asked)
    estimate = cursor.at_request
    assert estimate.lo <= truth <= estimate.hi, (estimate, truth)
    assert 0 <= estimate.lo <= estimate.est <= estimate.hi <= cursor.handed
    assert estimate.hi - estimate.lo <= rig.buffer + 960
    return estimate.hi - estimate.lo


def bounds_hold(seeds: int) -> list[int]:
    return [what_had_left_lies_within_the_bounds(seed) for seed in range(seeds)]


@pytest.mark.grows
def test_what_had_left_at_the_request_lies_within_the_bounds() -> None:
    """With silence of every kind in between, drifting clocks and coarse times."""
    widths = bounds_hold(count(150, 3_000, 10_000))
    assert 0 < statistics.median(widths) <= 480, "at most one host period"


@pytest.mark.parametrize("gap_ms", [1, 3])
def test_a_short_restart_is_one_too(gap_ms: int) -> None:
    """A card of two periods that ran dry: the next block lies only 10 ms and the gap later."""
    rig = Rig(buffer=960)
    rig.response("r")
    rig.start_item("a", "r", rate=48_000)
    rig.audio("a", 48_000, 960)
    rig.play(14_400)
    rig.card.xrun(gap_ms * MS)
    rig.play(9_600)
    asked = rig.now
    rig.press()
    rig.run(100)
    (cursor,) = rig.of(msg.PlayoutCleared)[0].items
    assert cursor.at_request.lo <= truth_at(rig, "a", asked) <= cursor.at_request.hi
