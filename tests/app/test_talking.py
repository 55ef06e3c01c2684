"""A turn's audio: every sample at its position, at any rate of the microphone."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from handset.bench import speech
from handset.bench.speech.clip import decode
from handset.core.messages import Span
from handset.core.packets import PACKET_SAMPLES
from handset.edge.opus import CaptureEncoder
from handset.talking import KEEP, LONGEST_GAP, RATE, Microphone, Upsampler

LOOKAHEAD = CaptureEncoder().lookahead
ASKED = speech.load("ask-readings").pcm(48_000)
RATES = [48_000, 44_100, 16_000]
CODEC = 3
"""Samples by which the speech layer of Opus itself is early: two, measured."""


def pieces(samples: np.ndarray, seed: int = 1) -> list[tuple[int, np.ndarray]]:
    """Cut at random places, each piece with its position."""
    cut, at, out = random.Random(seed), 0, []
    while at < len(samples):
        n = cut.choice([1, 37, 441, 480, 960, 4096])
        out.append((at, samples[at : at + n]))
        at += n
    return out


def sine(frames: np.ndarray, rate: int) -> np.ndarray:
    return (12_000 * np.sin(2 * np.pi * 440.0 * frames / rate)).astype(np.int16)


class Link:
    """What left for the edge."""

    def __init__(self) -> None:
        self.packets: list[tuple[int, bytes]] = []

    def send(self, packet: bytes, capture_sample: int) -> None:
        self.packets.append((capture_sample, packet))

    def of(self, start: int) -> tuple[bytes, ...]:
        """Those of a turn that began at ``start``, whose packets lie on its grid."""
        samples = [sample for sample, _ in self.packets if sample >= start]
        assert samples == list(range(start, start + PACKET_SAMPLES * len(samples), PACKET_SAMPLES))
        return tuple(packet for sample, packet in self.packets if sample >= start)


# ---- positions ------------------------------------------------------------------------------


def upsampled(upsampler: Upsampler, fed: list[tuple[int, np.ndarray]]) -> tuple[int, np.ndarray]:
    """Where the first sample lies, and all of them; no second jump may come."""
    begin, parts = None, []
    for position, frames in fed:
        first, samples = upsampler.feed(position, frames)
        if first is not None:
            assert begin is None, "the timeline jumped"
            begin = first
        parts.append(samples)
    assert begin is not None
    return begin, np.concatenate(parts)


@pytest.mark.parametrize("origin", [0, 1_234_567])
@pytest.mark.parametrize("rate", RATES)
def test_samples_lie_where_they_sounded(rate: int, origin: int) -> None:
    began = 7 * rate // 10 + 1
    frames = sine(np.arange(began, began + 2 * rate), rate)
    fed = [(began + at, part) for at, part in pieces(frames)]
    first, samples = upsampled(Upsampler(rate, origin), fed)
    assert first == origin + began * RATE // rate
    assert 2 * RATE - 200 <= len(samples) <= 2 * RATE
    truth = sine(np.arange(len(samples)) + began * RATE / rate, RATE).astype(float)
    inside = slice(500, len(samples) - 500)
    if rate == RATE:
        assert np.array_equal(samples, frames)
    # A sine at 440 Hz of this height changes by 690 from one sample to the next.
    assert np.abs(samples[inside] - truth[inside]).max() < 350


@pytest.mark.parametrize("rate", RATES)
def test_a_gap_is_silence_and_what_follows_keeps_its_position(rate: int) -> None:
    frames = sine(np.arange(3 * rate), rate)
    gap = (rate, rate + rate // 3)
    fed = [(at, part) for at, part in pieces(frames) if at + len(part) <= gap[0] or at >= gap[1]]
    missing = sorted(set(range(len(frames))) - {at + i for at, p in fed for i in range(len(p))})
    upsampler = Upsampler(rate)
    first, samples = upsampled(upsampler, fed)
    assert first == 0
    assert upsampler.filled == len(missing) > rate // 4
    silent = slice(missing[0] * RATE // rate + 200, missing[-1] * RATE // rate - 200)
    assert not samples[silent].any()
    truth = sine(np.arange(len(samples)), RATE).astype(float)
    after = slice(missing[-1] * RATE // rate + 200, len(samples) - 200)
    assert np.abs(samples[after] - truth[after]).max() < 350


@pytest.mark.parametrize("rate", RATES)
def test_a_gap_beyond_measure_is_a_jump(rate: int) -> None:
    upsampler = Upsampler(rate, 5)
    frames = sine(np.arange(rate), rate)
    assert upsampler.feed(0, frames)[0] == 5
    far = rate + LONGEST_GAP + 1
    first, samples = upsampler.feed(far, sine(np.arange(far, far + rate), rate))
    assert first == 5 + far * RATE // rate
    assert upsampler.filled == 0
    truth = sine(np.arange(len(samples)) + far * RATE / rate, RATE).astype(float)
    inside = slice(500, len(samples) - 500)
    assert np.abs(samples[inside] - truth[inside]).max() < 350


# ---- turns ----------------------------------------------------------------------------------


def expected(n: int) -> int:
    return -(-(n + LOOKAHEAD) // PACKET_SAMPLES) if n else 0


def sound(packets: tuple[bytes, ...], n: int) -> np.ndarray:
    """The turn's ``n`` samples, as an edge decodes them."""
    return decode(packets)[LOOKAHEAD : LOOKAHEAD + n]


