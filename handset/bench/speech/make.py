"""Make the bench's speech: `python -m handset.bench.speech.make [folder]`.

Needs espeak-ng (apt install espeak-ng).

How a word gets its place. espeak-ng reports the sample at which each word begins; between one such
report and the next there is the word, and perhaps a silence before it (the closed lips of a "p"
among them) or after it. Both are cut off by level, in steps of a millisecond, on the synthesiser's
own samples: what stays is the word. Nothing is inferred from the spelling, and nothing from the
Opus packets, so a test can hold the decoded packets against it.
"""

from __future__ import annotations

import argparse
import ctypes
import multiprocessing
import sys
from collections.abc import Iterable, Sequence
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
from numpy.typing import NDArray

from .clip import Clip, Made, Word, packets_needed
from .espeak import EspeakMissing, Spoken, speak, version
from .resample import resample, scale
from .script import SCRIPT, VOICES, Line

LEAD, TAIL = 0.12, 0.24  # seconds of silence before the first word and after the last
PEAK = 0.5  # of full scale, which leaves the encoder room to overshoot
# Softer than -54 dB to the loudest millisecond of a clip is silence. With -46 dB no edge moves by
# more than 1 ms, with -40 dB by 2 ms.
FLOOR = 0.002
BIT_RATE = 24_000
Place = tuple[int, int]  # start and end of a word in samples, end exclusive

MEASURED = (
    "start: sample position of espeak-ng's word event, moved past leading silence; "
    "end: last sound before the next word event; "
    "silence: RMS over 1 ms below -54 dB to the clip's loudest; on the samples before encoding"
)


def make(lines: Iterable[Line] = SCRIPT) -> list[Clip]:
    """Speak, measure and encode each line, each in a process of its own. Raises EspeakMissing."""
    version()  # here rather than in the children, whose failure would be harder to read
    with multiprocessing.get_context("spawn").Pool(2, maxtasksperchild=1) as pool:
        return pool.map(make_one, lines, chunksize=1)


def make_one(line: Line) -> Clip:
    """One clip; only in a process that has not spoken before (see `espeak.py`)."""
    voice = VOICES[line.speaker]
    rate = voice.rate
    spoken = speak(line.text, voice.name, voice.words_per_minute)
    sound, places = trim(spoken, measure(spoken, line.text))
    samples = scale(len(sound), spoken.rate, rate)
    audio = resample(sound * (PEAK * 32_767 / np.abs(sound).max()), spoken.rate, rate)
    packets, pre_skip = encode(np.rint(audio).astype(np.int16), rate)
    return Clip(
        name=line.name,
        speaker=line.speaker,
        text=line.text,
        answers=line.answers,
        rate=rate,
        samples=samples,
        pre_skip=pre_skip,
        packets=packets,
        words=tuple(
            Word(word, scale(start, spoken.rate, rate), scale(end, spoken.rate, rate))
            for word, (start, end) in zip(line.text.split(), places, strict=True)
        ),
        measured=MEASURED,
        made=Made(voice.name, voice.words_per_minute, version(), libopus_version()),
    )


def measure(spoken: Spoken, text: str) -> list[Place]:
    """Where each blank-separated word of the text sounds, in samples of `spoken`."""
    step = spoken.rate // 1_000
    levels = _levels(spoken.pcm, step)
    floor = FLOOR * levels.max()
    onsets = _word_onsets(spoken, text)
    places = []
    for onset, following in zip(onsets, [*onsets[1:], len(spoken.pcm)], strict=True):
        sounding = np.flatnonzero(_levels(spoken.pcm[onset:following], step) >= floor)
        if not len(sounding):
            raise RuntimeError(f"a word of {text!r} makes no sound at sample {onset}")
        start, end = onset + int(sounding[0]) * step, onset + (int(sounding[-1]) + 1) * step
        places.append((start, min(end, following)))
    return places


