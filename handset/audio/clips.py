"""Short sounds that ship with the package: Opus packets behind one line of JSON.

A `.opusp` file is one line of JSON (UTF-8, ended by a newline: `head -n 1` reads it), then the
packets, each a big-endian u16 length and that many bytes, up to the end of the file. Of the
header's fields these are needed here; what else it holds is its owner's:

    rate, samples    the sound is exactly `samples` samples at `rate`
    pre_skip         samples at 48 kHz that are decoded before the sound begins
    packets          how many packets follow, 20 ms each

The length is exact although Opus has only whole packets. With n = samples * 48000 / rate, there are
`ceil((n + pre_skip) / 960)` packets; one fresh decoder makes y of all of them, at 48 kHz; the sound
is `y[pre_skip : pre_skip + n]`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import av
import numpy as np
from numpy.typing import NDArray

from handset.audio.whole_resample import resample

DECODED_RATE = 48_000
PACKET = 960  # samples at 48 kHz in one packet of 20 ms
ITEM_RATES = (8_000, 12_000, 16_000, 24_000, 48_000)  # the rates an Opus encoder takes


@dataclass(frozen=True, slots=True)
class Sound:
    """A piece of sound, mono, still encoded. `name` is for messages.

    Raises ValueError when the packets are not those that its length needs.
    """

    name: str
    rate: int
    samples: int
    pre_skip: int
    packets: tuple[bytes, ...]

    def __post_init__(self) -> None:
        if self.rate not in ITEM_RATES:
            raise ValueError(f"clip {self.name}: rate {self.rate} is none of {ITEM_RATES}")
        if len(self.packets) != (needed := packets_needed(self.samples, self.rate, self.pre_skip)):
            raise ValueError(f"clip {self.name}: {len(self.packets)} packets, not {needed}")

    def pcm(self, rate: int | None = None) -> NDArray[np.int16]:
        """The decoded sound, shape (n,).

        At the sound's own rate (the default) n is exactly `samples`. At another it is `samples`
        times the ratio of the rates, rounded to the nearest, halves up. Sample k is the sound at
        k / rate seconds: positions scale, nothing is delayed. 48 kHz is what the decoder puts out;
        every other rate is resampled from that.
        """
        rate = self.rate if rate is None else rate
        start, count = self.pre_skip, self.samples * DECODED_RATE // self.rate
        decoded = decode(self.packets)[start : start + count]
        if rate == DECODED_RATE:
            return decoded
        resampled = resample(decoded.astype(np.float64), DECODED_RATE, rate)
        return np.clip(np.rint(resampled), -32_768, 32_767).astype(np.int16)


def pack(header: dict[str, Any], packets: tuple[bytes, ...]) -> bytes:
    """A `.opusp` file. The header gets its count of packets here."""
    line = json.dumps({**header, "packets": len(packets)}, ensure_ascii=False).encode() + b"\n"
    return line + b"".join(len(packet).to_bytes(2, "big") + packet for packet in packets)


def unpack(data: bytes) -> tuple[dict[str, Any], tuple[bytes, ...]]:
    """Header, without its count, and packets. Raises ValueError if they contradict each other."""
    line, newline, body = data.partition(b"\n")
    if not newline:
        raise ValueError("not a speech clip: no header line")
    header: dict[str, Any] = json.loads(line)
    packets = _split(body)
    if len(packets) != header.pop("packets"):
        raise ValueError(f"clip {header['name']}: not the packets its header counts")
    return header, packets


def packets_needed(samples: int, rate: int, pre_skip: int) -> int:
    """How many 20 ms packets carry `samples` at `rate` behind `pre_skip` samples at 48 kHz."""
    return -(-(samples * DECODED_RATE // rate + pre_skip) // PACKET)


def decode(packets: tuple[bytes, ...]) -> NDArray[np.int16]:
    """All that a fresh decoder makes of the packets: mono, 48 kHz, shape (len(packets) * 960,)."""
    decoder = av.CodecContext.create("libopus", "r")
    # No extradata: with an OpusHead the decoder would take the pre-skip off by itself.
    decoder.sample_rate, decoder.layout = DECODED_RATE, "mono"
    frames = [frame for packet in packets for frame in decoder.decode(av.Packet(packet))]
    decoded = np.concatenate([frame.to_ndarray()[0] for frame in frames])
    got = f"{len(decoded)} samples of {decoded.dtype}"
    if decoded.dtype != np.int16 or len(decoded) != len(packets) * PACKET:
        raise ValueError(f"{len(packets)} packets of 20 ms decoded to {got}")
    return decoded


def _split(body: bytes) -> tuple[bytes, ...]:
    packets, at = [], 0
    while at < len(body):
        end = at + 2 + int.from_bytes(body[at : at + 2], "big")
        if end > len(body):
            raise ValueError("the speech clip is cut short inside a packet")
        packets.append(body[at + 2 : end])
        at = end
    return tuple(packets)
