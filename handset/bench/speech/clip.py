"""One clip of speech: its text, its Opus packets, and where each word is.

A `.opusp` file is one line of JSON (UTF-8, ended by a newline: `head -n 1 clips/stop.opusp` reads
it), then the packets, each a big-endian u16 length and that many bytes, up to the end of the file.

    name, speaker, text, answers      `answers` names the utterance that a reply answers, else null
    rate, samples                     the clip is exactly `samples` samples at `rate`
    pre_skip                          samples at 48 kHz that are decoded before the clip begins
    packets                           how many packets follow, 20 ms each
    words                             [{word, start, end}], in samples at `rate`, end exclusive
    measured, made                    how the words were placed; what spoke and encoded the clip

The length is exact although Opus has only whole packets. With n = samples * 48000 / rate, there are
`ceil((n + pre_skip) / 960)` packets; one fresh decoder makes y of all of them, at 48 kHz; the clip
is `y[pre_skip : pre_skip + n]`.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any, Literal

import av
import numpy as np
from numpy.typing import NDArray

from .resample import resample

DECODED_RATE = 48_000
PACKET = 960  # samples at 48 kHz in one packet of 20 ms
ITEM_RATES = (8_000, 12_000, 16_000, 24_000, 48_000)  # the rates an Opus encoder takes


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
        if self.rate not in ITEM_RATES:
            raise ValueError(f"clip {self.name}: rate {self.rate} is none of {ITEM_RATES}")
        if len(self.packets) != (needed := packets_needed(self.samples, self.rate, self.pre_skip)):
            raise ValueError(f"clip {self.name}: {len(self.packets)} packets, not {needed}")
        if " ".join(word.word for word in self.words) != self.text:
            raise ValueError(f"clip {self.name}: the words do not make up the text {self.text!r}")

    @property
    def seconds(self) -> float:
        return self.samples / self.rate

    def pcm(self, rate: int | None = None) -> NDArray[np.int16]:
        """The decoded clip, mono, shape (n,).

        At the clip's own rate (the default) n is exactly `samples`. At another it is `samples`
        times the ratio of the rates, rounded to the nearest, halves up. Sample k is the sound at
        k / rate seconds: positions scale, nothing is delayed. 48 kHz is what the decoder puts out;
        every other rate is resampled from that.
        """
        rate = self.rate if rate is None else rate
        start, count = self.pre_skip, self.samples * DECODED_RATE // self.rate
        decoded = decode(self.packets)[start : start + count]
        if rate == DECODED_RATE:
            return decoded
        resampled = resample(decoded.astype(np.float64), DECODED_RATE, rate)
        return np.clip(np.rint(resampled), -32_768, 32_767).astype(np.int16)

    def to_bytes(self) -> bytes:
        """The clip as a `.opusp` file."""
        header = {field: value for field, value in asdict(self).items() if field != "packets"}
        header["packets"] = len(self.packets)
        line = json.dumps(header, ensure_ascii=False).encode() + b"\n"
        return line + b"".join(len(packet).to_bytes(2, "big") + packet for packet in self.packets)

    @classmethod
    def from_bytes(cls, data: bytes) -> Clip:
        """Read a `.opusp` file. Raises ValueError if it is cut short or contradicts itself."""
        line, newline, body = data.partition(b"\n")
        if not newline:
            raise ValueError("not a speech clip: no header line")
        header: dict[str, Any] = json.loads(line)
        packets = _split(body)
        if len(packets) != header.pop("packets"):
            raise ValueError(f"clip {header['name']}: not the packets its header counts")
        words = tuple(Word(**word) for word in header.pop("words"))
        return cls(packets=packets, words=words, made=Made(**header.pop("made")), **header)


def packets_needed(samples: int, rate: int, pre_skip: int) -> int:
    """How many 20 ms packets carry `samples` at `rate` behind `pre_skip` samples at 48 kHz."""
    return -(-(samples * DECODED_RATE // rate + pre_skip) // PACKET)


def decode(packets: tuple[bytes, ...]) -> NDArray[np.int16]:
    """All that a fresh decoder makes of the packets: mono, 48 kHz, shape (len(packets) * 960,)."""
    decoder = av.CodecContext.create("libopus", "r")
    # No extradata: with an OpusHead the decoder would take the pre-skip off by itself.
    decoder.sample_rate, decoder.layout = DECODED_RATE, "mono"
    frames = [frame for packet in packets for frame in decoder.decode(av.Packet(packet))]
    decoded = np.concatenate([frame.to_ndarray()[0] for frame in frames])
    got = f"{len(decoded)} samples of {decoded.dtype}"
    if decoded.dtype != np.int16 or len(decoded) != len(packets) * PACKET:
        raise ValueError(f"{len(packets)} packets of 20 ms decoded to {got}")
    return decoded


def _split(body: bytes) -> tuple[bytes, ...]:
    packets, at = [], 0
    while at < len(body):
        end = at + 2 + int.from_bytes(body[at : at + 2], "big")
        if end > len(body):
            raise ValueError("the speech clip is cut short inside a packet")
        packets.append(body[at + 2 : end])
        at = end
    return tuple(packets)
