"""From the microphone to the edge: a turn's audio, whole and by sample count.

The microphone is read all the time, also while playout is cleared; the newest seconds
are kept for the pre-roll. Between a turn's start and its end the frames are encoded and
leave as RTP at once; every packet also stays here, in memory only, until the edge has
said that it has the whole turn, and in a tmpfs, for a process that dies before that.

Positions are samples at 48 kHz on the capture timeline. A gap (the device dropped input,
or the ring was full) is filled with zeros, so that positions stay true.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction

import av
import numpy as np

from handset.audio.playout import Frames
from handset.core.messages import Span
from handset.core.packets import PACKET_SAMPLES
from handset.edge.opus import CaptureEncoder
from handset.system.turn_store import GivenUp, StoredTurn, TurnStore

log = logging.getLogger(__name__)

RATE = 48_000
KEEP = 5 * RATE
"""Samples kept for a pre-roll, and for a gesture that is told late."""
MOST_PACKETS = 10 * 60 * 50
"""Packets of turns that are kept at most: ten minutes."""
LONGEST_GAP = 10 * RATE


class Upsampler:
    """The device's frames as 48 kHz samples, on one timeline without holes. ``origin``:
    where on it the device's frame 0 lies; another device goes on where the last one ended."""

    def __init__(self, rate: int, origin: int = 0) -> None:
        self.rate = rate
        self.origin = origin
        self.filled = 0
        """Frames of silence that stand for gaps."""
        self._expected: int | None = None
        self._resampler: av.AudioResampler | None = None
        self._fed = 0

    def feed(self, position: int, frames: Frames) -> tuple[int | None, Frames]:
        """Position (48 kHz) of the first sample, None for "goes on", and the samples."""
        first = None
        end = position + len(frames)
        if self._expected is None or position - self._expected > LONGEST_GAP:
            first = self.origin + position * RATE // self.rate
            self._resampler, self._fed = self._new_resampler(), 0
        elif position > self._expected:
            gap = position - self._expected
            self.filled += gap
            frames = np.concatenate((np.zeros(gap, np.int16), frames))
        self._expected = end
        return first, self._resample(frames)

    def _new_resampler(self) -> av.AudioResampler | None:
        if self.rate == RATE:
            return None
        return av.AudioResampler(format="s16", layout="mono", rate=RATE)

    def _resample(self, frames: Frames) -> Frames:
        if self._resampler is None:
            return frames
        frame = av.AudioFrame.from_ndarray(
            np.ascontiguousarray(frames)[np.newaxis], format="s16", layout="mono"
        )
        frame.sample_rate = self.rate
        frame.time_base = Fraction(1, self.rate)
        frame.pts = self._fed
        self._fed += len(frames)
        parts = [out.to_ndarray()[0] for out in self._resampler.resample(frame)]
        return np.concatenate(parts) if parts else np.zeros(0, np.int16)


@dataclass(slots=True)
class _TurnAudio:
    turn: int
    start: int
    encoder: CaptureEncoder
    fed: int
    end: int | None = None
    finished: bool = False
    packets: list[bytes] = field(default_factory=list)

    def sample_of(self, packet: int) -> int:
        return self.start + PACKET_SAMPLES * packet


class Microphone:
    """``send(packet, capture_sample)`` gives one packet to the current connection. ``store``
    keeps turns for another process; ``first``: where the timeline begins."""

    def __init__(
        self,
        send: Callable[[bytes, int], None],
        store: TurnStore | None = None,
        first: int = 0,
    ) -> None:
        self._send = send
        self._store = store
        self._turns: dict[int, _TurnAudio] = {}
        self._history = np.zeros(0, np.int16)
        self._end = first
        self._lookahead = CaptureEncoder().lookahead
        self.dropped_packets = 0
        """Packets of old turns that were given up because there were too many."""

    @property
    def position(self) -> int:
        """The timeline is known up to here."""
        return self._end

    @property
    def lookahead(self) -> int:
        return self._lookahead

    def feed(self, first: int | None, samples: Frames) -> None:
        """The next samples; ``first`` where they don't go on from the last ones."""
        if first is not None and first != self._end:
            self._history = np.zeros(0, np.int16)
            self._end = first
        self._history = np.concatenate((self._history, samples))[-KEEP:]
        self._end += len(samples)
        for audio in self._turns.values():
            self._encode(audio)

    def begin(self, turn: int, start: int) -> None:
        """Everything from ``start`` on, the pre-roll included, belongs to the turn."""
        audio = _TurnAudio(turn, start, CaptureEncoder(), start)
        self._turns[turn] = audio
        if self._store is not None:
            self._given_up(self._store.begin(turn, start))
        self._encode(audio)
        self._trim()

    def end(self, turn: int, end: int) -> None:
        audio = self._turns.get(turn)
        if audio is not None and audio.end is None:
            audio.end = max(end, audio.start)
            self._encode(audio)

    def restore(self, stored: StoredTurn) -> None:
        """A turn that a process before this one had recorded to its end."""
        audio = _TurnAudio(stored.turn, stored.start, CaptureEncoder(), stored.start)
        audio.end, audio.finished, audio.packets = stored.end, True, list(stored.packets)
        self._turns[stored.turn] = audio

    def forget(self, turn: int) -> None:
        self._turns.pop(turn, None)
        if self._store is not None:
            self._store.forget(turn)

    def _given_up(self, lost: tuple[GivenUp, ...]) -> None:
        for each in lost:
            log.warning(
                "turn %d from packet %d on would be lost in a crash: %s",
                each.turn,
                each.first,
                each.reason,
            )

    def packets(self, turn: int, ranges: tuple[Span, ...]) -> list[tuple[int, bytes]]:
        """Packets of the turn that overlap the ranges, each with its capture sample."""
        audio = self._turns.get(turn)
        if audio is None:
            return []
        wanted = []
        for index, packet in enumerate(audio.packets):
            sample = audio.sample_of(index)
            if any(span.start < sample + PACKET_SAMPLES and sample < span.end for span in ranges):
                wanted.append((sample, packet))
        return wanted

    def _encode(self, audio: _TurnAudio) -> None:
        if audio.finished:
            return
        upto = self._end if audio.end is None else min(self._end, audio.end)
        if upto > audio.fed:
            oldest = self._end - len(self._history)
            if audio.fed < oldest:  # more than KEEP ago: silence stands for it
                self._emit(audio, audio.encoder.feed(np.zeros(oldest - audio.fed, np.int16)))
                audio.fed = oldest
            self._emit(audio, audio.encoder.feed(self._history[audio.fed - oldest : upto - oldest]))
            audio.fed = upto
        if audio.end is not None and audio.fed >= audio.end:
            self._emit(audio, audio.encoder.finish())
            audio.finished = True
            if self._store is not None:
                self._given_up(self._store.end(audio.turn, audio.end))

    def _emit(self, audio: _TurnAudio, packets: list[bytes]) -> None:
        for packet in packets:
            index = len(audio.packets)
            self._send(packet, audio.sample_of(index))
            audio.packets.append(packet)
            if self._store is not None:
                self._given_up(self._store.packet(audio.turn, index, packet))

    def _trim(self) -> None:
        while len(self._turns) > 1 and (
            sum(len(audio.packets) for audio in self._turns.values()) > MOST_PACKETS
        ):
            oldest = next(iter(self._turns))
            self.dropped_packets += len(self._turns[oldest].packets)
            self.forget(oldest)
