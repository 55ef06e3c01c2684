"""Language packs: what the notices say, and the sound of it.

    >>> sounds = Sounds("en", 48_000)
    >>> sounds.frames(Notice.RECEIVED, Part.PROMPT)      # int16, mono, at the device's rate

A pack is `<language>.toml` with a text for every notice that has words, and `audio/<language>`
with their sound, made by `python -m handset.bench.speech.prompts`. The voices are synthetic
(espeak-ng). Tones are the same in every language and need no file: `handset.audio.tones`.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import numpy as np
from numpy.typing import NDArray

from handset.audio.clips import Sound, unpack
from handset.audio.tones import synthesise
from handset.core.notices import PROMPTS, TONES, Notice, Part
from handset.errors import UsageError

LANGUAGES = ("en", "de", "fr", "es")


@dataclass(frozen=True, slots=True)
class Pack:
    """``voice``: a voice file of espeak-ng. ``prompts``: exactly one text per notice with words."""

    language: str
    name: str
    voice: str
    words_per_minute: int
    prompts: dict[Notice, str]


@cache
def pack(language: str) -> Pack:
    """The texts of a language. Raises UsageError for one that does not ship."""
    if language not in LANGUAGES:
        raise UsageError(f"no notices in {language!r}; there are {', '.join(LANGUAGES)}")
    text = (files(__name__) / f"{language}.toml").read_text(encoding="utf-8")
    return parse(text, language)


def parse(text: str, language: str) -> Pack:
    """A pack from its TOML. Raises UsageError when its prompts are not the closed set."""
    data = tomllib.loads(text)
    prompts: dict[str, str] = data["prompts"]
    if odd := sorted(prompts.keys() ^ set(PROMPTS)):
        raise UsageError(f"notices in {language}: {', '.join(odd)} missing, or not in the set")
    return Pack(
        language,
        data["language"],
        data["voice"],
        data["words_per_minute"],
        {notice: prompts[notice] for notice in PROMPTS},
    )


def read_sound(language: str, notice: Notice) -> tuple[Sound, str, dict[str, str | int]]:
    """A prompt, still encoded, the text that was spoken, and what made it."""
    path = files(__name__) / "audio" / language / f"{notice}.opusp"
    header, packets = unpack(path.read_bytes())
    text, made = header.pop("text"), header.pop("made")
    return Sound(packets=packets, **header), text, made


class Sounds:
    """All notices in one language, decoded at the device's rate, so that none waits to be
    made when it is needed."""

    def __init__(self, language: str, rate: int) -> None:
        """``rate``, Hz. Raises UsageError for a language that does not ship."""
        self.language = pack(language).language
        self.rate = rate
        self._tones = {notice: synthesise(notice, rate) for notice in TONES}
        self._prompts = {notice: read_sound(language, notice)[0].pcm(rate) for notice in PROMPTS}

    def frames(self, notice: Notice, part: Part) -> NDArray[np.int16]:
        """The sound of a notice's tone or words, shape (n,). KeyError for a part it has not."""
        return (self._tones if part is Part.TONE else self._prompts)[notice]
