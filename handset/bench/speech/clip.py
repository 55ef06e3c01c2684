"""One clip of speech: its text, its Opus packets, and where each word is.

The file is that of `handset.audio.clips`; its header also holds:

    name, speaker, text, answers      `answers` names the utterance that a reply answers, else null
    words                             [{word, start, end}], in samples at `rate`, end exclusive
    measured, made                    how the words were placed; what spoke and encoded the clip
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from handset.audio.clips import (
    DECODED_RATE,
    ITEM_RATES,
    PACKET,
    Sound,
    decode,
    pack,
    packets_needed,
    unpack,
)

__all__ = [
    "DECODED_RATE",
    "ITEM_RATES",
    "PACKET",
    "Clip",
    "Made",
    "Word",
    "decode",
    "packets_needed",
]


@dataclass(frozen=True, slots=True)
class Word:
    """One word with its punctuation, audible in samples `start <= i < end` at the clip's rate."""

    word: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Made:
    """What made a clip: the same versions on the same processor make the same bytes."""

    voice: str
    words_per_minute: int
    espeak_ng: str
    libopus: str


@dataclass(frozen=True, slots=True)
class Clip:
    """A piece of speech, still encoded. The fields are those of the file."""

    name: str
    speaker: Literal["operator", "assistant"]
    text: str
    answers: str | None
    rate: int
    samples: int
    pre_skip: int
    packets: tuple[bytes, ...]
    words: tuple[Word, ...]
    measured: str
    made: Made

    def __post_init__(self) -> None:
        self._sound()
        if " ".join(word.word for word in self.words) != self.text:
            raise ValueError(f"clip {self.name}: the words do not make up the text {self.text!r}")

    @property
    def seconds(self) -> float:
        return self.samples / self.rate

    def pcm(self, rate: int | None = None) -> NDArray[np.int16]:
        """The decoded clip, mono, shape (n,), at its own rate or another: see `Sound.pcm`."""
        return self._sound().pcm(rate)

    def to_bytes(self) -> bytes:
        """The clip as a `.opusp` file."""
        header = {field: value for field, value in asdict(self).items() if field != "packets"}
        return pack(header, self.packets)

    @classmethod
    def from_bytes(cls, data: bytes) -> Clip:
        """Read a `.opusp` file. Raises ValueError if it is cut short or contradicts itself."""
        header, packets = unpack(data)
        words = tuple(Word(**word) for word in header.pop("words"))
        return cls(packets=packets, words=words, made=Made(**header.pop("made")), **header)

    def _sound(self) -> Sound:
        return Sound(self.name, self.rate, self.samples, self.pre_skip, self.packets)
