"""Cancellers and detector: there and working, or an error that says what to install."""

from __future__ import annotations

import builtins
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from handset.audio import echo, vad
from handset.audio.playout import Frames
from handset.audio.voice_front import VAD_FRAME, VoiceFrame, VoiceFront, VoiceSettings
from handset.core.facts import Anchor
from handset.core.speech import Confirmed, Dismissed, Ended, SpeechSettings, Suspected
from handset.errors import DeviceError, UsageError

RATE = 48_000


def canceller(name: str) -> echo.Canceller:
    try:
        return echo.open_canceller(name)
    except DeviceError as error:
        pytest.skip(str(error))


def like_speech(seconds: float, rate: int, seed: int = 1) -> Frames:
    """Harmonics with a syllable's envelope: 4 a second."""
    t = np.arange(int(seconds * rate)) / rate
    pitch = 120 + 20 * np.sin(2 * np.pi * 0.7 * t + seed)
    phase = 2 * np.pi * np.cumsum(pitch) / rate
    voice = sum(np.sin(k * phase) / k for k in range(1, 20))
    shape = np.clip(np.sin(2 * np.pi * 4 * t), 0, 1)
    noise = np.random.default_rng(seed).standard_normal(len(t)) * 0.05
    return np.rint(6_000 * shape * (voice + noise)).astype(np.int16)


