"""Make the sound of the notices' words: `python -m handset.bench.speech.prompts [folder]`.

Needs espeak-ng (apt install espeak-ng). The texts are in `handset/notices/<language>.toml`. A text
with a word that the handset must not say is refused before anything is spoken.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import handset.notices
from handset.audio.clips import Sound, pack
from handset.audio.whole_resample import resample
from handset.core.notices import PROMPTS, Notice
from handset.notices import LANGUAGES
from handset.notices.words import forbidden_in

from .espeak import EspeakMissing, Spoken, speak, version
from .make import encode, libopus_version

RATE = 16_000  # all that is in a voice of espeak-ng which helps in noise
BIT_RATE = 16_000
LEAD, TAIL = 0.02, 0.08  # seconds of silence around the words
PEAK = 10 ** (-6 / 20)
FLOOR = 0.004  # softer than -48 dB to the loudest sample is silence


def make(languages: Sequence[str] = LANGUAGES) -> dict[tuple[str, Notice], bytes]:
    """Every prompt as a `.opusp` file. Raises EspeakMissing; ValueError for a forbidden word."""
    version()  # here rather than in the children, whose failure would be harder to read
    wanted = [(language, notice) for language in languages for notice in PROMPTS]
    for language, notice in wanted:
        text = handset.notices.pack(language).prompts[notice]
        if words := forbidden_in(language, notice, text):
            raise ValueError(f"{language}.toml, {notice}: {text!r} says {', '.join(words)}")
    with multiprocessing.get_context("spawn").Pool(2, maxtasksperchild=1) as pool:
        return dict(zip(wanted, pool.starmap(make_one, wanted, chunksize=1), strict=True))


def make_one(language: str, notice: Notice) -> bytes:
    """One prompt; only in a process that has not spoken before (see `espeak.py`)."""
    voice = handset.notices.pack(language)
    text = voice.prompts[notice]
    spoken = speak(text, voice.voice, voice.words_per_minute)
    audio = resample(trim(spoken), spoken.rate, RATE)
    audio = np.rint(audio * (PEAK * 32_767 / np.abs(audio).max())).astype(np.int16)
    packets, pre_skip = encode(audio, RATE, BIT_RATE)
    encoded = Sound(f"{language}/{notice}", RATE, len(audio), pre_skip, packets)
    made = {
        "voice": voice.voice,
        "words_per_minute": voice.words_per_minute,
        "espeak_ng": version(),
        "libopus": libopus_version(),
    }
    header = {
        "name": encoded.name,
        "text": text,
        "rate": encoded.rate,
        "samples": encoded.samples,
        "pre_skip": encoded.pre_skip,
        "made": made,
    }
    return pack(header, encoded.packets)


def trim(spoken: Spoken) -> NDArray[np.float64]:
    """The words with LEAD and TAIL of silence around them."""
    level = np.abs(spoken.pcm.astype(np.float64))
    sounding = np.flatnonzero(level >= FLOOR * level.max())
    words = spoken.pcm[sounding[0] : sounding[-1] + 1]
    lead, tail = (np.zeros(round(seconds * spoken.rate)) for seconds in (LEAD, TAIL))
    return np.concatenate([lead, words, tail])


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m handset.bench.speech.prompts",
        description="Make the sound of the notices' words.",
    )
    shipped = Path(handset.notices.__file__).with_name("audio")
    parser.add_argument("folder", nargs="?", type=Path, default=shipped)
    folder: Path = parser.parse_args(arguments).folder
    try:
        sounds = make()
    except (EspeakMissing, ValueError) as error:
        print(error, file=sys.stderr)
        return 1
    for (language, notice), data in sounds.items():
        path = folder / language / f"{notice}.opusp"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    size = sum(map(len, sounds.values()))
    print(f"{len(sounds)} prompts, {size} bytes, espeak-ng {version()}, into {folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
