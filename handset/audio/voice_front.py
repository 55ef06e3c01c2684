"""From the microphone to facts about speech: echo out, noise down, voice found.

    microphone 48 kHz -> 16 kHz -> canceller <- reference, aligned      (frames of 10 ms)
                                      |
                                  webrtcvad -> handset.core.speech      (frames of 20 ms)

One thread. The turn's audio is not touched: what is sent is the microphone itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from handset.audio import echo, vad
from handset.audio.playout import Frames
from handset.audio.reference import LEAD_S, SECOND, Line, Reference, Tracker
from handset.audio.resample import Decimator, to_int16
from handset.core.facts import Anchor
from handset.core.speech import CAPTURE_RATE, SpeechDetector, SpeechFact, SpeechSettings

STEP = CAPTURE_RATE // echo.RATE
VAD_FRAME = vad.FRAME * STEP
"""20 ms in capture samples: what the detector's ``frame`` must be."""


class VoiceFrame(NamedTuple):
    """What the detector is given: ``position`` is the frame's first capture sample."""

    position: int
    voiced: bool
    level_db: float


@dataclass(frozen=True, slots=True)
class VoiceSettings:
    canceller: str = "livekit"
    vad_mode: int = vad.MODE
    speech: SpeechSettings = field(default_factory=SpeechSettings)


class VoiceFront:
    """Positions given to ``feed`` are samples at 48 kHz on the capture timeline. Feed the
    reference before the microphone: what is not there yet counts as silence.

    ``listen``: given every frame that the detector is; for a bench. Raises DeviceError for
    a canceller or detector that is not there, UsageError for settings that can't work."""

    def __init__(
        self,
        settings: VoiceSettings | None = None,
        *,
        listen: Callable[[VoiceFrame], None] | None = None,
    ) -> None:
        self.settings = settings if settings is not None else VoiceSettings()
        self.detector = SpeechDetector(self.settings.speech)
        self._vad = vad.Vad(self.settings.vad_mode)
        self._canceller = echo.open_canceller(self.settings.canceller)
        self._listen = listen
        self._mic = Line(CAPTURE_RATE)
        self._mic_origin = 0
        self._out: Line | None = None
        self._reference: Reference | None = None
        self._tracker: Tracker | None = None
        self._expected: int | None = None
        self._fresh()

    def _fresh(self, position: int = 0) -> None:
        self._decimator = Decimator(CAPTURE_RATE, STEP)
        self._low = np.zeros(0, np.int16)
        self._clean: list[Frames] = []
        self._at = position
        """Capture sample of the first one in ``_low``."""
        self._tracked_at: int | None = None

    # ---- the loudspeaker -------------------------------------------------------------------

    def open_reference(self, rate: int) -> None:
        """A playout stream at ``rate``; whatever was before it is forgotten."""
        self._out, self._reference, self._tracker = Line(rate), Reference(rate), Tracker(rate)
        self._tracked_at = None

    def reference_anchor(self, anchor: Anchor) -> None:
        """Which device frame leaves the converter when."""
        if self._out is not None:
            self._out.anchor(anchor)

    def feed_reference(self, position: int, frames: Frames) -> None:
        """What was given to the device, ``position`` in device frames."""
        if self._reference is not None:
            self._reference.feed(position, frames)

    # ---- the microphone --------------------------------------------------------------------

    def mic_anchor(self, anchor: Anchor, rate: int, origin: int = 0) -> None:
        """Which frame of the microphone's device entered the converter when. ``rate``: the
        device's; ``origin``: where its frame 0 lies on the capture timeline."""
        if self._mic.rate != rate or self._mic_origin != origin:
            self._mic, self._mic_origin = Line(rate), origin
        self._mic.anchor(anchor)

    def feed(self, position: int, samples: Frames) -> list[SpeechFact]:
        """The next samples of the microphone. After a hole, frames begin anew."""
        if position != self._expected:
            self._fresh(position)
        self._expected = position + len(samples)
        self._low = np.concatenate((self._low, self._decimator.feed(samples)))
        facts: list[SpeechFact] = []
        while len(self._low) >= echo.FRAME:
            frame, self._low = self._low[: echo.FRAME], self._low[echo.FRAME :]
            self._clean.append(self._canceller.process(frame, self._played(self._at)))
            self._at += echo.FRAME * STEP
            if len(self._clean) == vad.FRAME // echo.FRAME:
                facts += self._judge(np.concatenate(self._clean))
                self._clean.clear()
        return facts

    @property
    def reference_missing(self) -> int:
        """Device frames that the canceller needed and that were not there: when it rises while
        something plays, the reference is fed too late."""
        return self._reference.missing if self._reference is not None else 0

    @property
    def drift_ppm(self) -> float:
        """How much faster the loudspeaker's clock runs than the microphone's, as learned."""
        return self._tracker.drift_ppm if self._tracker is not None else 0.0

    def stop(self) -> list[SpeechFact]:
        """Ends what is open: muted, or a button has the floor."""
        return self.detector.stop()

    def close(self) -> None:
        self._canceller.close()

    # ---- inside ------------------------------------------------------------------------------

    def _judge(self, frame: Frames) -> list[SpeechFact]:
        position = self._at - VAD_FRAME
        found = VoiceFrame(position, self._vad.voiced(frame), vad.level_db(frame))
        if self._listen is not None:
            self._listen(found)
        return self.detector.frame(*found)

    def _played(self, position: int) -> Frames:
        """The reference for the microphone's frame at ``position``."""
        out, reference, tracker = self._out, self._reference, self._tracker
        if out is None or reference is None or tracker is None:
            return np.zeros(echo.FRAME, np.int16)
        if not (out.known and self._mic.known):
            return np.zeros(echo.FRAME, np.int16)
        device_frame = (position - self._mic_origin) * self._mic.rate / CAPTURE_RATE
        measured = out.frame_at(self._mic.ns_of(device_frame) + LEAD_S * SECOND)
        before = self._tracked_at
        apart = 1 if before is None else (position - before) // (echo.FRAME * STEP)
        self._tracked_at = position
        return to_int16(reference.at(tracker.next(measured, apart)))
