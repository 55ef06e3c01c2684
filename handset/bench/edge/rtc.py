"""What the bench edge uses of aiortc beyond its public names; each is checked first.

Checked against aiortc 1.16.0. A test fails when a name is gone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aiortc import RTCCertificate, RTCPeerConnection, RTCRtpReceiver
from aiortc.rtcrtpreceiver import StreamStatistics

from handset.edge import aiortc_private
from handset.errors import UsageError

_CERTIFICATES = "_RTCPeerConnection__certificates"
_CODECS = "_RTCRtpReceiver__codecs"
_STREAMS = "_RTCRtpReceiver__remote_streams"
_HANDLE = "_handle_rtp_packet"
SSRC_MAX = 4
"""Senders on one receiver; a handset has one."""

RtpSink = Callable[[int, int, bytes], None]

allow_loopback = aiortc_private.allow_loopback


def _hidden(holder: object, name: str) -> Any:
    if not hasattr(holder, name):
        raise UsageError(f"{type(holder).__name__} of this aiortc has no {name}; install 1.16")
    return getattr(holder, name)


def new_certificate() -> tuple[RTCCertificate, str]:
    """A DTLS certificate and its SHA-256 fingerprint: 32 hex pairs with colons."""
    certificate = RTCCertificate.generateCertificate()
    for fingerprint in certificate.getFingerprints():
        if fingerprint.algorithm == "sha-256":
            return certificate, fingerprint.value.upper()
    raise UsageError("this aiortc gives no SHA-256 fingerprint of a certificate; install 1.16")


def use_certificate(pc: RTCPeerConnection, certificate: RTCCertificate) -> None:
    """Be known by this certificate; call before anything else. Public aiortc makes a new one
    for every connection, which nobody could pin."""
    _hidden(pc, _CERTIFICATES)
    setattr(pc, _CERTIFICATES, [certificate])


def tap(receiver: RTCRtpReceiver, sink: RtpSink) -> None:
    """Give every Opus packet to ``sink(ssrc, timestamp, payload)`` as it comes off the wire.

    aiortc's own path loses about 100 ms for each lost packet in its jitter buffer (27 % of
    the audio at 5 % loss) and hides the RTP timestamps. It is replaced, so nothing is
    decoded; its statistics are still fed, since receiver reports are made of them.
    """
    codecs, streams = _hidden(receiver, _CODECS), _hidden(receiver, _STREAMS)
    _hidden(receiver, _HANDLE)

    async def handle(packet: Any, arrival_time_ms: int) -> None:
        codec = codecs.get(packet.payload_type)
        if codec is None or codec.mimeType.lower() != "audio/opus":
            return
        if packet.ssrc not in streams:
            if len(streams) >= SSRC_MAX:
                return
            streams[packet.ssrc] = StreamStatistics(codec.clockRate)
        streams[packet.ssrc].add(packet)
        sink(packet.ssrc, packet.timestamp, packet.payload)

    setattr(receiver, _HANDLE, handle)
