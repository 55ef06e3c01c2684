"""Automatic turns: the microphone and what is played, to the voice detector, and its facts
to the core.

In a manual mode nothing of this exists, and nothing is detected.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from handset.audio.card import Card
from handset.audio.playout import Frames
from handset.audio.resample import Decimator
from handset.audio.vad import FRAME, MODE, Vad
from handset.audio.voice_front import STEP, VoiceFront, VoiceSettings
from handset.core import events as ev
from handset.core.messages import Estimate
from handset.core.speech import CAPTURE_RATE, Confirmed, Dismissed, Ended, SpeechFact, Suspected


class Listener:
    """``tell`` is the core. Raises DeviceError for a detector that is not there."""

    def __init__(self, settings: VoiceSettings, tell: Callable[[ev.Event], None]) -> None:
        self._front = VoiceFront(settings)
        self._tell = tell
        self._origin = 0

    def open(self, card: Card, origin: int) -> None:
        """Another card; its capture frame 0 is at ``origin`` on the timeline."""
        self._origin = origin
        self._front.open_reference(card.grant.rate)

    def reference(self, card: Card) -> None:
        """What was given to the device since the last look; before the microphone."""
        reference = card.reference
        if reference is None:
            return
        for position, frames in reference.read():
            self._front.feed_reference(position, frames)
        counts = reference.counts()
        if counts is not None:
            self._front.reference_anchor(counts.anchor)
        mic = card.capture.counts()
        if mic is not None:
            self._front.mic_anchor(mic.anchor, card.grant.rate, self._origin)

    def feed(self, position: int, samples: Frames) -> None:
        """The microphone's next samples, at 48 kHz."""
        for fact in self._front.feed(position, samples):
            self._told(fact)

    def close(self) -> None:
        for fact in self._front.stop():
            self._told(fact)
        self._front.close()

    def _told(self, fact: SpeechFact) -> None:
        now = time.monotonic_ns()
        match fact:
            case Suspected():
                self._tell(ev.VoiceSuspected(now))
            case Confirmed(onset_sample=onset):
                self._tell(ev.VoiceConfirmed(now, Estimate(onset, onset, onset)))
            case Dismissed():
                self._tell(ev.VoiceDismissed(now))
            case Ended(last_voiced_sample=last):
                self._tell(ev.VoiceEnded(now, Estimate(last, last, last)))


class Presence:
    """In a manual mode: whether anybody speaks while a key is down, which is how a stuck key
    is told from a long turn. Noise counts as speech, so it errs towards the turn."""

    def __init__(self, tell: Callable[[ev.Event], None]) -> None:
        self._tell = tell
        self._vad = Vad(MODE)
        self._decimator = Decimator(CAPTURE_RATE, STEP)
        self._low = np.zeros(0, np.int16)
        self._expected = -1

    def feed(self, position: int, samples: Frames) -> None:
        if position != self._expected:
            self._decimator = Decimator(CAPTURE_RATE, STEP)
            self._low = np.zeros(0, np.int16)
        self._expected = position + len(samples)
        self._low = np.concatenate((self._low, self._decimator.feed(samples)))
        looked, spoken = False, False
        while len(self._low) >= FRAME:
            frame, self._low = self._low[:FRAME], self._low[FRAME:]
            looked, spoken = True, self._vad.voiced(frame) or spoken
        if looked:
            self._tell(ev.Listened(time.monotonic_ns(), spoken))
