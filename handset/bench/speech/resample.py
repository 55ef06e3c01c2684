"""Change the rate of a whole piece of audio: see `handset.audio.whole_resample`."""

from __future__ import annotations

from handset.audio.whole_resample import resample, scale

__all__ = ["resample", "scale"]
