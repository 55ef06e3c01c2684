"""What is used of aiortc and aioice beyond their public names, all in one place.

Each name is checked before it is touched, and a test fails when one is gone. Checked
against aiortc 1.16.0 and aioice 0.13.0.

Three settings, applied once when this module is imported. Numbers: aiortc 1.16 at both
ends, 5 % loss, 60 ms round trip.

- ``SCTP_RTO_MIN`` 1 -> 0.2 s: a lost control message is repeated sooner; p95 of its
  delivery falls from about 1030 to 233 ms.
- ``SCTP_RTO_INITIAL`` 3 -> 1 s: a lost INIT costs one second, not three.
- ``RETRY_RTO`` 0.5 -> 2 s: the consent check of ICE (RFC 7675) waits only this long for
  its answer, without repeating; with 0.5 s a path of 600 ms round trip dies within 30 s
  while data flows.
"""

from __future__ import annotations

import importlib
import logging
from typing import Any

import aioice.ice
from aiortc import RTCRtpSender

from handset.errors import UsageError

log = logging.getLogger(__name__)

SETTINGS: tuple[tuple[str, str, float], ...] = (
    ("aiortc.rtcsctptransport", "SCTP_RTO_MIN", 0.2),
    ("aiortc.rtcsctptransport", "SCTP_RTO_INITIAL", 1.0),
    ("aioice.stun", "RETRY_RTO", 2.0),
)


def apply_settings() -> list[str]:
    """Set them; return the ones that no longer exist, which are logged and left alone."""
    missing = []
    for module_name, name, value in SETTINGS:
        module = importlib.import_module(module_name)
        if isinstance(getattr(module, name, None), int | float):
            setattr(module, name, value)
        else:
            missing.append(f"{module_name}.{name}")
    if missing:
        log.warning("%s can't be set in this version; a lossy link recovers slower", missing)
    return missing


apply_settings()


def _hidden(holder: object, name: str) -> Any:
    try:
        return getattr(holder, name)
    except AttributeError:
        raise UsageError(
            f"{type(holder).__name__} of this aiortc has no {name}; install aiortc 1.16"
        ) from None


def ssrc(sender: RTCRtpSender) -> int:
    """The SSRC that the sender's RTP packets carry."""
    return int(_hidden(sender, "_ssrc"))


def rtp_origin(sender: RTCRtpSender) -> int:
    """What the sender adds to a packet's pts to get its RTP timestamp, modulo 2**32.

    aiortc draws it at random into a local variable of the coroutine that sends, so it is
    read from that coroutine's frame. ``UsageError`` before sending has begun.
    """
    task = _hidden(sender, "_RTCRtpSender__rtp_task")
    if task is None:
        raise UsageError("no RTP origin before the connection is up; ask after Opened")
    frame = _hidden(task.get_coro(), "cr_frame")
    values = {} if frame is None else frame.f_locals
    if "timestamp_origin" not in values:
        raise UsageError(
            "the RTP origin can't be read: the sender is not running yet or has ended, or this "
            "aiortc names it differently (1.16: timestamp_origin); ask between Opened and Closed"
        )
    return int(values["timestamp_origin"])


def allow_loopback() -> None:
    """Let this process use 127.0.0.1 for ICE where it has no other address.

    For a bench or CI: aioice leaves loopback out, so that two peers on a machine with
    nothing but ``lo`` never connect. Both ends need it. Calling it again changes nothing.
    """
    original = _hidden(aioice.ice, "get_host_addresses")
    if getattr(original, "allows_loopback", False):
        return

    def get_host_addresses(use_ipv4: bool, use_ipv6: bool) -> list[str]:
        addresses: list[str] = original(use_ipv4, use_ipv6)
        return addresses or (["127.0.0.1"] if use_ipv4 else [])

    get_host_addresses.allows_loopback = True  # type: ignore[attr-defined]
    aioice.ice.get_host_addresses = get_host_addresses
