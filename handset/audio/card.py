"""The sound card of a headset: a playout stream and a capture stream, watched.

A card that is missing or goes away is a state, not an end: :meth:`Card.open` says why,
:meth:`Card.gone` notices that callbacks have stopped, and the owner tries again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from handset.audio import devices
from handset.audio.capture import Capture, CaptureConfig
from handset.audio.devices import ASOUND, RATES, WrongRate
from handset.audio.playout import Playout, PlayoutConfig
from handset.audio.stream import Grant, Stream, StreamSettings
from handset.core.messages import Estimate
from handset.core.segments import NO_DELAY

SILENT_NS = 500_000_000
"""Without a callback for so long the card is gone: fifty host periods."""


@dataclass(frozen=True, slots=True)
class CardSettings:
    """``rate`` None: the best that the card has. ``capture`` empty: the same device."""

    playback: str
    capture: str = ""
    rate: int | None = None
    block_ms: float = 10.0
    latency: float = 0.02
    channels: int = 1
    fade_ms: float = 5.0
    duck_db: float = -12.0
    queue_seconds: float = 87.0
    k: Estimate = NO_DELAY
    k_quality: str = "nominal"
    asound_root: Path = ASOUND
    reference: bool = False
    """Whether what is played can be read again, for an echo canceller."""


class Card:
    """Both streams of one card, open. Made by :meth:`open`."""

    def __init__(
        self,
        playout: Playout,
        capture: Capture,
        output: Stream,
        input_: Stream,
        reference: Capture | None = None,
    ) -> None:
        self.playout = playout
        self.capture = capture
        self.reference = reference
        """What was given to the device, by the time it leaves the converter; the silence of
        a device that started anew is a gap."""
        self.output = output
        self.input = input_
        self._seen = (0, 0)
        self._moved_ns = 0

    @classmethod
    def open(
        cls,
        settings: CardSettings,
        *,
        region: Path | None = None,
        wake_fd: int = -1,
        boot_id: tuple[int, int] = (0, 0),
        first_clear: int = 0,
    ) -> Card:
        """Blocks for a few host periods. ``DeviceError`` that names the cause."""
        output = devices.find(settings.playback, "playback", settings.asound_root)
        source = settings.capture or settings.playback
        input_ = devices.find(source, "capture", settings.asound_root)
        rates = RATES if settings.rate is None else (settings.rate,)
        for rate in rates:
            try:
                return cls._open_at(
                    rate, settings, output, input_, region, wake_fd, boot_id, first_clear
                )
            except WrongRate:
                if rate == rates[-1]:
                    raise
        raise AssertionError("no rate was tried")

    @classmethod
    def _open_at(
        cls,
        rate: int,
        settings: CardSettings,
        output: devices.Device,
        input_: devices.Device,
        region: Path | None,
        wake_fd: int,
        boot_id: tuple[int, int],
        first_clear: int,
    ) -> Card:
        stream = StreamSettings(
            rate,
            min(settings.channels, output.channels),
            settings.block_ms,
            settings.latency,
            settings.k,
            settings.k_quality,
        )
        restart = round(rate * settings.block_ms * 1.5 / 1000)
        playout = Playout(
            PlayoutConfig(
                rate,
                stream.channels,
                settings.queue_seconds,
                fade_ms=settings.fade_ms,
                duck_gain=round(32768 * 10 ** (settings.duck_db / 20)),
                restart_frames=restart,
                first_clear=first_clear,
                boot_id=boot_id,
                wake_fd=wake_fd,
            ),
            region,
        )
        capture = Capture(CaptureConfig(rate, restart_frames=restart, wake_fd=wake_fd))
        tap = None
        if settings.reference:
            tap = Capture(CaptureConfig(rate, stream.channels, restart_frames=restart, wake_ms=0))
        opened: list[Stream] = []
        try:
            # Capture first: playout without a microphone is no headset.
            mic = replace(stream, channels=1)
            opened.append(Stream.open(capture, input_, mic, settings.asound_root))
            opened.append(Stream.open(playout, output, stream, settings.asound_root, reference=tap))
        except BaseException:
            for each in opened:
                each.close()
            capture.close()
            playout.close()
            if tap is not None:
                tap.close()
            raise
        return cls(playout, capture, opened[1], opened[0], tap)

    def lock_memory(self) -> int:
        """0, or the errno of the first lock that the system did not allow."""
        rings = (self.playout, self.capture, self.reference)
        return next((e for ring in rings if ring is not None and (e := ring.lock_memory())), 0)

    @property
    def grant(self) -> Grant:
        """Of the playout stream."""
        return self.output.grant

    def gone(self, now_ns: int) -> bool:
        """Whether either stream has stopped asking. To be called every few periods."""
        seen = (self.output.callbacks, self.input.callbacks)
        if self._moved_ns == 0 or (seen[0] != self._seen[0] and seen[1] != self._seen[1]):
            self._seen, self._moved_ns = seen, now_ns
        return now_ns - self._moved_ns > SILENT_NS

    def lost_frames(self, fading: int) -> int:
        """Handed frames that may not have sounded when the stream ends now."""
        grant = self.grant
        return grant.buffer + max(grant.block, grant.period) + fading

    def close_streams(self) -> None:
        """No callback runs after this; the queue can be settled."""
        self.output.close()
        self.input.close()

    def close(self) -> None:
        self.close_streams()
        self.playout.close()
        self.capture.close()
        if self.reference is not None:
            self.reference.close()
