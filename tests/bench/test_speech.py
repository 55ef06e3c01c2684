"""The shipped speech: lengths are exact, and the decoded sound has its words where a clip says."""

from __future__ import annotations

import ctypes
import re
from dataclasses import replace
from importlib.resources import files

import numpy as np
import pytest
from numpy.typing import NDArray

from handset.bench import speech
from handset.bench.speech import make
from handset.bench.speech.clip import PACKET, Clip, Word, decode
from handset.bench.speech.espeak import EspeakMissing, version
from handset.bench.speech.resample import resample, scale

CLIPS = [speech.load(name) for name in speech.names()]
every_clip = pytest.mark.parametrize("clip", CLIPS, ids=lambda clip: clip.name)

EFFECTS = {"sent", "held", "cancelled", "canceled", "released", "done"}
MONEY = {"pay", "paid", "payment", "invoice"}


def shifted(clip: Clip, milliseconds: int) -> Clip:
    by = milliseconds * clip.rate // 1_000
    words = (Word(word.word, word.start + by, word.end + by) for word in clip.words)
    return replace(clip, words=tuple(words))


def decibels(sound: NDArray[np.float64]) -> float:
    return float(10 * np.log10((sound**2).mean() + 1e-3))


def contrast(clip: Clip) -> float:
    """How far, in dB, the softest word is above the loudest 10 ms of silence.

    A silence is at least 60 ms; 10 ms at both ends of it do not count.
    """
    sound, window = clip.pcm().astype(float), clip.rate // 100
    edges = [0, *(edge for word in clip.words for edge in (word.start, word.end)), clip.samples]
    silences = [
        decibels(sound[at : at + window])
        for end, start in zip(edges[::2], edges[1::2], strict=True)
        if start - end >= 6 * window
        for at in range(max(0, end + window), start - 2 * window, window // 2)
    ]
    return min(decibels(sound[word.start : word.end]) for word in clip.words) - max(silences)


def hiss(clip: Clip) -> list[float]:
    """For each word that starts with an "s": the part of its first 40 ms that is above 3.5 kHz."""
    sound, window = clip.pcm().astype(float), 40 * clip.rate // 1_000
    high = np.fft.rfftfreq(window, 1 / clip.rate) > 3_500
    shares = []
    for word in clip.words:
        if re.match("s[^h]", word.word, re.IGNORECASE):
            start = sound[word.start : word.start + window] * np.hanning(window)
            power = np.abs(np.fft.rfft(start)) ** 2
            shares.append(float(power[high].sum() / power.sum()))
    return shares


@every_clip
def test_a_clip_decodes_to_exactly_its_samples(clip: Clip) -> None:
    pcm = clip.pcm()

    assert pcm.dtype == np.int16
    assert pcm.shape == (clip.samples,)
    decoded = len(decode(clip.packets))
    assert decoded == len(clip.packets) * PACKET
    assert 0 <= decoded - (clip.samples * 48_000 // clip.rate + clip.pre_skip) < PACKET


@pytest.mark.parametrize("rate", [8_000, 16_000, 24_000, 44_100, 48_000])
@every_clip
def test_another_rate_has_the_nearest_length_and_the_same_sound(clip: Clip, rate: int) -> None:
    pcm = clip.pcm(rate)

    assert len(pcm) == int(clip.samples * rate / clip.rate + 0.5)
    first = scale(clip.words[0].start, clip.rate, rate)
    last = scale(clip.words[-1].end, clip.rate, rate)
    lead, tail = pcm[: first - rate // 100].astype(float), pcm[last + rate // 100 :].astype(float)
    assert decibels(pcm[first:last].astype(float)) > 30 + max(decibels(lead), decibels(tail))


@pytest.mark.parametrize("name", ["stop", "yes-five"])
def test_the_pre_skip_is_the_delay_of_encoder_and_decoder(name: str) -> None:
    clip = speech.load(name)
    packets, pre_skip = make.encode(clip.pcm(), clip.rate)
    once, twice = clip.pcm(), replace(clip, packets=packets, pre_skip=pre_skip).pcm()

    size = 2 * clip.samples
    spectrum = np.fft.rfft(twice, size) * np.conj(np.fft.rfft(once, size))
    lag = (int(np.fft.irfft(spectrum, size).argmax()) + clip.samples) % size - clip.samples
    assert abs(lag) <= clip.rate // 10_000


@every_clip
def test_words_are_in_order_inside_the_clip_and_cover_the_text(clip: Clip) -> None:
    edges = [edge for word in clip.words for edge in (word.start, word.end)]

    assert edges == sorted(edges)
    assert all(word.end - word.start >= clip.rate * 0.05 for word in clip.words)
    assert 0.1 * clip.rate <= edges[0] and edges[-1] <= clip.samples - 0.2 * clip.rate
    assert " ".join(word.word for word in clip.words) == clip.text


@every_clip
def test_there_is_sound_in_the_words_and_none_between_or_after(clip: Clip) -> None:
    assert contrast(clip) > 30


@pytest.mark.parametrize("milliseconds", [-25, 25])
@every_clip
def test_words_out_of_place_would_show_in_the_silences(clip: Clip, milliseconds: int) -> None:
    assert contrast(shifted(clip, milliseconds)) < 28


def test_an_s_is_where_its_word_starts_though_no_silence_parts_it_from_the_word_before() -> None:
    shares = [share for clip in CLIPS for share in hiss(clip)]

    assert len(shares) >= 8
    assert min(shares) > 0.8
    for milliseconds in (-50, 70):
        assert min(share for clip in CLIPS for share in hiss(shifted(clip, milliseconds))) < 0.3


def test_utterances_and_replies_are_what_a_bench_needs() -> None:
    operator = [clip for clip in CLIPS if clip.speaker == "operator"]
    assistant = [clip for clip in CLIPS if clip.speaker == "assistant"]

    assert speech.names("operator") + speech.names("assistant") == speech.names()
    assert {clip.rate for clip in operator} == {48_000}
    assert {clip.rate for clip in assistant} == {24_000}
    assert all(0.5 < clip.seconds < 4 for clip in operator)
    assert {clip.answers for clip in assistant} <= {clip.name for clip in operator}
    assert any(clip.seconds > 10 for clip in assistant), "a reply long enough to be interrupted"
    assert sum(clip.answers == "ask-due" for clip in assistant) == 2, "one response of two items"


def test_nothing_is_said_about_an_effect() -> None:
    said = {word for clip in CLIPS for word in re.findall("[a-z']+", clip.text.lower())}

    assert not said & (EFFECTS | MONEY)


def test_the_whole_folder_is_small() -> None:
    sizes = [len(file.read_bytes()) for file in (files(speech) / "clips").iterdir()]

    assert len(sizes) == len(CLIPS)
    assert sum(sizes) < 250_000


def test_a_name_that_does_not_ship_is_refused_with_those_that_do() -> None:
    with pytest.raises(ValueError, match=r"'shout'.*stop"):
        speech.load("shout")


def test_a_file_reads_back_as_written_and_a_damaged_one_is_refused() -> None:
    clip = speech.load("stop")
    data = clip.to_bytes()

    assert Clip.from_bytes(data) == clip
    for damaged, complaint in [
        (data[:-1], "cut short"),
        (data + b"\0", "cut short"),
        (data[: -2 - len(clip.packets[-1])], "header counts"),
        (data.replace(b'"samples": ', b'"samples": 9'), "packets, not"),
        (data.replace(b'"text": "Stop."', b'"text": "Halt."'), "do not make up the text"),
        (data.replace(b'"rate": 48000', b'"rate": 44100'), "rate 44100"),
        (b"", "no header line"),
    ]:
        with pytest.raises(ValueError, match=complaint):
            Clip.from_bytes(damaged)


@pytest.mark.parametrize(
    ("rate_in", "rate_out"), [(22_050, 48_000), (48_000, 24_000), (48_000, 44_100)]
)
def test_resampling_does_not_move_a_tone(rate_in: int, rate_out: int) -> None:
    def tone(rate: int, count: int) -> NDArray[np.float64]:
        return np.asarray(np.sin(2 * np.pi * 1_000 * np.arange(count) / rate + 0.3))

    resampled = resample(tone(rate_in, rate_in // 5 + 7), rate_in, rate_out)

    inside = slice(rate_out // 50, -rate_out // 50)  # at both ends the tone meets silence
    assert np.abs(resampled - tone(rate_out, len(resampled)))[inside].max() < 1e-3


def test_resampling_keeps_out_what_the_lower_rate_cannot_carry() -> None:
    above = np.sin(2 * np.pi * 13_500 * np.arange(9_600) / 48_000)

    assert np.abs(resample(above, 48_000, 24_000)[500:-500]).max() < 1e-3


def test_making_the_clips_again_gives_the_committed_ones() -> None:
    try:
        installed = version()
    except EspeakMissing as missing:
        pytest.skip(str(missing))
    if installed != CLIPS[0].made.espeak_ng:
        pytest.skip(f"made with espeak-ng {CLIPS[0].made.espeak_ng}, this is {installed}")

    for again, committed in zip(make.make(), CLIPS, strict=True):
        # The bytes depend on the encoder's version and on the processor it picks its code for;
        # the sound does not.
        made = replace(again.made, libopus=committed.made.libopus)
        assert replace(again, packets=committed.packets, made=made) == committed
        difference = again.pcm().astype(float) - committed.pcm().astype(float)
        assert decibels(difference) < decibels(committed.pcm().astype(float)) - 6


def test_without_espeak_the_generator_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def no_library(name: str) -> None:
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(ctypes, "CDLL", no_library)

    assert make.main([]) == 1
    assert "apt install espeak-ng" in capsys.readouterr().err
