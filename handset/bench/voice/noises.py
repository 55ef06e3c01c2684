"""What else a microphone hears on a site, and the assistant itself. All from a seed.

Lengths are samples at 48 kHz; levels are RMS, full scale is 1.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from handset.audio.resample import Kernel
from handset.bench import speech
from handset.bench.voice.voices import CROWD, ENGLISH, RATE, Sound, say, to_level

ROOM = 10 ** (-75 / 20)
"""A quiet room and the microphone's own noise."""


Gain = Callable[[NDArray[Any]], NDArray[Any]]


def shaped(rng: np.random.Generator, n: int, gain: Gain) -> Sound:
    """Noise with the spectrum ``gain(f)``, f in Hz; RMS 1."""
    spectrum = np.fft.rfft(rng.standard_normal(n))
    spectrum *= gain(np.fft.rfftfreq(n, 1 / RATE))
    return unit(np.fft.irfft(spectrum, n))


def unit(sound: Sound) -> Sound:
    """RMS 1."""
    scaled: Sound = sound / np.sqrt(np.mean(np.square(sound)))
    return scaled


def pink(rng: np.random.Generator, n: int) -> Sound:
    return shaped(rng, n, lambda f: 1 / np.sqrt(np.maximum(f, 20)))


def babble(rng: np.random.Generator, n: int) -> Sound:
    """Eight people who talk at once."""
    total = np.zeros(n)
    for _ in range(8):
        voice = ENGLISH[rng.integers(len(ENGLISH))]
        one = say(CROWD[rng.integers(len(CROWD))], voice, int(rng.integers(14, 20)) * 10).sound
        total += np.roll(np.resize(np.concatenate((one, np.zeros(RATE // 3))), n), rng.integers(n))
    return unit(total)


def machine(rng: np.random.Generator, n: int) -> Sound:
    """A piston compressor: ten to fourteen strokes a second, each a knock that rings, over
    hiss."""
    strokes = np.zeros(n)
    at, every = 0.0, RATE / rng.uniform(10, 14)
    while at < n:
        strokes[int(at)] = rng.uniform(0.7, 1.3)
        at += every * rng.uniform(0.95, 1.05)
    t = np.arange(RATE // 8) / RATE
    ring = np.exp(-t / 0.02) * (
        np.sin(2 * np.pi * 180 * t) + 0.5 * np.sin(2 * np.pi * 950 * t + 1)
        + 0.5 * rng.standard_normal(len(t))
    )  # fmt: skip
    size = 1 << (n + len(ring)).bit_length()
    knocks = np.fft.irfft(np.fft.rfft(strokes, size) * np.fft.rfft(ring, size), size)[:n]
    sound = unit(knocks) + 0.5 * shaped(rng, n, lambda f: np.minimum(f / 1000, 1))
    return unit(sound)


NOISES: dict[str, Callable[[np.random.Generator, int], Sound]] = {
    "pink": pink,
    "babble": babble,
    "machine": machine,
}


def cough(rng: np.random.Generator) -> Sound:
    """A burst of air, then a hoarse tail: 200 to 350 ms, sometimes twice. As loud as speech
    at least."""

    def one() -> Sound:
        n = int(rng.uniform(0.2, 0.35) * RATE)
        centre = rng.uniform(500, 1500)
        air = shaped(rng, n, lambda f: 1 / (1 + ((f - centre) / 900) ** 2) + 0.15)
        t = np.arange(n) / RATE
        return air * np.minimum(t / 0.008, 1) * np.exp(-t / rng.uniform(0.05, 0.1))

    parts = [one()]
    if rng.random() < 0.3:
        parts += [np.zeros(int(rng.uniform(0.25, 0.4) * RATE)), one()]
    return to_level(np.concatenate(parts)) * 10 ** (rng.uniform(0, 6) / 20)


# ---- the assistant, as the loudspeaker makes it and the microphone hears it --------------------


def assistant(rng: Random, n: int) -> Sound:
    """Its replies, one after the other, at -20 dBFS: what is given to the device."""
    clips = list(speech.names(speaker="assistant"))
    rng.shuffle(clips)
    parts: list[Sound] = []
    while sum(map(len, parts)) < n:
        for name in clips:
            parts += [speech.load(name).pcm(RATE) / 32_768, np.zeros(RATE // 5)]
    return to_level(np.concatenate(parts)[:n], 0.1)


def echo(
    rng: np.random.Generator, played: Sound, n: int, drift_ppm: float, soft_clip: float = 1.5
) -> Sound:
    """``n`` samples of the microphone's clock; RMS 1 while the assistant speaks. The
    loudspeaker clips softly (-35 dB of harmonics at 1.5), leaks 2 to 12 ms later, and rings
    for some 60 ms; its clock is ``drift_ppm`` faster."""
    peak = np.abs(played).max()
    driven = np.tanh(soft_clip * played / peak)
    kernel = Kernel(RATE, RATE)
    pad = np.zeros(kernel.half + 1)
    padded = np.concatenate((pad, driven, pad, np.zeros(RATE // 10))).astype(np.float32)
    positions = np.arange(n, dtype=np.float64) * (1 + drift_ppm * 1e-6)
    positions = positions[positions < len(driven)]
    heard = np.zeros(n)
    for at in range(0, len(positions), RATE):
        part = positions[at : at + RATE]
        heard[at : at + len(part)] = kernel.at(padded, part + len(pad))
    direct = int(rng.uniform(0.002, 0.012) * RATE)
    t = np.arange(int(0.1 * RATE)) / RATE
    room = 0.3 * rng.standard_normal(len(t)) * np.exp(-t / 0.02)
    room[0] = 4.0
    response = np.concatenate((np.zeros(direct), room))
    size = 1 << (n + len(response)).bit_length()
    return to_level(
        np.fft.irfft(np.fft.rfft(heard, size) * np.fft.rfft(response, size), size)[:n], 1.0
    )
