"""The cursor against the card's tape, case by case. ``test_clears`` has the same at random."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np
import pytest
from voice import Voice

from handset.audio import devices
from handset.audio.capture import Capture, CaptureConfig
from handset.audio.stream import Stream, StreamSettings
from handset.bench.analyse import FaultKind
from handset.bench.rig import Rig
from handset.bench.signals import coded, faded
from handset.core.facts import SegmentKind
from handset.core.messages import Cause
from handset.fakes.virtual_card import Direction, EventKind


def assert_in_bounds(voice: Voice, request_ns: int, upto: int = 0) -> None:
    item = voice.said[upto][0]
    estimate = item.at_request
    assert estimate is not None
    truth = voice.reading().heard[upto].until(voice.rig.card.frame_at(request_ns))
    assert estimate.lo <= truth <= estimate.hi
    assert estimate.hi - estimate.lo <= voice.rig.ledger.timing.buffer


@pytest.mark.parametrize("rate", [48_000, 44_100, 16_000])
def test_a_clear_at_each_rate_equals_its_tape(rate: int, make_rig: Callable[..., Rig]) -> None:
    voice = Voice(make_rig(StreamSettings(rate=rate)))
    short, long = voice.say(1, rate // 20), voice.say(2, 2 * rate)
    voice.until_handed(long, rate // 10)
    request = time.monotonic_ns()
    voice.clear(request)
    voice.until_silent()
    reading = voice.reading()
    assert reading.faults == () and reading.silences == ()
    assert [heard.upto for heard in reading.heard] == [short.handed, long.handed]
    assert short.handed == rate // 20 and 0 < long.handed < 2 * rate
    assert reading.heard[1].faded == long.faded == rate // 200
    assert_in_bounds(voice, request, 1)


def test_an_item_played_to_its_end_is_whole(voice: Voice) -> None:
    item = voice.say(1, 9001)
    voice.until_silent()
    assert item.state == "played"
    reading = voice.reading()
    assert (reading.heard[0].upto, reading.faults) == (9001, ())


def test_starvation_moves_no_position_and_is_counted(voice: Voice) -> None:
    item = voice.say(1, 4800, ends=False)
    log = voice.rig.ledger.log

    def dry_for_20_ms() -> bool:
        tail = log.tail
        dry = tail is not None and tail.kind is SegmentKind.DRY and tail.length >= 960
        return dry and item.handed == item.frames

    for _ in range(10):
        voice.until(dry_for_20_ms)
        voice.more(item, 4800)
    voice.until_handed(item, 10 * 4800 + 960)
    voice.clear()
    voice.until_silent()
    reading = voice.reading()
    assert reading.faults == ()
    assert reading.heard[0].upto == item.handed
    assert [silence.index for silence in reading.silences] == [4800 * k for k in range(1, 11)]
    assert all(silence.frames >= 960 for silence in reading.silences)
    assert item.synthesized == sum(silence.frames for silence in reading.silences)


def test_a_clear_while_paused_reports_where_it_paused(voice: Voice) -> None:
    item = voice.say(1, 48_000)
    voice.until_handed(item, 4800)
    voice.rig.queue.pause()
    log = voice.rig.ledger.log
    voice.until(lambda: log.tail is not None and log.tail.kind is SegmentKind.PAUSED)
    paused_at = item.handed
    voice.clear()
    voice.until_silent()
    reading = voice.reading()
    assert item.handed == paused_at == reading.heard[0].upto
    assert (reading.heard[0].faded, reading.faults) == (voice.rig.queue.fade, ())


def test_a_pause_that_is_dismissed_leaves_no_gap_and_repeats_nothing(voice: Voice) -> None:
    frames = 24_000
    item = voice.say(1, frames)
    voice.until_handed(item, 4800)
    number = voice.rig.queue.pause()
    log = voice.rig.ledger.log
    voice.until(lambda: log.tail is not None and log.tail.kind is SegmentKind.PAUSED)
    paused_at = item.handed
    assert voice.rig.queue.dismiss(number)
    voice.until_silent()
    _, samples = voice.samples()
    curve, fade = voice.rig.curve, voice.rig.queue.fade
    expected = coded(1, 0, frames)
    down = slice(paused_at - fade, paused_at)
    up = slice(paused_at, paused_at + fade)
    expected[down] = faded(expected[down], curve)
    expected[up] = faded(expected[up], 32768 - curve)
    assert np.array_equal(samples[samples != 0], expected)
    assert item.state == "played"


STOP_AND_GO = """
import os, signal, sys, time
os.kill(int(sys.argv[1]), signal.SIGSTOP)
time.sleep(0.12)
os.kill(int(sys.argv[1]), signal.SIGCONT)
"""


def starve_the_card() -> None:
    """Stops this whole process for longer than the card's buffer lasts."""
    subprocess.run([sys.executable, "-I", "-S", "-c", STOP_AND_GO, str(os.getpid())], check=True)


