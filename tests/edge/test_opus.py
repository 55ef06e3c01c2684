"""Lengths are exact, whatever the item, the device and the way the packets came."""

from __future__ import annotations

import random
from math import ceil

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handset.core.packets import Malformed
from handset.edge.opus import CaptureEncoder, ItemDecoder, Samples, packets_needed
from handset.errors import UsageError

ITEM_RATES = (8_000, 16_000, 24_000, 48_000)
DEVICE_RATES = (48_000, 44_100, 16_000)
LENGTHS = (0, 1, 2, 479, 480, 481, 648, 649, 960, 12_345)


def sound(count: int) -> Samples:
    noise = np.random.default_rng(5).normal(0, 3_000, count + 8)
    return np.convolve(noise, np.ones(8) / 8, "valid")[:count].astype(np.int16)


def encoded(count: int) -> tuple[list[bytes], int]:
    encoder = CaptureEncoder(bit_rate=64_000)
    return encoder.feed(sound(count)) + encoder.finish(), encoder.lookahead


def decoded(packets: list[bytes], skip: int, item: int, device: int, samples: int) -> Samples:
    decoder = ItemDecoder(item, skip, device)
    return np.concatenate((decoder.packets(packets), decoder.end(samples)))


@pytest.mark.parametrize("device", DEVICE_RATES)
@pytest.mark.parametrize("item", ITEM_RATES)
@pytest.mark.parametrize("samples", LENGTHS)
def test_exact_length_and_rising_count(samples: int, item: int, device: int) -> None:
    packets, skip = encoded(samples * 48_000 // item)
    assert len(packets) == (packets_needed(samples, item, skip) if samples else 0)
    decoder = ItemDecoder(item, skip, device)
    draw = random.Random(samples)
    frames, counts = 0, [0]
    while decoder.next_packet < len(packets):
        at = decoder.next_packet
        frames += len(decoder.packets(packets[at : at + draw.randint(1, 7)]))
        counts.append(decoder.samples)
        assert frames <= ceil(counts[-1] * device / item)
    frames += len(decoder.end(samples))
    assert frames == ceil(samples * device / item)
    assert [*counts, samples] == sorted([*counts, decoder.samples])


@settings(deadline=None, max_examples=40)
@given(
    st.integers(0, 30_000),
    st.sampled_from(ITEM_RATES),
    st.sampled_from((*DEVICE_RATES, 96_000, 11_025)),
    st.integers(0, 2_000),
)
def test_any_length_and_pre_skip(samples: int, item: int, device: int, skip: int) -> None:
    packets = [encoded(960)[0][0]] * packets_needed(samples, item, skip)
    assert len(decoded(packets, skip, item, device, samples)) == ceil(samples * device / item)


def test_the_newest_packet_is_held_back() -> None:
    packets, skip = encoded(4_800)
    decoder = ItemDecoder(48_000, skip, 48_000)
    assert len(decoder.packets(packets[:1])) == 0
    assert len(decoder.packets(packets[1:2])) == 960 - skip == decoder.samples
    assert len(decoder.packets([])) == 0


@pytest.mark.parametrize("device", DEVICE_RATES)
def test_pieces_give_what_the_whole_gives(device: int) -> None:
    """A reconnect is only another way to cut the packets into messages."""
    packets, skip = encoded(48_000)
    whole = decoded(packets, skip, 48_000, device, 48_000)
    decoder = ItemDecoder(48_000, skip, device)
    parts = [decoder.packets([packet]) for packet in packets]
    assert np.array_equal(np.concatenate((*parts, decoder.end(48_000))), whole)


@pytest.mark.parametrize("device", (44_100, 16_000, 96_000))
def test_resampled_sound_is_where_it_was(device: int) -> None:
    """Against the same sound at 48 kHz, at the times of the device's frames."""
    encoder = CaptureEncoder(bit_rate=64_000)
    time = np.arange(48_000) / 48_000
    packets = encoder.feed((8_000 * np.sin(2 * np.pi * 700 * time)).astype(np.int16))
    packets += encoder.finish()
    at_48 = decoded(packets, encoder.lookahead, 48_000, 48_000, 48_000).astype(float)
    at_device = decoded(packets, encoder.lookahead, 48_000, device, 48_000).astype(float)

    def error(shift: float) -> float:
        times = (np.arange(len(at_device)) + shift) / device * 48_000
        wanted = np.interp(times, np.arange(len(at_48)), at_48)
        inner = slice(device // 50, -device // 50)
        return float(np.sqrt(np.mean((at_device - wanted)[inner] ** 2)))

    shifts = [-1.0, -0.5, -0.25, 0.0, 0.25, 0.5, 1.0]
    assert min(shifts, key=error) == 0.0
    assert error(0.0) < 40 < error(0.25)


def test_a_length_that_the_packets_do_not_make_up() -> None:
    packets, skip = encoded(12_000)
    for samples in (0, 1, 12_000 - 960, 12_000 + 960, (1 << 64) - 1):
        decoder = ItemDecoder(48_000, skip, 44_100)
        decoder.packets(packets)
        with pytest.raises(Malformed, match="13 came"):
            decoder.end(samples)


def test_bytes_that_are_no_opus_become_silence_of_the_same_length() -> None:
    packets, skip = encoded(9_600)
    draw = random.Random(3)
    broken = [draw.randbytes(draw.randint(1, 300)) for _ in range(200)]
    stereo_60_ms = bytes([0x1F << 3 | 0x07, 0x03]) + bytes(40)
    decoder = ItemDecoder(48_000, skip, 48_000)
    count = len(decoder.packets([*packets[:5], stereo_60_ms, *broken, *packets[5:]]))
    assert count == (len(packets) + 200) * 960 - skip
    assert 100 < decoder.damaged <= 201


def test_the_end_is_the_end() -> None:
    decoder = ItemDecoder(24_000, 312, 48_000)
    assert len(decoder.end(0)) == 0
    with pytest.raises(UsageError):
        decoder.end(0)
    with pytest.raises(UsageError):
        decoder.packets([b"\x48"])
    for wrong in ((0, 312, 48_000), (24_000, -1, 48_000), (24_000, 312, 0)):
        with pytest.raises(UsageError):
            ItemDecoder(*wrong)


@settings(deadline=None, max_examples=25)
@given(st.lists(st.integers(0, 3_000), max_size=12))
def test_capture_packets(blocks: list[int]) -> None:
    whole = sound(sum(blocks))
    encoder = CaptureEncoder()
    packets, at = [], 0
    for block in blocks:
        packets += encoder.feed(whole[at : at + block])
        at += block
        assert len(packets) == at // 960
    packets += encoder.finish()
    assert len(packets) == (ceil((at + encoder.lookahead) / 960) if at else 0)
    assert encoder.finish() == []
    again = CaptureEncoder()
    assert again.feed(whole) + again.finish() == packets


def test_capture_encoder_settings() -> None:
    encoder = CaptureEncoder()
    assert 0 < encoder.lookahead < 960
    packets = encoder.feed(sound(48_000 * 4))
    assert {packet[0] & 4 for packet in packets} == {0}, "mono"
    assert 18_000 < sum(map(len, packets)) * 8 / 4 < 30_000, "bit/s"
    encoder.finish()
    with pytest.raises(UsageError):
        encoder.feed(sound(960))


def test_the_captured_sound_is_where_it_was() -> None:
    """The decoded sound minus ``lookahead`` lies on the capture timeline."""
    whole = np.zeros(24_000, np.int16)
    whole[10_000:12_400] = sound(2_400) * 3
    encoder = CaptureEncoder(bit_rate=64_000)
    packets = encoder.feed(whole) + encoder.finish()
    out = decoded(packets, encoder.lookahead, 48_000, 48_000, len(whole)).astype(float)
    sent = whole[9_000:14_000].astype(float)
    shifts = range(-400, 401)
    alike = [float(np.dot(sent, out[9_000 + shift : 14_000 + shift])) for shift in shifts]
    assert abs(shifts[int(np.argmax(alike))]) <= 24
