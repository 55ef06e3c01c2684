"""Echo cancellation in front of the voice detector: what plays must not interrupt itself.

Two are known. ``livekit`` is WebRTC's audio processing (AEC3, noise suppression, high-pass)
from the livekit wheel, used offline; ``speexdsp`` is Debian's libspeexdsp with the
preprocessor of the same library, a third of the work and a slower start. ``none`` passes
the microphone on.

A canceller that was asked for and is not there is an error with its cure, never silence:
a headset without one interrupts itself.
"""

from __future__ import annotations

from typing import Any, Literal, Protocol

import numpy as np

from handset.audio.playout import Frames
from handset.errors import DeviceError, UsageError

RATE = 16_000
FRAME = 160
"""10 ms, the unit of WebRTC's processing."""

CancellerName = Literal["livekit", "speexdsp", "none"]
CANCELLERS: tuple[CancellerName, ...] = ("livekit", "speexdsp", "none")

SPEEX_TAIL = 2_400
"""150 ms of room; behind ear cups it is less."""


class Canceller(Protocol):
    name: str

    def process(self, mic: Frames, reference: Frames) -> Frames:
        """``FRAME`` samples of each at ``RATE``; the reference left the converter when the
        microphone heard these, or a little later. Returns the microphone without it."""

    def close(self) -> None: ...


def open_canceller(name: str) -> Canceller:
    """Raises UsageError for a name that is none, DeviceError for one that is not installed
    or does not work."""
    match name:
        case "livekit":
            return WebRtc()
        case "speexdsp":
            return Speex()
        case "none":
            return Through()
    raise UsageError(f"canceller {name!r} is none of {', '.join(CANCELLERS)}")


def check(mic: Frames, reference: Frames) -> None:
    """Raises UsageError unless both are one frame."""
    for what, frames in (("mic", mic), ("reference", reference)):
        if frames.shape != (FRAME,) or frames.dtype != np.int16:
            raise UsageError(
                f"{what} is {frames.shape} of {frames.dtype}; a canceller takes ({FRAME},) of int16"
            )


class Through:
    """No canceller. For push-to-talk alone, and for headsets whose ears do not leak."""

    name = "none"

    def process(self, mic: Frames, reference: Frames) -> Frames:
        check(mic, reference)
        return mic

    def close(self) -> None:
        pass


class WebRtc:
    name = "livekit"

    def __init__(self) -> None:
        try:
            from livekit import rtc
        except (ImportError, OSError) as error:
            raise DeviceError(
                f"canceller 'livekit' is not available ({error}): pip install "
                f"'kelter-handset[voice]', or set the canceller to 'speexdsp' or 'none'"
            ) from error
        self._rtc = rtc
        self._apm = rtc.AudioProcessingModule(
            echo_cancellation=True, noise_suppression=True, high_pass_filter=True
        )
        self._apm.set_stream_delay_ms(0)  # both streams are aligned before they come here

    def process(self, mic: Frames, reference: Frames) -> Frames:
        check(mic, reference)
        try:
            self._apm.process_reverse_stream(self._frame(reference))
            out = self._frame(mic)
            self._apm.process_stream(out)
        except RuntimeError as error:
            raise DeviceError(f"canceller 'livekit' failed: {error}") from error
        return np.array(out.data, np.int16)

    def _frame(self, frames: Frames) -> Any:
        return self._rtc.AudioFrame(bytearray(frames.tobytes()), RATE, 1, FRAME)

    def close(self) -> None:
        del self._apm


_SPEEX = """
typedef struct SpeexEchoState_ SpeexEchoState;
typedef struct SpeexPreprocessState_ SpeexPreprocessState;
SpeexEchoState *speex_echo_state_init(int frame_size, int filter_length);
void speex_echo_state_destroy(SpeexEchoState *st);
void speex_echo_cancellation(SpeexEchoState *st, const int16_t *rec, const int16_t *play,
                             int16_t *out);
int speex_echo_ctl(SpeexEchoState *st, int request, void *ptr);
SpeexPreprocessState *speex_preprocess_state_init(int frame_size, int sampling_rate);
void speex_preprocess_state_destroy(SpeexPreprocessState *st);
int speex_preprocess_run(SpeexPreprocessState *st, int16_t *x);
int speex_preprocess_ctl(SpeexPreprocessState *st, int request, void *ptr);
"""
# From speex_echo.h and speex_preprocess.h.
_ECHO_SET_SAMPLING_RATE, _PREPROCESS_SET_ECHO_STATE = 24, 24


class Speex:
    """Noise suppression is on by the preprocessor's own default (-15 dB)."""

    name = "speexdsp"

    def __init__(self, library: str = "libspeexdsp.so.1") -> None:
        from cffi import FFI

        self._ffi = FFI()
        self._ffi.cdef(_SPEEX)
        try:
            self._lib = self._ffi.dlopen(library)
        except OSError as error:
            raise DeviceError(
                f"canceller 'speexdsp' is not available ({error}): apt install libspeexdsp1, "
                f"or set the canceller to 'livekit' or 'none'"
            ) from error
        self._echo = self._lib.speex_echo_state_init(FRAME, SPEEX_TAIL)
        self._pre = self._lib.speex_preprocess_state_init(FRAME, RATE)
        rate = self._ffi.new("int *", RATE)
        self._lib.speex_echo_ctl(self._echo, _ECHO_SET_SAMPLING_RATE, rate)
        self._lib.speex_preprocess_ctl(self._pre, _PREPROCESS_SET_ECHO_STATE, self._echo)

    def process(self, mic: Frames, reference: Frames) -> Frames:
        check(mic, reference)
        out = np.empty(FRAME, np.int16)
        given = [
            self._ffi.from_buffer("int16_t[]", np.ascontiguousarray(each))
            for each in (mic, reference)
        ]
        cleaned = self._ffi.from_buffer("int16_t[]", out, require_writable=True)
        self._lib.speex_echo_cancellation(self._echo, *given, cleaned)
        self._lib.speex_preprocess_run(self._pre, cleaned)
        return out

    def close(self) -> None:
        if self._echo is not None:
            self._lib.speex_preprocess_state_destroy(self._pre)
            self._lib.speex_echo_state_destroy(self._echo)
            self._echo = self._pre = None