def lag(heard: np.ndarray, truth: np.ndarray) -> int:
    """How many samples later than the truth it is that what was heard fits it best."""
    size = 2 * max(len(heard), len(truth))
    spectrum = np.fft.rfft(heard.astype(float), size) * np.fft.rfft(truth, size).conj()
    best = int(np.argmax(np.fft.irfft(spectrum, size)))
    return best if best < size // 2 else best - size


@given(
    start=st.integers(0, 60_000),
    length=st.integers(0, 40_000),
    begun_at=st.integers(0, 100_000),
    ended_at=st.integers(0, 120_000),
    seed=st.integers(0, 99),
)
def test_a_turn_has_all_of_its_samples_whenever_it_is_told(
    start: int, length: int, begun_at: int, ended_at: int, seed: int
) -> None:
    """Told late, a turn begins in the past; told early, its end has not been captured."""
    begun_at = min(begun_at, start + KEEP)
    ended_at = max(ended_at, begun_at)
    link = Link()
    mic = Microphone(link.send)
    todo = [(begun_at, lambda: mic.begin(3, start)), (ended_at, lambda: mic.end(3, start + length))]
    for at, part in pieces(np.resize(ASKED, 160_000), seed):
        while todo and todo[0][0] <= at:
            todo.pop(0)[1]()
        mic.feed(0 if at == 0 else None, part)
    for _, do in todo:
        do()
    sent = len(link.of(start))
    # What was captured between the end and its being told was sent, and can't be taken back.
    beyond = max(min(ended_at, 160_000) + 4096 - (start + length), 0)
    assert expected(length) <= sent <= expected(length + beyond)
    if beyond == 0:
        assert sent == expected(length)
    kept = mic.packets(3, (Span(0, 1 << 40),))
    assert kept == link.packets


def test_an_edge_that_decodes_all_packets_has_the_turn() -> None:
    link = Link()
    mic = Microphone(link.send)
    before, n = 20_000, len(ASKED)
    for at, part in pieces(np.concatenate((np.zeros(before, np.int16), ASKED))):
        mic.feed(0 if at == 0 else None, part)
        if at <= before < at + len(part):
            mic.begin(1, before)
    mic.end(1, before + n)
    packets = link.of(before)
    assert len(packets) == expected(n)
    heard = sound(packets, n)
    assert len(heard) == n
    assert abs(lag(heard, ASKED)) <= CODEC
    assert abs(lag(sound(packets[1:], n - PACKET_SAMPLES), ASKED) + PACKET_SAMPLES) <= CODEC


