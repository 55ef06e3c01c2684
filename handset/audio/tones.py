"""The tones of the notices, made at the device's rate. No files.

Each is a row of notes between 700 and 2500 Hz: above the hum of machines, below where hearing
goes first, and inside what a hearing protector's speaker carries. A note may be one pitch or two
at once. Every note has raised-cosine edges of 5 ms, so that nothing clicks, and a peak of
-12 dBFS, under the peak of the words (-6 dBFS).

Rules for the set: what permits rises, what ends falls; a denial is low, rough and long where the
permit is high, clean and short; a tone that is heard in the middle of one's own words is short.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from handset.core.notices import Notice

PEAK = 10 ** (-12 / 20)
EDGE_MS = 5
LOWEST_HZ, HIGHEST_HZ = 700, 2_500

Note = tuple[tuple[int, ...], int]
"""Pitches at once, in Hz, none of them for a pause; and ms."""


def _note(ms: int, *pitches: int) -> Note:
    return pitches, ms


def _times(n: int, note: Note, pause_ms: int) -> tuple[Note, ...]:
    return ((note, _note(pause_ms)) * n)[:-1]


TONES: dict[Notice, tuple[Note, ...]] = {
    Notice.TALK_PERMIT: (_note(45, 1_000), _note(45, 1_500)),
    Notice.DENY: _times(3, _note(100, 700, 790), 50),
    Notice.LATCH_ON: (_note(70, 900), _note(70, 1_200), _note(70, 1_600)),
    Notice.LATCH_OFF: (_note(70, 1_600), _note(70, 1_200), _note(70, 900)),
    Notice.LATCHED_REMINDER: _times(2, _note(40, 1_100), 90),
    Notice.LONG_HOLD_WARNING: _times(4, _note(60, 2_000), 60),
    Notice.WAITING_FOR_YOU: (_note(150, 1_000), _note(60), _note(250, 1_400)),
    Notice.TURN_DISCARDED: (_note(80, 1_100), _note(40), _note(200, 750)),
    Notice.STUCK_KEY: _times(2, _note(250, 850, 1_700), 100),
    Notice.CONTROL_LOST: (_note(110, 2_200), _note(110, 800)) * 2,
    Notice.CONTROL_BACK: (_note(110, 800), _note(160, 2_200)),
    Notice.MUTE_ON: _times(2, _note(70, 820), 50),
    Notice.MUTE_OFF: _times(2, _note(70, 1_800), 50),
    Notice.VOLUME_CHANGED: (_note(40, 1_300),),
    Notice.VOLUME_LIMIT: _times(3, _note(40, 1_300), 40),
    Notice.LOW_BATTERY: (_note(200, 950), _note(120), _note(200, 750)),
    Notice.UNDERVOLTAGE: (_note(70, 1_250), _note(70, 950)) * 3,
    Notice.TOO_HOT: (_note(80, 2_400), _note(80, 1_800)) * 3,
    Notice.ALERT_WAITING: _times(3, _note(150, 1_600, 2_100), 80),
    Notice.ALERT_ACKNOWLEDGED: (_note(90, 1_600, 2_100), _note(120, 1_250)),
}


def synthesise(notice: Notice, rate: int) -> NDArray[np.int16]:
    """The tone of a notice at ``rate`` Hz, mono, shape (n,). KeyError when it has none."""
    parts = [_sound(pitches, ms * rate // 1_000, rate) for pitches, ms in TONES[notice]]
    return np.rint(np.concatenate(parts) * 32_767).astype(np.int16)


def _sound(pitches: tuple[int, ...], n: int, rate: int) -> NDArray[np.float64]:
    sound = np.zeros(n)
    at = np.arange(n) / rate
    for pitch in pitches:
        sound += np.sin(2 * np.pi * pitch * at)
    edge = EDGE_MS * rate // 1_000
    rise = 0.5 - 0.5 * np.cos(np.pi * np.arange(edge) / max(edge, 1))
    sound[:edge] *= rise
    sound[n - edge :] *= rise[::-1]
    return sound * (PEAK / np.abs(sound).max()) if pitches else sound
