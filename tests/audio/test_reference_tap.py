"""What an echo canceller is given is what the device was given, sample for sample."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
from handset._native import ffi, lib
from hypothesis import given, settings
from hypothesis import strategies as st
from voice import MakeCard

from handset.audio import devices
from handset.audio.capture import Capture, CaptureConfig
from handset.audio.card import Card, CardSettings
from handset.audio.playout import Playout, PlayoutConfig
from handset.audio.stream import Stream, StreamSettings
from handset.bench.signals import coded
from handset.errors import UsageError
from handset.fakes.card import SECOND, FakeCard
from handset.fakes.virtual_card import Direction, EventKind

RATE = 48_000


def tone(n: int, level: int = 9_000) -> np.ndarray:
    return (level * np.sin(np.arange(n) * 0.05)).astype(np.int16)


def stretches(reference: Capture) -> list[tuple[int, np.ndarray]]:
    """What is in it, split at its gaps alone."""
    found: list[tuple[int, np.ndarray]] = []
    for position, frames in reference.read():
        if found and position == found[-1][0] + len(found[-1][1]):
            position, before = found.pop()
            frames = np.concatenate((before, frames))
        found.append((position, frames))
    return found


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(1, 700), min_size=3, max_size=40),
    st.lists(st.sampled_from(["write", "notice", "clear", "flush", "quiet", "loud"]), max_size=20),
    st.sampled_from([1, 2]),
)
def test_at_any_block_size_whatever_is_done(
    blocks: list[int], acts: list[str], channels: int
) -> None:
    playout = Playout(PlayoutConfig(RATE, channels, seconds=2, fade_ms=5))
    reference = Capture(CaptureConfig(RATE, channels))
    card = FakeCard(playout, blocks=iter(blocks), buffer=2_000, reference=reference)
    for n in range(len(blocks)):
        match acts[n] if n < len(acts) else "":
            case "write":
                playout.write(playout.generation, tone(3_000), True)
            case "notice":
                playout.notice(tone(1_500, 4_000))
            case "clear":
                playout.clear()
            case "flush":
                playout.flush_notices()
            case "quiet":
                playout.volume(9_000)
            case "loud":
                playout.volume(32_768)
        card.block()
    ((first, heard),) = stretches(reference)
    assert first == 0
    assert np.array_equal(heard, card.tape)
    counts = reference.counts()
    assert counts is not None and counts.position == card.handed


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(6, 20), st.one_of(st.integers(1, 90_000), st.just(9_999))),
        min_size=1,
        max_size=5,
    )
)
def test_a_device_that_starts_anew_leaves_a_gap(xruns: list[tuple[int, int]]) -> None:
    """However short it was dry for: each position keeps its place in time."""
    playout = Playout(PlayoutConfig(RATE, seconds=2))
    playout.write(0, tone(90_000), True)
    reference = Capture(CaptureConfig(RATE))
    card = FakeCard(playout, reference=reference)
    for blocks, dry_us in xruns:
        card.run(480 * blocks)
        card.xrun(dry_us * 1_000)
    card.run(480 * 6)
    found = stretches(reference)
    assert len(found) == len(xruns) + 1
    frame = 0
    for position, frames in found:
        due = (card.time_of(frame) - card.time_of(0)) * RATE / SECOND
        assert abs(position - due) <= len(xruns), "half a frame a gap"
        assert np.array_equal(frames, card.tape[frame : frame + len(frames)])
        frame += len(frames)
    assert frame == card.handed
    counts = reference.counts()
    assert counts is not None and counts.missing == sum(gap.length for gap in reference.gaps())
    late = counts.anchor.ns - card.time_of(card.handed - 480)
    assert abs(late) <= 2, "the anchor is that of the newest start"


CALLBACK = "int(*)(const void *, void *, unsigned long, const double *, unsigned long, void *)"
PA_OUTPUT_UNDERFLOW = 4


def test_the_port_gives_it_what_portaudio_gets() -> None:
    playout = Playout(PlayoutConfig(RATE, 2, seconds=1))
    reference = Capture(CaptureConfig(RATE, 2))
    port = lib.kh_port_playout(playout.handle, 20_000_000, 0)
    lib.kh_port_reference(port, reference.handle)
    call: Any = ffi.cast(CALLBACK, lib.kh_port_callback())
    out = ffi.new("int16_t[]", 2 * 480)
    given: list[np.ndarray] = []
    start = lib.kh_now_ns() / SECOND + 0.02

    def block(dac_s: float, status: int = 0) -> None:
        times = ffi.new("double[3]", [0.0, 0.0, dac_s])
        assert call(ffi.NULL, out, 480, times, status, port) == 0
        given.append(np.frombuffer(ffi.buffer(out), np.int16)[::2].copy())

    playout.write(0, tone(9_000), True)
    playout.notice(tone(2_000, 20_000))
    playout.volume(12_000)
    for n in range(8):
        block(start + n / 100)
    block(float("nan"))
    block(start + 0.09 + 0.004, PA_OUTPUT_UNDERFLOW)
    block(start + 0.10 + 0.004, PA_OUTPUT_UNDERFLOW)
    found = stretches(reference)
    assert np.array_equal(np.concatenate([frames for _, frames in found]), np.concatenate(given))
    assert [(position, len(frames)) for position, frames in found] == [
        (0, 9 * 480),
        (9 * 480 + 192, 2 * 480),  # 4 ms
    ]
    lib.kh_port_close(port)
    reference.close()
    playout.close()


@pytest.mark.parametrize("channels", [1, 2])
def test_on_a_real_stream_it_is_the_tape(channels: int, make_card: MakeCard) -> None:
    virtual = make_card()
    devices.rescan()
    chosen = CardSettings(
        virtual.device, channels=channels, asound_root=virtual.asound_root, reference=True
    )
    card = Card.open(chosen)
    playout, reference = card.playout, card.reference
    assert reference is not None

    def handed(frames: int) -> None:
        deadline = time.monotonic() + 20
        while (seen := playout.snapshot()) is None or seen.device_frames < frames:
            assert time.monotonic() < deadline, "the card asks for nothing"
            time.sleep(0.002)

    try:
        playout.write(0, coded(1, 0, 60_000), True)
        handed(4_800)
        playout.notice(tone(24_000))
        playout.volume(20_000)
        handed(9_600)
        held = playout.pause()
        handed(14_400)
        playout.volume(32_768)
        assert playout.dismiss(held)
        handed(19_200)
        playout.flush_notices()
        handed(24_000)
        playout.clear()
        handed(28_800)
        first, heard = stretches(reference)[0]  # the first start's, if there was an xrun
        started = virtual.events(EventKind.START, direction=Direction.PLAYBACK)[0]
        origin = started.frame + started.handed  # PortAudio starts on a buffer of silence
        virtual.wait_committed(origin + len(heard))
        xruns = virtual.events(EventKind.XRUN, direction=Direction.PLAYBACK)
        end = min([xrun.frame - origin for xrun in xruns] + [len(heard)])
    finally:
        card.close()
    assert first == 0 and end > 9_600
    tape = virtual.record(origin, origin + end).samples
    assert np.count_nonzero(tape) > 4_800
    assert np.array_equal(heard[:end], tape), "device frame by device frame"


def test_channels_that_are_not_the_stream_s_are_refused() -> None:
    playout, mic = Playout(PlayoutConfig(RATE, seconds=1)), Capture(CaptureConfig(RATE))
    device = devices.Device(0, "a card", "playback", 2, "")
    for queue, reference in (
        (playout, Capture(CaptureConfig(RATE, 2))),
        (playout, Capture(CaptureConfig(16_000))),
        (mic, Capture(CaptureConfig(RATE))),
    ):
        with pytest.raises(UsageError, match="reference"):
            Stream.open(queue, device, StreamSettings(), reference=reference)