def test_the_pre_roll_is_in_it() -> None:
    link = Link()
    mic = Microphone(link.send)
    mic.feed(0, ASKED[:30_000])
    mic.begin(1, 10_000)
    assert len(link.packets) == 20_000 // PACKET_SAMPLES
    mic.feed(None, ASKED[30_000:50_000])
    mic.end(1, 50_000)
    heard = sound(link.of(10_000), 40_000)
    assert abs(lag(heard, ASKED[10_000:50_000])) <= CODEC


def test_what_is_older_than_what_is_kept_is_silence_in_its_place() -> None:
    link = Link()
    mic = Microphone(link.send)
    spoken = np.resize(ASKED, KEEP + 50_000)
    mic.feed(0, spoken)
    mic.begin(1, 0)
    mic.end(1, len(spoken))
    packets = link.of(0)
    assert len(packets) == expected(len(spoken))
    heard = sound(packets, len(spoken))
    assert np.abs(heard[:40_000]).max() < 100
    assert abs(lag(heard[60_000:], spoken[60_000:])) <= CODEC


def test_an_end_before_the_start_is_no_sound() -> None:
    link = Link()
    mic = Microphone(link.send)
    mic.begin(1, 10_000)
    mic.feed(0, ASKED[:5_000])
    mic.end(1, 0)
    mic.feed(None, ASKED[5_000:40_000])
    assert link.packets == []


def test_a_second_end_changes_nothing() -> None:
    link = Link()
    mic = Microphone(link.send)
    mic.begin(1, 0)
    mic.end(1, 9_600)
    mic.end(1, 48_000)
    mic.feed(0, ASKED[:48_000])
    assert len(link.packets) == expected(9_600)


def test_two_turns_at_a_time_do_not_disturb_each_other() -> None:
    alone, both = Link(), Link()
    one, two = Microphone(alone.send), Microphone(both.send)
    for at, part in pieces(ASKED[:96_000]):
        for mic in (one, two):
            mic.feed(0 if at == 0 else None, part)
        if at == 0:
            one.begin(1, 0)
            two.begin(1, 0)
            two.begin(2, 30_001)
    one.end(1, 60_000)
    two.end(1, 60_000)
    two.end(2, 90_000)
    whole = (Span(0, 1 << 40),)
    first, second = two.packets(1, whole), two.packets(2, whole)
    assert first == one.packets(1, whole)
    assert [sample for sample, _ in second][:2] == [30_001, 30_001 + PACKET_SAMPLES]
    assert abs(lag(sound(tuple(p for _, p in second), 59_999), ASKED[30_001:90_000])) <= CODEC
    two.forget(1)
    assert two.packets(1, whole) == []
    assert two.packets(2, whole) == second


def test_ranges_pick_the_packets_that_touch_them() -> None:
    mic = Microphone(Link().send)
    mic.begin(7, 1_000)
    mic.feed(0, ASKED[:60_000])

    def picked(*spans: Span) -> list[int]:
        return [(sample - 1_000) // PACKET_SAMPLES for sample, _ in mic.packets(7, spans)]

    assert picked(Span(1_000, 1_001)) == [0]
    assert picked(Span(1_000, 1_960)) == [0]
    assert picked(Span(1_959, 1_961)) == [0, 1]
    assert picked(Span(1_960, 1_960 + 960)) == [1]
    assert picked(Span(0, 1_000)) == []
    assert picked(Span(5_000, 5_001), Span(1_000, 1_001), Span(5_000, 6_000)) == [0, 4, 5]
    assert mic.packets(8, (Span(0, 60_000),)) == []


def test_the_timeline_goes_on_on_another_device() -> None:
    link = Link()
    mic = Microphone(link.send)
    mic.feed(*Upsampler(48_000).feed(0, ASKED[:48_000]))
    mic.begin(1, 40_000)
    assert mic.position == 48_000
    other = Upsampler(48_000, mic.position)
    mic.feed(*other.feed(0, ASKED[48_000:96_000]))
    mic.end(1, 90_000)
    assert mic.position == 96_000
    assert abs(lag(sound(link.of(40_000), 50_000), ASKED[40_000:90_000])) <= CODEC
