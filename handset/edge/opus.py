"""Opus in both directions, exact in length.

Opus only has whole packets, and a decoder starts with a few samples that belong to no
one. So a stream of ``n`` samples at 48 kHz travels as ``ceil((n + skip) / 960)`` packets,
and is ``y[skip : skip + n]`` of what one fresh decoder makes of all of them. Sender and
receiver count; nothing here reads a clock.

An item that is still arriving has no known end, and its newest packet may hold samples
beyond it. That packet is held back, decoded, until another follows or the end is told.

Neither class is thread-safe. A packet costs 30 to 80 us to decode and 150 to 300 us to
encode on a shared server core: keep the encoder off the event loop of a small machine.
"""

from __future__ import annotations

from fractions import Fraction

import av
import numpy as np
from numpy.typing import NDArray

from handset.core.packets import MAX_PACKET, PACKET_SAMPLES, Malformed
from handset.errors import UsageError

Samples = NDArray[np.int16]
CODEC_RATE = 48_000
_FLUSH = 2 * PACKET_SAMPLES
"""Zeros at 48 kHz that push the last samples out of the resampler: swresample's filter is
about 32 samples of the lower rate long, 288 of these at 8 kHz, and works in blocks."""


def packets_needed(samples: int, rate: int, skip: int) -> int:
    """How many packets carry ``samples`` at ``rate`` behind ``skip`` samples at 48 kHz."""
    return -(-(_at(samples, rate, CODEC_RATE) + skip) // PACKET_SAMPLES)


def _at(samples: int, rate: int, to: int) -> int:
    """A length at another rate, a part of a sample counted as one."""
    return -(-samples * to // rate)


def _frame(samples: Samples, at: int) -> av.AudioFrame:
    frame = av.AudioFrame.from_ndarray(samples[np.newaxis], format="s16", layout="mono")
    frame.sample_rate = CODEC_RATE
    frame.time_base = Fraction(1, CODEC_RATE)
    frame.pts = at
    return frame


class ItemDecoder:
    """Decodes one assistant item into frames at the device's rate.

    In total exactly ``ceil(samples * device_rate / item_rate)`` frames come out, aligned
    with the item: frame ``k`` is the sound at ``k / device_rate`` seconds. The decoder
    belongs to the item, not to a connection: after a reconnect the same one goes on with
    the next packet.
    """

    def __init__(self, item_rate: int, pre_skip: int, device_rate: int) -> None:
        """``item_rate`` and ``device_rate`` in Hz, ``pre_skip`` in samples at 48 kHz."""
        if min(item_rate, device_rate) < 8_000 or pre_skip < 0:
            raise UsageError(
                f"an item at {item_rate} Hz, {pre_skip} samples of pre-skip, for a device at "
                f"{device_rate} Hz; rates begin at 8000 Hz and a pre-skip at 0"
            )
        self._item_rate = item_rate
        self._device_rate = device_rate
        self._pre_skip = pre_skip
        # Without extradata: with an OpusHead the decoder would drop the pre-skip by itself.
        self._codec = av.CodecContext.create("libopus", "r")
        assert isinstance(self._codec, av.AudioCodecContext)
        self._codec.sample_rate = CODEC_RATE
        self._codec.layout = "mono"
        self._resampler = (
            None
            if device_rate == CODEC_RATE
            else av.AudioResampler(format="s16", layout="mono", rate=device_rate)
        )
        self._held = np.zeros(0, np.int16)
        self._to_skip = pre_skip
        self._released = 0  # samples at 48 kHz that left the hold
        self._frames = 0  # frames at the device's rate that were returned
        self._count = 0
        self._damaged = 0
        self._ended: int | None = None

    @property
    def samples(self) -> int:
        """Item samples released so far, what sits in the resampler included; never falls."""
        if self._ended is not None:
            return self._ended
        return self._released * self._item_rate // CODEC_RATE

    @property
    def next_packet(self) -> int:
        """Index of the packet that has to come next."""
        return self._count

    @property
    def damaged(self) -> int:
        """Packets that were no 20 ms of Opus; 20 ms of silence stands for each."""
        return self._damaged

    def packets(self, packets: list[bytes]) -> Samples:
        """Frames that are certain now. The packets are the next ones, none left out."""
        if self._ended is not None:
            raise UsageError("packets after the end of an item; a new item needs a new decoder")
        parts = []
        for packet in packets:
            parts.append(self._held)
            self._held = self._decode(packet)
            self._count += 1
        return self._release(np.concatenate(parts) if parts else np.zeros(0, np.int16))

    def end(self, samples: int) -> Samples:
        """The rest, once the item is known to be ``samples`` long at its own rate.

        ``Malformed`` when the packets that came don't make up that length; the decoder
        then is as before and can only be thrown away.
        """
        if self._ended is not None:
            raise UsageError("the end of an item twice; the second one is to be ignored")
        needed = packets_needed(samples, self._item_rate, self._pre_skip)
        if self._count != needed and (samples or self._count):
            raise Malformed(
                f"an item of {samples} samples at {self._item_rate} Hz needs {needed} packets, "
                f"{self._count} came"
            )
        rest = _at(samples, self._item_rate, CODEC_RATE) - self._released
        total = _at(samples, self._item_rate, self._device_rate)
        last = self._skip(self._held)[:rest]
        self._held = np.zeros(0, np.int16)
        self._released += len(last)
        self._ended = samples
        if self._resampler is not None:
            last = self._resample(np.concatenate((last, np.zeros(_FLUSH, np.int16))))
            last = last[: total - self._frames]
        self._frames += len(last)
        return last

    def _decode(self, packet: bytes) -> Samples:
        if not 0 < len(packet) <= MAX_PACKET:
            raise UsageError(
                f"an Opus packet of {len(packet)} bytes; 1 to {MAX_PACKET} are allowed"
            )
        assert isinstance(self._codec, av.AudioCodecContext)
        try:
            frames = self._codec.decode(av.Packet(packet))
        except av.FFmpegError:
            frames = []
        parts = [frame.to_ndarray()[0] for frame in frames]
        decoded = np.concatenate(parts) if parts else np.zeros(0, np.int16)
        if len(decoded) != PACKET_SAMPLES:
            self._damaged += 1
            return np.zeros(PACKET_SAMPLES, np.int16)
        return decoded

    def _skip(self, decoded: Samples) -> Samples:
        skipped = min(self._to_skip, len(decoded))
        self._to_skip -= skipped
        return decoded[skipped:]

    def _release(self, decoded: Samples) -> Samples:
        decoded = self._skip(decoded)
        frames = decoded if self._resampler is None else self._resample(decoded)
        self._released += len(decoded)
        self._frames += len(frames)
        return frames

    def _resample(self, decoded: Samples) -> Samples:
        assert self._resampler is not None
        if not len(decoded):
            return decoded
        frames = self._resampler.resample(_frame(decoded, self._released))
        parts = [frame.to_ndarray()[0] for frame in frames]
        return np.concatenate(parts) if parts else np.zeros(0, np.int16)


class CaptureEncoder:
    """Encodes the microphone of one turn: mono int16 at 48 kHz in, packets of 20 ms out.

    Packet ``i`` begins at the turn's sample ``960 * i``. What a fresh decoder makes of the
    packets lies ``lookahead`` samples late.
    """

    def __init__(self, bit_rate: int = 24_000, complexity: int = 5, loss_percent: int = 10) -> None:
        """``bit_rate`` in bit/s; ``complexity`` 0 to 10; ``loss_percent`` is what the
        in-band error correction is laid out for."""
        self._codec = av.CodecContext.create("libopus", "w")
        assert isinstance(self._codec, av.AudioCodecContext)
        self._codec.sample_rate = CODEC_RATE
        self._codec.layout = "mono"
        self._codec.format = av.AudioFormat("s16")
        self._codec.time_base = Fraction(1, CODEC_RATE)
        self._codec.bit_rate = bit_rate
        self._codec.options = {
            "application": "voip",
            "frame_duration": "20",
            "compression_level": str(complexity),
            "fec": "1",
            "packet_loss": str(loss_percent),
        }
        self._codec.open()
        # OpusHead (RFC 7845, 5.1): the pre-skip is a little-endian u16 at byte 10.
        self._lookahead = int.from_bytes((self._codec.extradata or b"")[10:12], "little")
        self._waiting = np.zeros(0, np.int16)
        self._samples = 0
        self._count = 0
        self._finished = False

    @property
    def lookahead(self) -> int:
        """Samples at 48 kHz that a decoder puts out before the first one of the turn."""
        return self._lookahead

    @property
    def samples(self) -> int:
        """Samples fed so far."""
        return self._samples

    def feed(self, frames: Samples) -> list[bytes]:
        """The packets that are full now. ``frames`` has shape (n,), any n."""
        if self._finished:
            raise UsageError("sound after the end of a turn; a new turn needs a new encoder")
        self._samples += len(frames)
        return self._encode(frames)

    def finish(self) -> list[bytes]:
        """The last packets: together ``ceil((samples + lookahead) / 960)``, none for no sound."""
        if self._finished:
            return []
        total = packets_needed(self._samples, CODEC_RATE, self._lookahead) if self._samples else 0
        missing = total * PACKET_SAMPLES - self._count * PACKET_SAMPLES - len(self._waiting)
        self._finished = True
        return self._encode(np.zeros(missing, np.int16))

    def _encode(self, frames: Samples) -> list[bytes]:
        assert isinstance(self._codec, av.AudioCodecContext)
        waiting = np.concatenate((self._waiting, frames))
        packets = []
        for at in range(0, len(waiting) - PACKET_SAMPLES + 1, PACKET_SAMPLES):
            block = waiting[at : at + PACKET_SAMPLES]
            packets += [
                bytes(packet)
                for packet in self._codec.encode(_frame(block, self._count * PACKET_SAMPLES))
            ]
            self._count += 1
        self._waiting = waiting[len(waiting) - len(waiting) % PACKET_SAMPLES :].copy()
        return packets
