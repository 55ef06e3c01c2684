"""What an echo canceller is given is what the device was given, sample for sample."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from voice import MakeCard

from handset.audio import devices
from handset.audio.capture import Capture, CaptureConfig
from handset.audio.card import Card, CardSettings
from handset.audio.playout import Playout, PlayoutConfig
from handset.fakes.card import FakeCard

RATE = 48_000


def tone(n: int, level: int = 9_000) -> np.ndarray:
    return (level * np.sin(np.arange(n) * 0.05)).astype(np.int16)


def joined(reference: Capture) -> tuple[int, np.ndarray]:
    parts = reference.read()
    ends = [position + len(frames) for position, frames in parts]
    assert [position for position, _ in parts[1:]] == ends[:-1]
    return parts[0][0], np.concatenate([frames for _, frames in parts])


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
    first, heard = joined(reference)
    assert first == 0
    assert np.array_equal(heard, card.tape)
    counts = reference.counts()
    assert counts is not None and counts.position == card.handed


def test_notices_add_up() -> None:
    playout = Playout(PlayoutConfig(RATE, seconds=1, fade_ms=5))
    card = FakeCard(playout)
    assert playout.notice(tone(4_000)) == playout.notice_written == 4_000
    card.block()
    seen = playout.snapshot()
    assert seen is not None and (seen.notice_handed, seen.notice_device) == (480, 480)
    playout.flush_notices()
    card.run(480)
    seen = playout.snapshot()
    assert seen is not None and seen.notice_handed == 480 + 240  # the flush's fade
    assert seen.notice_device == 480 + 240
    assert np.all(card.tape[720:] == 0)


def test_on_a_real_stream_it_is_the_tape(make_card: MakeCard) -> None:
    virtual = make_card()
    devices.rescan()
    chosen = CardSettings(virtual.device, asound_root=virtual.asound_root, reference=True)
    card = Card.open(chosen)
    try:
        assert card.reference is not None
        card.playout.volume(20_000)
        card.playout.notice(tone(24_000))
        while (seen := card.playout.snapshot()) is None or seen.notice_handed < 24_000:
            pass
        heard = np.concatenate([frames for _, frames in card.reference.read()])
    finally:
        card.close()
    tape = virtual.record(0, virtual.sync()).samples
    loud, sounded = np.flatnonzero(heard), np.flatnonzero(tape)
    n = min(len(loud), len(sounded)) // 2
    assert n > 5_000
    assert np.array_equal(heard[loud[0] : loud[0] + n], tape[sounded[0] : sounded[0] + n])