def reduction(one: echo.Canceller, seconds: float = 8.0) -> float:
    """dB by which the last 2 s of a pure echo are softer than it was."""
    far = like_speech(seconds, echo.RATE)
    mic = np.concatenate((np.zeros(200, np.int16), far[:-200] // 4))
    out = []
    for at in range(0, len(far) - echo.FRAME, echo.FRAME):
        cut = slice(at, at + echo.FRAME)
        out.append(one.process(mic[cut], far[cut]))
    tail = 2 * echo.RATE
    left = np.concatenate(out)[-tail:]
    return vad.level_db(mic[-tail:]) - vad.level_db(left)


@pytest.mark.parametrize("name", ["livekit", "speexdsp"])
def test_it_cancels(name: str) -> None:
    one = canceller(name)
    try:
        assert reduction(one) > 20
    finally:
        one.close()
    assert reduction(echo.Through()) == pytest.approx(0, abs=0.5)


@pytest.mark.parametrize("name", echo.CANCELLERS)
def test_anything_but_one_frame_is_refused(name: str) -> None:
    one = canceller(name)
    good = np.zeros(echo.FRAME, np.int16)
    for bad in (np.zeros(480, np.int16), np.zeros(echo.FRAME, np.float32)):
        with pytest.raises(UsageError, match="a canceller takes"):
            one.process(bad, good)
        with pytest.raises(UsageError, match="reference is"):
            one.process(good, bad)
    one.close()


def test_an_unknown_canceller_is_refused() -> None:
    with pytest.raises(UsageError, match="livekit, speexdsp, none"):
        echo.open_canceller("aec4")


def without(module: str) -> Callable[..., Any]:
    real = builtins.__import__

    def missing(name: str, *args: Any, **named: Any) -> Any:
        if name.partition(".")[0] == module:
            raise ImportError(f"No module named {name!r}")
        return real(name, *args, **named)

    return missing


def test_a_missing_canceller_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(builtins, "__import__", without("livekit"))
    with pytest.raises(DeviceError, match=r"kelter-handset\[voice\]"):
        echo.open_canceller("livekit")
    with pytest.raises(DeviceError, match="apt install libspeexdsp1"):
        echo.Speex("libnothing.so.1")


def test_a_missing_detector_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "webrtcvad", None)
    with pytest.raises(DeviceError, match="webrtcvad-wheels"):
        vad.Vad()
    with pytest.raises(DeviceError, match="webrtcvad-wheels"):
        VoiceFront(VoiceSettings("none"))


def test_the_detector_takes_one_frame_and_a_mode() -> None:
    pytest.importorskip("webrtcvad", reason="webrtcvad-wheels is not installed")
    with pytest.raises(UsageError, match="mode is 4"):
        vad.Vad(4)
    with pytest.raises(UsageError, match="320"):
        vad.Vad().voiced(np.zeros(160, np.int16))
    assert not vad.Vad().voiced(np.zeros(vad.FRAME, np.int16))


def test_levels_are_those_of_full_scale() -> None:
    square = np.full(vad.FRAME, 32_767, np.int16)
    assert vad.level_db(square) == pytest.approx(0, abs=0.01)
    assert vad.level_db(square // 10) == pytest.approx(-20, abs=0.1)
    assert vad.level_db(np.zeros(vad.FRAME, np.int16)) == vad.SILENT_DB


# ---- the front ----------------------------------------------------------------------------------


def front(name: str = "none", **named: Any) -> VoiceFront:
    pytest.importorskip("webrtcvad", reason="webrtcvad-wheels is not installed")
    canceller(name).close()
    return VoiceFront(VoiceSettings(name), **named)


@pytest.mark.parametrize("block", [160, 441, 480, 960, 4_096])
def test_blocks_of_any_size_make_the_same_frames(block: int) -> None:
    sound = like_speech(3, RATE)
    heard: list[list[VoiceFrame]] = []
    for size in (480, block):
        frames: list[VoiceFrame] = []
        one = front(listen=frames.append)
        for at in range(0, len(sound), size):
            one.feed(1_000 + at, sound[at : at + size])
        heard.append(frames)
    assert [each.position for each in heard[1]] == [
        1_000 + VAD_FRAME * index for index in range(len(heard[1]))
    ]
    assert heard[0] == heard[1]


def test_speech_is_found_at_its_place() -> None:
    sound = np.concatenate((np.zeros(2 * RATE, np.int16), like_speech(2, RATE)))
    sound = np.concatenate((sound, np.zeros(2 * RATE, np.int16)))
    pytest.importorskip("webrtcvad", reason="webrtcvad-wheels is not installed")
    one = VoiceFront(VoiceSettings("none", speech=SpeechSettings(dismiss=20)))
    facts = []
    for at in range(0, len(sound), 480):
        facts += one.feed(at, sound[at : at + 480])
    assert [type(fact) for fact in facts] == [Suspected, Confirmed, Ended]
    margin = one.settings.speech.margin
    assert facts[0].onset_sample == pytest.approx(2 * RATE - margin, abs=2_000)
    assert facts[2].last_voiced_sample == pytest.approx(4 * RATE, abs=8_000)


def test_after_a_hole_positions_are_true() -> None:
    frames: list[VoiceFrame] = []
    one = front(listen=frames.append)
    one.feed(0, np.zeros(3_000, np.int16))
    one.feed(10_000, np.zeros(3_000, np.int16))
    positions = [each.position for each in frames]
    assert positions == [0, 960, 1_920, 10_000, 10_960, 11_920]


def test_stop_ends_what_is_open() -> None:
    one = front()
    facts = one.feed(0, np.zeros(2 * RATE, np.int16))
    facts += one.feed(2 * RATE, like_speech(0.3, RATE))
    if [type(fact) for fact in facts] == [Suspected]:
        assert [type(fact) for fact in one.stop()] == [Dismissed]
    assert one.stop() == []


class Listening:
    """A canceller that only keeps what it is given."""

    name = "listening"

    def __init__(self) -> None:
        self.mic: list[Frames] = []
        self.reference: list[Frames] = []

    def process(self, mic: Frames, reference: Frames) -> Frames:
        self.mic.append(mic)
        self.reference.append(reference)
        return mic

    def close(self) -> None:
        pass


@pytest.mark.parametrize("rate", [16_000, 44_100, 48_000])
def test_the_reference_is_what_sounded_when_the_microphone_heard(rate: int) -> None:
    """The same sound on both, played 300 ms after device frame 0 and at the device's rate: the
    canceller gets the one beside the other, the reference early by the lead."""
    sound = like_speech(2, RATE)
    t = np.arange(2 * rate) / rate
    played = np.rint(np.interp(t, np.arange(len(sound)) / RATE, sound)).astype(np.int16)
    one = front()
    spy = Listening()
    one._canceller = spy
    one.open_reference(rate)
    one.mic_anchor(Anchor(0, 5_000_000_000, 0, 0, 1), RATE, origin=777)
    one.reference_anchor(Anchor(0, 5_300_000_000, 0, 0, 1))
    mic = np.concatenate((np.zeros(RATE * 3 // 10, np.int16), sound))
    given = 0
    for at in range(0, len(mic), 480):
        while given < len(played) and given < (at - RATE * 3 // 10 + 2_880) * rate // RATE:
            one.feed_reference(given, played[given : given + rate // 100])
            given += rate // 100
        one.feed(777 + at, mic[at : at + 480])
    heard = np.concatenate(spy.mic).astype(float)
    reference = np.concatenate(spy.reference).astype(float)
    lead = 128  # 8 ms at 16 kHz
    a, b = heard[8_000:30_000], reference[8_000 - lead : 30_000 - lead]
    assert np.std(a - b) < 0.1 * np.std(a)
    aside = reference[8_000:30_000]
    assert np.std(a - aside) > 0.5 * np.std(a), "a wrong place is seen"
