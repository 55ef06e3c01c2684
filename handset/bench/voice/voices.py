"""What people say, spoken by espeak-ng: words that interrupt, words that do not, and pauses.

The same text, voice and version of espeak-ng give the same samples: each is spoken by a
process of its own, once, and kept in a cache folder.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import wave
from dataclasses import dataclass
from functools import cache
from io import BytesIO
from pathlib import Path
from random import Random

import numpy as np
from numpy.typing import NDArray

from handset.audio.whole_resample import resample
from handset.bench.speech.espeak import EspeakMissing

RATE = 48_000
Sound = NDArray[np.float64]
"""Full scale is 1."""

ENGLISH = ("en-us", "en-gb", "en-gb-scotland", "en-us+f3", "en-us+m3", "en-gb+f2", "en-us+f5")
VOICES: dict[str, tuple[str, ...]] = {
    "en": ENGLISH,
    "de": ("de", "de+f2", "de+m3"),
    "fr": ("fr", "fr+f4"),
    "es": ("es", "es+f1", "es+m5"),
}
INTERRUPTIONS: dict[str, tuple[str, ...]] = {
    "en": (
        "Hold on, that is the wrong pump.",
        "Stop there, I asked for the second fan.",
        "No, not that one.",
        "Wait a moment, please, somebody is at the door.",
        "Go back to the pressure reading.",
        "Excuse me, what was the number again?",
        "Actually, leave the valve open until Friday.",
        "That is enough, thank you.",
        "Hang on, I can't see the display from here.",
        "Please say that again, but slower.",
    ),
    "de": (
        "Moment, das ist die falsche Pumpe.",
        "Nein, ich meine den zweiten Lüfter.",
        "Bitte noch einmal, aber langsamer.",
    ),
    "fr": ("Attends, ce n'est pas la bonne pompe.", "Non, je voulais le deuxième ventilateur."),
    "es": ("Espera, esa no es la bomba correcta.", "No, el segundo ventilador, por favor."),
}
SHORT: dict[str, tuple[str, ...]] = {
    "en": ("Stop.", "No.", "Wait.", "Hold on.", "Hey.", "Not that.", "Cancel."),
    "de": ("Halt.", "Nein.", "Moment."),
    "fr": ("Attends.", "Non."),
    "es": ("Espera.", "Alto."),
}
BACKCHANNELS = ("Mm-hm.", "Yeah.", "Okay.", "Uh-huh.", "Right.", "Hm.", "I see.")
CORRECTIONS = (
    ("Release the invoice", "no, hold it until Friday."),
    ("Set the fan to forty", "sorry, to fourteen percent."),
    ("Tell the night shift that pump two", "I mean pump three, is running."),
    ("Close the valve on the left", "the left one seen from the door."),
)
CROWD = (
    "The second shift begins at two, and the forklift has to be back by then, or nobody will "
    "be able to load the trailer before the rain comes in from the west.",
    "I told them twice that the gauge was wrong, but they went on and filled the tank anyway, "
    "and now somebody has to write all of that down again.",
    "We could move the pallets over to the other side, if the lift is free in the afternoon, "
    "which I doubt, because it is being serviced again this week.",
)
AUDIBLE = 0.002
"""-54 dB to the loudest millisecond: what is softer is silence."""


@dataclass(frozen=True, slots=True)
class Said:
    """``sound`` begins and ends with an audible millisecond; its active level is -26 dBFS."""

    text: str
    voice: str
    sound: Sound

    @property
    def seconds(self) -> float:
        return len(self.sound) / RATE


ACTIVE = 10 ** (-26 / 20)
"""RMS of speech at the microphone."""


def cache_folder() -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "kelter-handset" / "bench-voice"


@cache
def version() -> str:
    """Raises EspeakMissing."""
    try:
        done = subprocess.run(["espeak-ng", "--version"], capture_output=True, text=True)
    except FileNotFoundError as error:
        raise EspeakMissing(
            "the corpus is spoken by espeak-ng, which is not installed: apt install espeak-ng"
        ) from error
    return done.stdout.split("Data at")[0].strip()


def say(text: str, voice: str, speed: int = 165, pitch: int = 50) -> Said:
    """Raises EspeakMissing."""
    key = hashlib.sha256(f"{version()}|{voice}|{speed}|{pitch}|{text}".encode()).hexdigest()[:24]
    path = cache_folder() / f"{key}.npy"
    try:
        sound = np.load(path).astype(np.float64) / 32_768
    except (OSError, ValueError):
        sound = _spoken(text, voice, speed, pitch)
        path.parent.mkdir(parents=True, exist_ok=True)
        whole = path.with_suffix(f".{os.getpid()}.npy")
        np.save(whole, np.rint(np.clip(sound, -1, 1) * 32_767).astype(np.int16))
        whole.replace(path)
        sound = np.load(path).astype(np.float64) / 32_768
    return Said(text, voice, sound)


def _spoken(text: str, voice: str, speed: int, pitch: int) -> Sound:
    command = ["espeak-ng", "-v", voice, "-s", str(speed), "-p", str(pitch), "--stdout", text]
    done = subprocess.run(command, capture_output=True)
    if done.returncode != 0 or not done.stdout:
        raise EspeakMissing(
            f"espeak-ng did not speak with voice {voice!r}: apt install espeak-ng-data "
            f"({done.stderr.decode(errors='replace').strip()})"
        )
    with wave.open(BytesIO(done.stdout)) as file:
        rate = file.getframerate()
        # Written to a pipe, its header does not know the length.
        raw = done.stdout[44:]
    pcm = np.frombuffer(raw[: len(raw) // 2 * 2], np.int16) / 32_768
    return to_level(trimmed(resample(pcm, rate, RATE)))


def trimmed(sound: Sound) -> Sound:
    step = RATE // 1000
    n = len(sound) // step
    rms = np.sqrt(np.mean(np.square(sound[: n * step].reshape(n, step)), axis=1))
    loud = np.flatnonzero(rms > AUDIBLE * rms.max())
    return sound[loud[0] * step : (loud[-1] + 1) * step]


def to_level(sound: Sound, rms: float = ACTIVE) -> Sound:
    """RMS over the 10 ms that are less than 30 dB below the loudest."""
    return sound * (rms / active_rms(sound))


def active_rms(sound: Sound) -> float:
    step = RATE // 100
    n = max(len(sound) // step, 1)
    power = np.mean(np.square(np.resize(sound, n * step).reshape(n, step)), axis=1)
    return float(np.sqrt(np.mean(power[power > power.max() * 1e-3])))


def pick(rng: Random, texts: dict[str, tuple[str, ...]]) -> Said:
    """Some text in some voice, half of them English."""
    language = "en" if rng.random() < 0.5 else rng.choice(sorted(texts))
    return spoken(rng, rng.choice(texts[language]), language)


def spoken(rng: Random, text: str, language: str = "en") -> Said:
    voice = rng.choice(VOICES[language])
    return say(text, voice, rng.randrange(140, 200, 10), rng.randrange(35, 70, 5))
