"""espeak-ng through its C interface: the samples of a text, and where each word begins.

The synthesiser keeps state from one text to the next: the same text has other samples, and another
length, the second time. Only the first text of a process always comes out the same, so speak once
per process.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

# From speak_lib.h of espeak-ng 1.51.
_SYNCHRONOUS = 2  # samples go to the callback, espeak_Synth returns when all are made
_DO_NOT_EXIT = 0x8000  # a missing data folder is an error code, not the end of our process
_UTF8 = 1
_PARAMETER_RATE = 1
_END_OF_LIST, _WORD = 0, 1


class EspeakMissing(Exception):
    """espeak-ng, or a voice of it, is not installed."""


@dataclass(frozen=True, slots=True)
class Spoken:
    """A text as sound: `pcm` int16 mono, shape (n,), at `rate`.

    `onsets` has, for each word event, the index of its first character in the text and the sample
    where it begins.
    """

    pcm: NDArray[np.int16]
    rate: int
    onsets: tuple[tuple[int, int], ...]


class _Event(ctypes.Structure):
    _fields_ = [
        ("type", ctypes.c_int),
        ("unique_identifier", ctypes.c_uint),
        ("text_position", ctypes.c_int),  # of the first character, from 1
        ("length", ctypes.c_int),  # in characters; 0: not a word but the end of a clause
        ("audio_position", ctypes.c_int),  # ms
        ("sample", ctypes.c_int),  # the same place, exactly
        ("user_data", ctypes.c_void_p),
        ("id", ctypes.c_char * 8),  # a union with a pointer, hence aligned like one
    ]


_Callback = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.POINTER(_Event)
)


def version() -> str:
    """The installed version, such as "1.51". Raises EspeakMissing."""
    info = _library().espeak_Info
    info.restype = ctypes.c_char_p
    text: bytes = info(None)
    return text.decode().split()[0]


def speak(text: str, voice: str, words_per_minute: int) -> Spoken:
    """Speak a text once, in a process that has not spoken before. Raises EspeakMissing.

    Onsets are to be relied on for ASCII text only.
    """
    library = _library()
    rate = library.espeak_Initialize(_SYNCHRONOUS, 0, None, _DO_NOT_EXIT)
    if rate <= 0:
        raise EspeakMissing("espeak-ng found no data: install the package espeak-ng-data")
    if library.espeak_SetVoiceByName(voice.encode()) != 0:
        raise EspeakMissing(f"espeak-ng has no voice {voice!r}")
    library.espeak_SetParameter(_PARAMETER_RATE, words_per_minute, 0)

    chunks: list[NDArray[np.int16]] = []
    onsets: list[tuple[int, int]] = []

    def receive(samples: Any, count: int, events: Any) -> int:
        if count > 0:
            chunks.append(np.ctypeslib.as_array(samples, (count,)).copy())
        index = 0
        while events[index].type != _END_OF_LIST:
            event = events[index]
            if event.type == _WORD and event.length > 0:
                onsets.append((event.text_position - 1, event.sample))
            index += 1
        return 0

    callback: Callable[..., int] = _Callback(receive)
    library.espeak_SetSynthCallback(callback)
    data = text.encode() + b"\0"
    if library.espeak_Synth(data, ctypes.c_size_t(len(data)), 0, 1, 0, _UTF8, None, None) != 0:
        raise RuntimeError(f"espeak-ng did not speak {text!r}")
    library.espeak_Synchronize()
    return Spoken(np.concatenate(chunks), rate, tuple(onsets))


def _library() -> ctypes.CDLL:
    try:
        return ctypes.CDLL("libespeak-ng.so.1")
    except OSError as error:
        raise EspeakMissing("espeak-ng is not installed: apt install espeak-ng") from error
