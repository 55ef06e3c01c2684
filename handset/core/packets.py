"""The binary messages of the ``aud`` channel, protocol version 1.

Big-endian. Every message begins ``u8 version, u8 kind``.

================  ==============================================================
kind              rest
================  ==============================================================
1 item start      ``u32 handle``, then JSON: item_id, content_index, response_id,
                  turn, rate, pre_skip
2 item audio      ``u32 handle, u32 first_packet, u8 count``, ``count`` x u16
                  length, then the Opus packets
3 item end        ``u32 handle, u32 packets, u64 samples``
16 capture data   ``u64 turn, u64 capture_sample, u8 count``, lengths and
                  packets as in 2 (handset to edge)
================  ==============================================================

Start, audio and end of an item share one ordered channel, so they arrive in order.
Packets are 20 ms of mono Opus. ``pre_skip`` is in samples at 48 kHz. A handle names an
item within one connection.
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass

VERSION = 1
PACKET_SAMPLES = 960
"""Samples of one Opus packet, at 48 kHz."""
MAX_PACKET = 1275
"""Bytes of an Opus packet of one frame (RFC 6716, 3.2.1)."""
MAX_MESSAGE = 65535
"""Bytes. A peer that announces nothing takes this much (RFC 8841, 6.1)."""

_HEAD = struct.Struct(">BB")
_HANDLE = struct.Struct(">I")
_AUDIO = struct.Struct(">IIB")
_END = struct.Struct(">IIQ")
_CAPTURE = struct.Struct(">QQB")


class Malformed(ValueError):
    """The peer sent bytes that are no message of this protocol."""


@dataclass(frozen=True, slots=True)
class ItemStart:
    handle: int
    item_id: str
    content_index: int
    response_id: str
    turn: int
    rate: int
    pre_skip: int


@dataclass(frozen=True, slots=True)
class ItemAudio:
    handle: int
    first_packet: int
    packets: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class ItemEnd:
    """``samples``: the item's exact length at its own rate."""

    handle: int
    packets: int
    samples: int


@dataclass(frozen=True, slots=True)
class CaptureData:
    """Packet ``i`` begins at capture sample ``capture_sample + 960 * i``."""

    turn: int
    capture_sample: int
    packets: tuple[bytes, ...]


Packet = ItemStart | ItemAudio | ItemEnd | CaptureData


def _lengths(packets: tuple[bytes, ...]) -> bytes:
    if not 0 < len(packets) < 256:
        raise ValueError(f"{len(packets)} packets in one message; 1 to 255 fit")
    for packet in packets:
        if not 0 < len(packet) <= MAX_PACKET:
            raise ValueError(f"an Opus packet of {len(packet)} bytes; 1 to {MAX_PACKET} fit")
    return struct.pack(f">{len(packets)}H", *map(len, packets))


def encode(message: Packet) -> bytes:
    """Bytes of one message. ``ValueError`` when it does not fit the format."""
    match message:
        case ItemStart(handle=handle):
            body = json.dumps(
                {
                    "item_id": message.item_id,
                    "content_index": message.content_index,
                    "response_id": message.response_id,
                    "turn": message.turn,
                    "rate": message.rate,
                    "pre_skip": message.pre_skip,
                },
                separators=(",", ":"),
            )
            return _HEAD.pack(VERSION, 1) + _HANDLE.pack(handle) + body.encode()
        case ItemAudio(handle, first, packets):
            lengths = _lengths(packets)
            head = _HEAD.pack(VERSION, 2) + _AUDIO.pack(handle, first, len(packets))
            return head + lengths + b"".join(packets)
        case ItemEnd(handle, count, samples):
            return _HEAD.pack(VERSION, 3) + _END.pack(handle, count, samples)
        case CaptureData(turn, sample, packets):
            lengths = _lengths(packets)
            head = _HEAD.pack(VERSION, 16) + _CAPTURE.pack(turn, sample, len(packets))
            return head + lengths + b"".join(packets)


def _packets(data: bytes, offset: int, count: int) -> tuple[bytes, ...]:
    if count == 0:
        raise Malformed("an audio message without packets")
    try:
        lengths = struct.unpack_from(f">{count}H", data, offset)
    except struct.error:
        raise Malformed("the list of packet lengths is cut off") from None
    offset += 2 * count
    if offset + sum(lengths) != len(data):
        raise Malformed(
            f"packet lengths add up to {sum(lengths)} bytes, {len(data) - offset} follow"
        )
    packets = []
    for length in lengths:
        if not 0 < length <= MAX_PACKET:
            raise Malformed(f"an Opus packet of {length} bytes; 1 to {MAX_PACKET} are allowed")
        packets.append(data[offset : offset + length])
        offset += length
    return tuple(packets)


def _text(body: dict[str, object], name: str) -> str:
    value = body.get(name)
    if not isinstance(value, str):
        raise Malformed(f"item start: {name} is {value!r}, not a text")
    if not 0 < len(value) <= 128:
        raise Malformed(f"item start: {name} has {len(value)} characters; 1 to 128 are allowed")
    return value


def _number(body: dict[str, object], name: str, low: int, high: int) -> int:
    value = body.get(name)
    if not isinstance(value, int) or isinstance(value, bool):
        raise Malformed(f"item start: {name} is {value!r}, not a whole number")
    if not low <= value <= high:
        raise Malformed(f"item start: {name} is {value}, outside {low}..{high}")
    return value


def _start(data: bytes) -> ItemStart:
    (handle,) = _HANDLE.unpack_from(data, 2)
    try:
        body = json.loads(data[6:].decode())
    except (UnicodeDecodeError, ValueError, RecursionError) as error:
        raise Malformed(f"item start: no JSON ({error})") from None
    if not isinstance(body, dict):
        raise Malformed("item start: JSON, but no object")
    return ItemStart(
        handle,
        _text(body, "item_id"),
        _number(body, "content_index", 0, 255),
        _text(body, "response_id"),
        _number(body, "turn", 0, 1 << 62),
        _number(body, "rate", 8000, 48000),
        _number(body, "pre_skip", 0, 48000),
    )


def decode(data: bytes) -> Packet:
    """One message from bytes. ``Malformed`` for anything else, whatever it is."""
    if len(data) > MAX_MESSAGE:
        raise Malformed(f"{len(data)} bytes in one message; {MAX_MESSAGE} are allowed")
    try:
        version, kind = _HEAD.unpack_from(data)
        if version != VERSION:
            raise Malformed(f"audio message of version {version}; this is {VERSION}")
        match kind:
            case 1:
                return _start(data)
            case 2:
                handle, first, count = _AUDIO.unpack_from(data, 2)
                return ItemAudio(handle, first, _packets(data, 2 + _AUDIO.size, count))
            case 3:
                if len(data) != 2 + _END.size:
                    raise Malformed(f"item end of {len(data)} bytes")
                return ItemEnd(*_END.unpack_from(data, 2))
            case 16:
                turn, sample, count = _CAPTURE.unpack_from(data, 2)
                return CaptureData(turn, sample, _packets(data, 2 + _CAPTURE.size, count))
    except struct.error:
        raise Malformed(f"audio message cut off after {len(data)} bytes") from None
    raise Malformed(f"audio message of unknown kind {kind}")
