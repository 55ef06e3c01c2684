"""The tones: audible, free of clicks, and not to be taken for each other."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray

from handset.audio import tones
from handset.audio.tones import HIGHEST_HZ, LOWEST_HZ, synthesise
from handset.core.notices import TONES, Notice

RATES = (16_000, 44_100, 48_000)
RATE = 48_000
every_tone = pytest.mark.parametrize("notice", TONES)
Sound = NDArray[np.float64]


def tone(notice: Notice, rate: int = RATE) -> Sound:
    return synthesise(notice, rate).astype(np.float64) / 32_768


def picture(sound: Sound) -> Sound:
    """Level over time and pitch, shape (frames of 20 ms, 13 bands of 150 Hz from 700 Hz)."""
    window = RATE // 50
    padded = np.zeros(-(-len(sound) // window) * window)
    padded[: len(sound)] = sound
    power = np.abs(np.fft.rfft(padded.reshape(-1, window) * np.hanning(window), 4 * window)) ** 2
    hertz = np.fft.rfftfreq(4 * window, 1 / RATE)
    bands = [(hertz >= 700 + 150 * b - 75) & (hertz < 700 + 150 * b + 75) for b in range(13)]
    levels: Sound = np.sqrt(np.stack([power[:, band].sum(axis=1) for band in bands], axis=1))
    return levels


def likeness(a: Sound, b: Sound) -> float:
    """1 for the same tone, 0 for two that have no pitch at the same time; the best of all shifts
    up to 60 ms."""
    p, q = picture(a), picture(b)
    length = max(len(p), len(q)) + 3
    best = 0.0
    for shift in range(-3, 4):
        x, y = np.zeros((length + 3, p.shape[1])), np.zeros((length + 3, p.shape[1]))
        x[max(shift, 0) : max(shift, 0) + len(p)] = p
        y[max(-shift, 0) : max(-shift, 0) + len(q)] = q
        best = max(best, float((x * y).sum() / np.sqrt((x**2).sum() * (y**2).sum())))
    return best


def out_of_band(sound: Sound) -> float:
    """The part of the energy, in dB, that is outside 400 to 3200 Hz: where clicks are."""
    silence = np.zeros(RATE // 10)
    power = np.abs(np.fft.rfft(np.concatenate([silence, sound, silence]))) ** 2
    hertz = np.fft.rfftfreq(len(sound) + 2 * len(silence), 1 / RATE)
    outside = (hertz < 400) | (hertz > 3_200)
    return float(10 * np.log10(power[outside].sum() / power.sum() + 1e-20))


def test_every_notice_with_a_tone_has_one() -> None:
    assert set(tones.TONES) == set(TONES)


@every_tone
@pytest.mark.parametrize("rate", RATES)
def test_a_tone_is_short_and_peaks_at_12_db_below_full_scale(notice: Notice, rate: int) -> None:
    sound = synthesise(notice, rate)

    assert sound.dtype == np.int16 and sound.ndim == 1
    assert 0.03 <= len(sound) / rate <= 0.65
    assert 20 * np.log10(np.abs(tone(notice, rate)).max()) == pytest.approx(-12, abs=0.05)


def test_the_permit_is_over_before_anybody_can_have_begun_to_speak() -> None:
    assert len(synthesise(Notice.TALK_PERMIT, RATE)) <= RATE // 10


@every_tone
def test_a_tone_has_no_dc_and_no_click(notice: Notice) -> None:
    sound = tone(notice)

    assert abs(sound.mean()) * 32_768 < 1
    assert abs(sound[0]) < 1e-3 and abs(sound[-1]) < 1e-3
    assert out_of_band(sound) < -40


@every_tone
def test_a_tone_is_where_it_is_heard_over_machines(notice: Notice) -> None:
    sound = tone(notice)
    power = np.abs(np.fft.rfft(sound)) ** 2
    hertz = np.fft.rfftfreq(len(sound), 1 / RATE)
    inside = (hertz > LOWEST_HZ - 50) & (hertz < HIGHEST_HZ + 50)

    assert power[inside].sum() / power.sum() > 0.95


@pytest.mark.parametrize(("a", "b"), list(combinations(TONES, 2)))
def test_no_two_tones_are_alike(a: Notice, b: Notice) -> None:
    assert likeness(tone(a), tone(b)) < 0.65


def test_permit_and_denial_have_no_pitch_in_common() -> None:
    assert likeness(tone(Notice.TALK_PERMIT), tone(Notice.DENY)) < 0.1
    assert len(tone(Notice.DENY)) > 3 * len(tone(Notice.TALK_PERMIT))


def strongest(sound: Sound) -> list[int]:
    """The band that leads, at each fifth of a tone."""
    return [int(part.sum(axis=0).argmax()) for part in np.array_split(picture(sound), 5)]


@pytest.mark.parametrize(
    ("up", "down"),
    [
        (Notice.LATCH_ON, Notice.LATCH_OFF),
        (Notice.CONTROL_BACK, Notice.LOW_BATTERY),
        (Notice.TALK_PERMIT, Notice.TURN_DISCARDED),
        (Notice.WAITING_FOR_YOU, Notice.TURN_DISCARDED),
    ],
)
def test_what_opens_rises_and_what_ends_falls(up: Notice, down: Notice) -> None:
    rising, falling = strongest(tone(up)), strongest(tone(down))

    assert rising[0] < rising[-1] and falling[0] > falling[-1]


def test_a_tone_without_edges_clicks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tones, "EDGE_MS", 0)
    monkeypatch.setitem(tones.TONES, Notice.DENY, (((1_050,), 47), ((1_050,), 33)))

    assert out_of_band(tone(Notice.DENY)) > -40


def test_a_tone_that_is_nearly_another_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(tones.TONES, Notice.DENY, (((1_020,), 50), ((1_480,), 45)))

    assert likeness(tone(Notice.TALK_PERMIT), tone(Notice.DENY)) > 0.8
