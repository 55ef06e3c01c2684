"""webrtcvad: is a frame of 20 ms voiced? Fails loudly where it is not installed.

The module is that of ``webrtcvad-wheels``; the original package of the same module name
imports pkg_resources and dies without it.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from handset.audio.playout import Frames
from handset.errors import DeviceError, UsageError

RATE = 16_000
FRAME = 320
"""20 ms."""
MODE = 3
"""The one that stays quiet most; measured with noise suppression in front."""
SILENT_DB = -100.0


class Vad:
    def __init__(self, mode: int = MODE) -> None:
        if mode not in range(4):
            raise UsageError(f"vad mode is {mode}; it must be 0, 1, 2 or 3 (the strictest)")
        self._vad = _module().Vad(mode)

    def voiced(self, frames: Frames) -> bool:
        """``FRAME`` samples of int16 at ``RATE``."""
        if frames.shape != (FRAME,) or frames.dtype != np.int16:
            raise UsageError(f"vad takes ({FRAME},) of int16, not {frames.shape} {frames.dtype}")
        return bool(self._vad.is_speech(frames.tobytes(), RATE))


def _module() -> Any:
    try:
        return import_module("webrtcvad")
    except ImportError as error:
        raise DeviceError(
            f"the voice detector is not available ({error}): pip install 'kelter-handset[voice]' "
            f"(webrtcvad-wheels, not webrtcvad), or use manual turns"
        ) from error


def level_db(frames: Frames) -> float:
    """RMS, dB of full scale; ``SILENT_DB`` at least."""
    power = float(np.mean(np.square(frames, dtype=np.float64)))
    return max(10 * float(np.log10(max(power, 1e-9))) - 90.31, SILENT_DB)
