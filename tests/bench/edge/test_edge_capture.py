"""Capture: complete by sample count, or not at all; whatever was lost, doubled or reordered."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handset.bench import speech
from handset.bench.edge.capture import Assembly, opus_samples
from handset.core.messages import CaptureMap, Span
from handset.core.packets import PACKET_SAMPLES, CaptureData

CLIP = speech.load("stop")
ORIGIN = 4_294_960_000
"""An RTP origin that wraps within the clip."""


def assembly(start: int, lookahead: int = CLIP.pre_skip) -> Assembly:
    one = Assembly()
    one.map(1, CaptureMap(
        epoch=1, ssrc=7, rtp_ts=ORIGIN, capture_sample=start, lookahead=lookahead
    ))  # fmt: skip
    one.open(1)
    return one


def rtp(one: Assembly, index: int) -> None:
    one.rtp(1, 7, (ORIGIN + index * PACKET_SAMPLES) % (1 << 32), CLIP.packets[index])


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 1 << 50), st.floats(0, 0.9), st.randoms(use_true_random=False))
def test_what_is_missing_is_named_and_with_it_the_turn_is_exact(
    start: int, loss: float, chance: random.Random
) -> None:
    one = assembly(start)
    span = Span(start, start + CLIP.samples)
    order = [i for i in range(len(CLIP.packets)) if chance.random() >= loss] * 2
    chance.shuffle(order)
    for index in order:
        rtp(one, index)
    lost = set(range(len(CLIP.packets))) - set(order)

    holes = one.missing(span)
    assert bool(holes) == bool(lost) == (one.pcm(span) is None)
    touched = {
        i
        for i in range(len(CLIP.packets))
        for hole in holes
        if hole.start < start + (i + 1) * PACKET_SAMPLES and start + i * PACKET_SAMPLES < hole.end
    }
    assert touched == lost
    for index in sorted(lost):
        one.data(CaptureData(1, start + index * PACKET_SAMPLES, (CLIP.packets[index],)))
    pcm = one.pcm(span)
    assert one.missing(span) == [] and pcm is not None
    assert np.array_equal(pcm, CLIP.pcm())


def test_a_missing_packet_behind_the_end_is_named_too() -> None:
    one = assembly(0)
    for index in range(len(CLIP.packets) - 1):
        rtp(one, index)
    samples = (len(CLIP.packets) - 1) * PACKET_SAMPLES - 100
    assert one.missing(Span(0, samples)) == [Span(samples + 100, samples + CLIP.pre_skip)]
    assert one.missing(Span(0, samples + 100 - CLIP.pre_skip)) == []


def test_a_part_of_a_running_stream_is_exact_in_length() -> None:
    one = assembly(0)
    for index in range(len(CLIP.packets)):
        rtp(one, index)
    pcm = one.pcm(Span(5_000, 20_001))
    assert pcm is not None and pcm.shape == (15_001,)
    whole = CLIP.pcm()[5_000:20_001].astype(float)
    likeness = float(np.corrcoef(pcm[4_800:], whole[4_800:])[0, 1])
    assert likeness > 0.95, "the same sound, once the decoder has run for 100 ms"


def test_two_turns_lie_on_their_own_grids() -> None:
    one = assembly(0)
    for index in range(len(CLIP.packets)):
        rtp(one, index)
    start = len(CLIP.packets) * PACKET_SAMPLES - 317
    one.data(CaptureData(2, start, CLIP.packets))
    for begin in (0, start):
        pcm = one.pcm(Span(begin, begin + CLIP.samples))
        assert pcm is not None and np.array_equal(pcm, CLIP.pcm())


def test_rtp_waits_for_its_map_and_for_the_backlog() -> None:
    one = Assembly()
    span = Span(0, CLIP.samples)
    for index in range(len(CLIP.packets)):
        rtp(one, index)
    one.open(1)
    assert one.pcm(span) is None
    one.map(1, CaptureMap(
        epoch=1, ssrc=7, rtp_ts=ORIGIN, capture_sample=0, lookahead=CLIP.pre_skip
    ))  # fmt: skip
    assert one.pcm(span) is not None


def test_what_is_no_packet_of_20_ms_is_counted_and_left_out() -> None:
    one = assembly(0)
    for garbage in (b"", b"\x00", b"\x08" * 2000, b"\xff\x82"):
        one.rtp(1, 7, ORIGIN, garbage)
    one.rtp(1, 8, ORIGIN, CLIP.packets[0])
    one.data(CaptureData(1, 1 << 63, (CLIP.packets[0],)))
    one.rtp(1, 7, ORIGIN - PACKET_SAMPLES, CLIP.packets[0])
    assert one.missing(Span(0, 960)) == [Span(0, 960 + CLIP.pre_skip)]
    assert one.counters == {"rtp_malformed": 5, "rtp_foreign_ssrc": 1, "backfill_malformed": 1}


def test_a_packet_that_does_not_decode_is_an_error_of_its_turn_only() -> None:
    one = assembly(0)
    no_opus = b"\x0b\x41"  # one frame of 20 ms, padded, without the length of the padding
    one.data(CaptureData(1, 0, (*CLIP.packets[:5], no_opus, *CLIP.packets[6:])))
    assert one.missing(Span(0, CLIP.samples)) == []
    with pytest.raises(ValueError, match="no Opus"):
        one.pcm(Span(0, CLIP.samples))
    pcm = one.pcm(Span(0, 4 * PACKET_SAMPLES))
    assert pcm is not None and np.array_equal(pcm, CLIP.pcm()[: 4 * PACKET_SAMPLES])


def test_an_empty_turn_is_complete() -> None:
    one = assembly(0)
    pcm = one.pcm(Span(50, 50))
    assert one.missing(Span(50, 50)) == [] and pcm is not None and len(pcm) == 0


@pytest.mark.parametrize(
    ("packet", "samples"),
    [(b"\x08", 960), (b"\x00", 480), (b"\x18", 2880), (b"\x68", 960), (b"\xf8", 960),
     (b"\xe0", 120), (b"\xf1", 960), (b"\xfb\x03", 2880), (b"\xfb", 0), (b"", 0)],
)  # fmt: skip
def test_the_length_a_packet_says_it_has(packet: bytes, samples: int) -> None:
    assert opus_samples(packet) == samples


def test_every_shipped_packet_is_of_20_ms() -> None:
    for name in speech.names():
        assert {opus_samples(packet) for packet in speech.load(name).packets} == {PACKET_SAMPLES}
