"""What the person said, put together from RTP and from ``capture.data``.

A packet at capture position ``p`` was made of the samples ``[p, p + 960)`` at the encoder's
input. The decoder is late by ``lookahead`` samples, so the sound of ``[start, end)`` needs
every packet that touches ``[start, end + lookahead)``; of what one fresh decoder makes of
them, ``end - start`` samples are the turn, to the sample.

An encoder of a turn begins at the turn's own start, so two turns may lie on two grids of
960. A turn's packets are on the grid of its start if there are any there, else on the grid
of the first packet in its range (an encoder that runs all the time).

RTP that comes before its connection's ``capture.map``, or before the backlog of durable
events of that connection is settled, waits. All audio is in memory only, and bounded.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter, deque
from dataclasses import dataclass, field

import av
import numpy as np
from numpy.typing import NDArray

from handset.bench.speech.clip import decode
from handset.core.messages import CaptureMap, Span
from handset.core.packets import MAX_PACKET, PACKET_SAMPLES, CaptureData

PACKETS_MAX = 60_000
"""20 minutes; the oldest go first."""
WAITING_MAX = 1_500
"""RTP packets of one connection kept until it has a map: 30 s."""
POSITION_MAX = 1 << 62


def opus_samples(packet: bytes) -> int:
    """Samples at 48 kHz that a packet says it holds (RFC 6716, 3.1 and 3.2); 0 for none."""
    if not packet:
        return 0
    config, code = packet[0] >> 3, packet[0] & 3
    if config < 12:
        frame = (480, 960, 1920, 2880)[config & 3]
    elif config < 16:
        frame = (480, 960)[config & 1]
    else:
        frame = (120, 240, 480, 960)[config & 3]
    frames = (1, 2, 2, packet[1] & 0x3F if len(packet) > 1 else 0)[code]
    return frame * frames


@dataclass(slots=True)
class _Line:
    """The RTP timeline of one connection."""

    map: CaptureMap | None = None
    open: bool = False
    waiting: deque[tuple[int, int, bytes]] = field(
        default_factory=lambda: deque(maxlen=WAITING_MAX)
    )


@dataclass(slots=True)
class Assembly:
    """Every packet of a handset's microphone, by capture position."""

    lookahead: int = 312
    counters: Counter[str] = field(default_factory=Counter)
    _lines: dict[int, _Line] = field(default_factory=dict)
    _packets: dict[int, bytes] = field(default_factory=dict)
    _order: list[int] = field(default_factory=list)

    def rtp(self, connection: int, ssrc: int, timestamp: int, payload: bytes) -> None:
        """One RTP packet as it came off the wire, in any order, at most once of use."""
        line = self._lines.setdefault(connection, _Line())
        if line.map is None or not line.open:
            self.counters["rtp_waited"] += 1
            line.waiting.append((ssrc, timestamp, payload))
            return
        self._place(line.map, ssrc, timestamp, payload)

    def map(self, connection: int, message: CaptureMap) -> None:
        """How the timestamps of the connection lie on the capture timeline."""
        self._lines.setdefault(connection, _Line()).map = message
        self.lookahead = min(max(0, message.lookahead), 4 * PACKET_SAMPLES)
        self._flush(connection)

    def open(self, connection: int) -> None:
        """The connection's backlog of durable events is settled: take its audio."""
        self._lines.setdefault(connection, _Line()).open = True
        self._flush(connection)

    def close(self, connection: int) -> None:
        self._lines.pop(connection, None)

    def data(self, message: CaptureData) -> None:
        """Packets that were missing."""
        for index, packet in enumerate(message.packets):
            self._store("backfill", message.capture_sample + index * PACKET_SAMPLES, packet)

    def missing(self, span: Span) -> list[Span]:
        """What has to be sent, as ranges of capture positions, so that all of ``span`` can be
        decoded. The last may reach ``lookahead`` beyond the span's end."""
        holes: list[Span] = []
        for position in self._needed(span):
            if position in self._packets:
                continue
            begin = max(position, span.start)
            end = min(position + PACKET_SAMPLES, span.end + self.lookahead)
            if holes and holes[-1].end == begin:
                begin = holes.pop().start
            holes.append(Span(begin, end))
        return holes

    def pcm(self, span: Span) -> NDArray[np.int16] | None:
        """The sound of the span: mono, 48 kHz, exactly ``end - start`` samples. Null when some
        of it is missing. ``ValueError`` when the packets do not decode."""
        if span.end <= span.start:
            return np.zeros(0, np.int16)
        needed = self._needed(span)
        if any(position not in self._packets for position in needed):
            return None
        try:
            decoded = decode(tuple(self._packets[position] for position in needed))
        except av.FFmpegError as error:
            raise ValueError(f"packets that are no Opus: {error}") from None
        first = span.start - needed[0] + self.lookahead
        return decoded[first : first + span.end - span.start]

    def _needed(self, span: Span) -> range:
        """Positions of all packets of a span."""
        if span.end <= span.start:
            return range(0)
        first = span.start - (span.start - self._grid(span)) % PACKET_SAMPLES
        return range(first, span.end + self.lookahead, PACKET_SAMPLES)

    def _grid(self, span: Span) -> int:
        at = bisect_left(self._order, span.start - PACKET_SAMPLES + 1)
        fallback = None
        while at < len(self._order) and self._order[at] < span.end + self.lookahead:
            if (self._order[at] - span.start) % PACKET_SAMPLES == 0:
                return span.start
            if fallback is None:
                fallback = self._order[at]
            at += 1
        return span.start if fallback is None else fallback

    def _flush(self, connection: int) -> None:
        line = self._lines[connection]
        if line.map is None or not line.open:
            return
        waiting, line.waiting = line.waiting, deque(maxlen=WAITING_MAX)
        for ssrc, timestamp, payload in waiting:
            self._place(line.map, ssrc, timestamp, payload)

    def _place(self, map: CaptureMap, ssrc: int, timestamp: int, payload: bytes) -> None:
        if ssrc != map.ssrc:
            self.counters["rtp_foreign_ssrc"] += 1
            return
        # Timestamps have 32 bits and begin anywhere: the shorter way round is meant.
        ahead = (timestamp - map.rtp_ts + (1 << 31)) % (1 << 32) - (1 << 31)
        self._store("rtp", map.capture_sample + ahead, payload)

    def _store(self, way: str, position: int, packet: bytes) -> None:
        if (
            opus_samples(packet) != PACKET_SAMPLES
            or len(packet) > MAX_PACKET
            or not 0 <= position < POSITION_MAX
        ):
            self.counters[f"{way}_malformed"] += 1
        elif position in self._packets:
            self.counters[f"{way}_duplicate"] += 1
        else:
            self.counters[f"{way}_packets"] += 1
            self._packets[position] = packet
            insort(self._order, position)
            if len(self._order) > PACKETS_MAX:
                del self._packets[self._order.pop(0)]
