"""A scene: what the microphone hears for some seconds, what is played, and what is true.

Every scene follows from its condition and its seed alone.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from random import Random

import numpy as np

from handset.audio.playout import Frames
from handset.bench.voice import noises
from handset.bench.voice.voices import (
    ACTIVE,
    BACKCHANNELS,
    CORRECTIONS,
    INTERRUPTIONS,
    RATE,
    SHORT,
    Sound,
    pick,
    spoken,
)


class Kind(StrEnum):
    """What a stretch of a scene is."""

    SPEECH = "speech"
    SHORT = "short word"
    COUGH = "cough"
    BACKCHANNEL = "backchannel"
    CORRECTION = "correction"
    """Two halves of one turn; ``pause`` lies between them."""


@dataclass(frozen=True, slots=True)
class Condition:
    """``snr_db``: speech over ``noise``. ``echo_db``: the assistant under speech, None when
    nothing is played. ``drift_ppm``: of the loudspeaker's clock against the microphone's."""

    name: str
    kinds: tuple[Kind, ...] = (Kind.SPEECH,)
    noise: str = ""
    snr_db: float = 0
    echo_db: float | None = None
    drift_ppm: float = 0
    pause_s: float = 0
    noise_from_s: float = 0
    """When the noise is switched on."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """Audible in samples ``start <= i < end``."""

    kind: Kind
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Scene:
    condition: Condition
    seed: int
    mic: Frames
    played: Frames | None
    """By device frame; the first leaves the converter when the microphone's first enters."""
    stretches: tuple[Stretch, ...]


def noise_conditions() -> list[Condition]:
    """All with speech in them, 1.8 s and more apart: what is between is where the false
    alarms are."""
    quiet = [Condition("quiet")]
    return quiet + [
        Condition(f"{name} {snr} dB", noise=name, snr_db=snr)
        for name in noises.NOISES
        for snr in (10, 5, 0)
    ]


def starting_conditions() -> list[Condition]:
    """A compressor that starts, and nobody speaks."""
    return [
        Condition(f"machine starts, {snr} dB", (), "machine", snr, noise_from_s=6.0)
        for snr in (10, 5, 0)
    ]


def echo_conditions() -> list[Condition]:
    found = []
    for level, drift in ((-20, 150.0), (-20, -200.0), (-40, 100.0)):
        name = f"echo {level} dB {drift:+.0f} ppm"
        found += [
            Condition(f"{name}, alone", (), echo_db=level, drift_ppm=drift),
            Condition(f"{name}, interrupted", echo_db=level, drift_ppm=drift),
        ]
    return found


def other_conditions() -> list[Condition]:
    return [
        Condition("short words", (Kind.SHORT,)),
        Condition("coughs", (Kind.COUGH,)),
        Condition("backchannels", (Kind.BACKCHANNEL,)),
    ]


def detection_conditions() -> list[Condition]:
    """All but the corrections."""
    return [
        *noise_conditions(),
        *starting_conditions(),
        *echo_conditions(),
        *other_conditions(),
    ]


PAUSES_S = (0.3, 0.6, 1.0, 1.5, 2.0)


def correction_conditions() -> list[Condition]:
    found = []
    for pause in PAUSES_S:
        found += [
            Condition(f"pause {pause:g} s", (Kind.CORRECTION,), pause_s=pause),
            Condition(f"pause {pause:g} s, pink 10 dB", (Kind.CORRECTION,), "pink", 10,
                      pause_s=pause),
        ]  # fmt: skip
    return found


EVENTS = 5
LEAD_S, ALONE_S = 2.0, 24.0


def make(condition: Condition, seed: int, events: int = EVENTS) -> Scene:
    """Raises EspeakMissing."""
    salt = zlib.crc32(condition.name.encode())
    rng, numbers = Random(f"{condition.name}/{seed}"), np.random.default_rng([salt, seed])
    placed: list[tuple[Kind, int, Sound]] = []
    at = int(LEAD_S * RATE)
    for _ in range(events if condition.kinds else 0):
        kind = rng.choice(condition.kinds)
        for sound, after_s in _parts(kind, condition, rng, numbers):
            placed.append((kind, at, sound))
            at += len(sound) + int(after_s * RATE)
    n = at + RATE if placed else int(ALONE_S * RATE)
    n = -(-n // 480) * 480
    mic = noises.ROOM * numbers.standard_normal(n)
    for _, start, sound in placed:
        mic[start : start + len(sound)] += sound
    if condition.noise:
        level = ACTIVE * 10 ** (-condition.snr_db / 20)
        first = int(condition.noise_from_s * RATE)
        mic[first:] += level * noises.NOISES[condition.noise](numbers, n - first)
    played = None
    if condition.echo_db is not None:
        out = noises.assistant(rng, n + RATE)
        level = ACTIVE * 10 ** (condition.echo_db / 20)
        mic += level * noises.echo(numbers, out, n, condition.drift_ppm)
        played = _int16(out)
    stretches = tuple(Stretch(kind, start, start + len(sound)) for kind, start, sound in placed)
    return Scene(condition, seed, _int16(mic), played, stretches)


def _parts(
    kind: Kind, condition: Condition, rng: Random, numbers: np.random.Generator
) -> list[tuple[Sound, float]]:
    """The sounds of one event, each with the seconds of silence after it."""
    after = rng.uniform(1.8, 2.8)
    one: Callable[[], Sound]
    match kind:
        case Kind.SPEECH:
            one = lambda: pick(rng, INTERRUPTIONS).sound  # noqa: E731
        case Kind.SHORT:
            one = lambda: pick(rng, SHORT).sound  # noqa: E731
        case Kind.COUGH:
            one = lambda: noises.cough(numbers)  # noqa: E731
        case Kind.BACKCHANNEL:
            one = lambda: spoken(rng, rng.choice(BACKCHANNELS)).sound * 0.7  # noqa: E731
        case Kind.CORRECTION:
            first, second = rng.choice(CORRECTIONS)
            parts = [(spoken(rng, first).sound, condition.pause_s)]
            return [*parts, (spoken(rng, second).sound, 3.5)]
    return [(one(), after)]


def _int16(sound: Sound) -> Frames:
    return np.rint(np.clip(sound, -1, 1) * 32_767).astype(np.int16)


def halves(seeds: Sequence[int]) -> tuple[list[int], list[int]]:
    """Those that thresholds are chosen on, and those that they are reported on."""
    return list(seeds[::2]), list(seeds[1::2])