def trim(spoken: Spoken, places: list[Place]) -> tuple[NDArray[np.float64], list[Place]]:
    """The sound with LEAD and TAIL of silence around its words, and the places moved along."""
    lead, tail = round(LEAD * spoken.rate), round(TAIL * spoken.rate)
    first, last = places[0][0], places[-1][1]
    sound = np.concatenate([np.zeros(lead), spoken.pcm[first:last], np.zeros(tail)])
    return sound, [(start - first + lead, end - first + lead) for start, end in places]


def encode(
    pcm: NDArray[np.int16], rate: int, bit_rate: int = BIT_RATE
) -> tuple[tuple[bytes, ...], int]:
    """As many packets of a fresh encoder as `clip.py` asks for, and its pre-skip at 48 kHz."""
    encoder = av.CodecContext.create("libopus", "w")
    encoder.sample_rate, encoder.layout, encoder.format = rate, "mono", "s16"
    encoder.bit_rate, encoder.time_base = bit_rate, Fraction(1, rate)
    encoder.options = {"application": "voip", "frame_duration": "20"}
    encoder.open()
    # Bytes 10 and 11 of OpusHead (RFC 7845, section 5.1): the pre-skip, at 48 kHz whatever the
    # input's rate.
    pre_skip = int.from_bytes(bytes(encoder.extradata or b"")[10:12], "little")
    frame, count = rate // 50, packets_needed(len(pcm), rate, pre_skip)
    padded = np.zeros((count, 1, frame), np.int16)
    padded.ravel()[: len(pcm)] = pcm
    packets: list[bytes] = []
    for index, block in enumerate(padded):
        audio = av.AudioFrame.from_ndarray(block, format="s16", layout="mono")
        audio.sample_rate, audio.time_base, audio.pts = rate, Fraction(1, rate), index * frame
        packets += [bytes(packet) for packet in encoder.encode(audio)]
    return tuple(packets), pre_skip  # not flushed: that adds a packet of padding which nobody needs


def libopus_version() -> str:
    """The version of the library that PyAV encodes with, such as "1.5.2", or "unknown"."""
    with open("/proc/self/maps") as maps:
        loaded = {line.split(maxsplit=5)[5].strip() for line in maps if "libopus" in line}
    for path in sorted(loaded):
        query = ctypes.CDLL(path).opus_get_version_string
        query.restype = ctypes.c_char_p
        text: bytes = query()
        return text.decode().split()[-1]
    return "unknown"


def _levels(pcm: NDArray[np.int16], step: int) -> NDArray[np.float64]:
    """RMS of each `step` samples; the last block may be short and is filled up with silence."""
    blocks = np.zeros((-(-len(pcm) // step), step))
    blocks.ravel()[: len(pcm)] = pcm
    levels: NDArray[np.float64] = np.sqrt((blocks**2).mean(axis=1))
    return levels


def _word_onsets(spoken: Spoken, text: str) -> list[int]:
    """The first event of each word of the text; a word such as "night's" may have several."""
    text.encode("ascii")  # then positions in characters and in bytes are the same
    onsets: dict[int, int] = {}
    for character, sample in spoken.onsets:
        onsets.setdefault(text.count(" ", 0, character), sample)
    if sorted(onsets) != list(range(len(text.split()))):
        placed = [word for index, word in enumerate(text.split()) if index in onsets]
        raise RuntimeError(f"espeak-ng joined words of {text!r}, it placed {placed}: reword it")
    return [onsets[index] for index in sorted(onsets)]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m handset.bench.speech.make", description="Make the bench's speech."
    )
    parser.add_argument("folder", nargs="?", type=Path, default=Path(__file__).with_name("clips"))
    folder: Path = parser.parse_args(arguments).folder
    try:
        clips = make()
    except EspeakMissing as error:
        print(error, file=sys.stderr)
        return 1
    folder.mkdir(parents=True, exist_ok=True)
    for clip in clips:
        data = clip.to_bytes()
        (folder / f"{clip.name}.opusp").write_bytes(data)
        print(f"{clip.name:14} {clip.seconds:6.2f} s {len(clip.words):3} words {len(data):6} bytes")
    print(f"espeak-ng {version()}, libopus {libopus_version()}, into {folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