@pytest.mark.parametrize("after", [480, 24_000])
def test_an_underrun_loses_nothing_that_was_handed(after: int, voice: Voice) -> None:
    item = voice.say(1, 96_000)
    voice.until_handed(item, 4800)
    starve_the_card()
    assert voice.rig.restarts() >= 1
    voice.until_handed(item, item.handed + after)
    request = time.monotonic_ns()
    voice.clear(request)
    voice.until_silent()
    reading = voice.reading(voice.rig.ledger.timing.buffer)
    assert reading.faults == ()
    assert reading.heard[0].upto == item.handed
    assert voice.rig.underflows >= 1
    assert_in_bounds(voice, request)


def test_a_card_that_drops_its_buffer_loses_no_more_than_the_bound(voice: Voice) -> None:
    item = voice.say(1, 96_000)
    voice.until_handed(item, 4800)
    assert voice.rig.card.inject_playback_xrun()
    voice.until(lambda: voice.rig.underflows > 0)
    voice.until_handed(item, item.handed + 4800)
    voice.clear()
    voice.until_silent()
    timing = voice.rig.ledger.timing
    reading = voice.reading(timing.buffer)
    assert reading.heard[0].upto == item.handed
    holes = [fault for fault in reading.faults if fault.kind is FaultKind.DROPPED]
    assert len(reading.faults) == len(holes) == 1
    assert holes[0].frames <= timing.buffer + timing.block
    # The ledger can't know what became of them, says so, and history ends before them.
    cursor = item.cursor()
    assert not cursor.exact
    assert cursor.played <= holes[0].index * item.rate // item.device_rate
    assert 0 < cursor.lost_max <= (timing.buffer + timing.block) * item.rate // item.device_rate + 1


def test_overruns_of_the_microphone_leave_no_hole_in_playout(voice: Voice) -> None:
    rig = voice.rig
    capture = Capture(CaptureConfig(48_000))
    microphone = devices.find(rig.card.device, "capture", rig.card.asound_root)
    stream = Stream.open(capture, microphone, StreamSettings(), rig.card.asound_root)
    try:
        item = voice.say(1, 240_000)
        voice.until_handed(item, 480)
        for _ in range(20):
            before = stream.callbacks
            assert rig.card.inject_capture_xrun()
            voice.until(lambda before=before: stream.callbacks > before + 1)
            capture.read()
        voice.clear()
        voice.until_silent()
    finally:
        stream.close()
        capture.close()
    overruns = rig.card.events(EventKind.XRUN, direction=Direction.CAPTURE)
    assert len(overruns) == 20
    reading = voice.reading()
    assert (reading.heard[0].upto, reading.faults, reading.silences) == (item.handed, (), ())
    assert rig.restarts() == 0


def test_the_wall_clock_has_no_part_in_it(voice: Voice, monkeypatch: pytest.MonkeyPatch) -> None:
    def wall_clock() -> float:
        raise AssertionError("the wall clock was asked")

    with monkeypatch.context() as patch:
        patch.setattr(time, "time", wall_clock)
        patch.setattr(time, "time_ns", wall_clock)
        item = voice.say(1, 48_000)
        voice.until_handed(item, 4800)
        voice.clear()
        voice.until_silent()
    assert voice.reading().heard[0].upto == item.handed


def test_an_unplugged_card_in_mid_item(voice: Voice) -> None:
    rig, ledger = voice.rig, voice.rig.ledger
    item = voice.say(1, 96_000)
    voice.until_handed(item, 9600)
    rig.card.unplug()
    rig.stream.close()
    number = rig.queue.clear()
    ledger.clear(Cause("device_lost", time.monotonic_ns()))
    rig.queue.settle(time.monotonic_ns())
    voice.until(lambda: ledger.answered == number)
    lost_max = ledger.timing.buffer + ledger.timing.block
    assert ledger.lose(lost_max, "device_lost") == [item]
    cursor = item.cursor()
    assert (cursor.exact, cursor.lost_max, item.faded) == (False, lost_max, 0)
    reading = voice.reading()
    assert reading.faults == ()
    assert cursor.played <= reading.heard[0].upto <= cursor.handed
