"""A scene through the product's own front: native rings, anchors, canceller, webrtcvad.

Two devices with clocks of their own. The playout is rendered ``BUFFER`` frames before it
leaves the converter; both devices tell their times late, by up to ``LATE_NS``, as real ones
do.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from handset.audio.capture import Capture, CaptureConfig
from handset.audio.voice_front import VoiceFrame, VoiceFront, VoiceSettings
from handset.bench.voice.scenes import Scene
from handset.bench.voice.voices import RATE
from handset.core.speech import SpeechSettings

BLOCK, BUFFER = 480, 1_440
LATE_NS = 1_500_000
START_NS = 10_000_000_000
SECOND = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Heard:
    """What the detector is given for a scene; thresholds are tried on this."""

    scene: Scene
    canceller: str
    frames: tuple[VoiceFrame, ...]
    missing: int
    drift_ppm: float


def hear(scene: Scene, canceller: str, speech: SpeechSettings | None = None) -> Heard:
    """Raises DeviceError for a canceller that is not there."""
    frames: list[VoiceFrame] = []
    settings = VoiceSettings(canceller, speech=speech or SpeechSettings())
    front = VoiceFront(settings, listen=frames.append)
    mic = Capture(CaptureConfig(RATE))
    out = Capture(CaptureConfig(RATE))
    rng = Random(scene.seed)
    played, rendered = scene.played, 0
    frame_ns = SECOND / (RATE * (1 + scene.condition.drift_ppm * 1e-6))
    front.open_reference(RATE)
    try:
        for at in range(0, len(scene.mic), BLOCK):
            begin_ns = START_NS + at * SECOND // RATE
            now_ns = begin_ns + BLOCK * SECOND // RATE
            while played is not None and rendered + BLOCK <= len(played):
                dac_ns = START_NS + round(rendered * frame_ns)
                if dac_ns - BUFFER * frame_ns > now_ns:
                    break
                block = played[rendered : rendered + BLOCK]
                out.process(block, BLOCK, dac_ns + rng.randrange(LATE_NS), now_ns, 0)
                rendered += BLOCK
            late_ns = begin_ns + rng.randrange(LATE_NS)
            mic.process(scene.mic[at : at + BLOCK], BLOCK, late_ns, now_ns, 0)
            for position, samples in out.read():
                front.feed_reference(position, samples)
            if (counts := out.counts()) is not None:
                front.reference_anchor(counts.anchor)
            if (counts := mic.counts()) is not None:
                front.mic_anchor(counts.anchor, RATE)
            for position, samples in mic.read():
                front.feed(position, samples)
        return Heard(scene, canceller, tuple(frames), front.reference_missing, front.drift_ppm)
    finally:
        front.close()
        mic.close()
        out.close()
