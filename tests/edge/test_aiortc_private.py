"""The names of aiortc and aioice that are not public: there, and doing what we think."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import aioice.ice
import aioice.stun
import aiortc
import aiortc.rtcsctptransport
import pytest
from whip_edge import Edge, Events

from handset.edge import aiortc_private
from handset.edge.mic import MicTrack
from handset.edge.peer import Link
from handset.errors import UsageError

PEER = Path(__file__).with_name("test_peer.py")


async def test_the_settings_are_in_force() -> None:
    """If one is gone after an upgrade, its reason is in aiortc_private."""
    assert aiortc.rtcsctptransport.SCTP_RTO_MIN == 0.2
    assert aiortc.rtcsctptransport.SCTP_RTO_INITIAL == 1.0
    assert aioice.stun.RETRY_RTO == 2.0
    assert aiortc_private.apply_settings() == []
    transport = object.__new__(aioice.stun.Transaction)
    aioice.stun.Transaction.__init__(
        transport,
        aioice.stun.Message(aioice.stun.Method.BINDING, aioice.stun.Class.REQUEST),
        ("192.0.2.1", 9),
        cast(Any, None),
    )
    assert 2.0 in vars(transport).values(), "RETRY_RTO is read when a check begins"


def test_a_setting_that_is_gone_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(aiortc.rtcsctptransport, "SCTP_RTO_MIN")
    assert aiortc_private.apply_settings() == ["aiortc.rtcsctptransport.SCTP_RTO_MIN"]


async def test_the_origin_is_known_between_opened_and_closed(edge: Edge, events: Events) -> None:
    link = await Link.open(edge.target(), MicTrack(), events)
    assert 0 <= MicTrack.origin(link.sender) < 1 << 32
    await link.close()
    with pytest.raises(UsageError, match="between Opened and Closed"):
        MicTrack.origin(link.sender)
    fresh = aiortc.RTCPeerConnection()
    with pytest.raises(UsageError, match="before the connection is up"):
        MicTrack.origin(fresh.addTransceiver("audio").sender)
    await fresh.close()


def test_loopback_is_used_only_where_there_is_nothing_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for there in ([], ["10.0.0.7"]):
        monkeypatch.setattr(aioice.ice, "get_host_addresses", lambda v4, v6, there=there: there)
        aiortc_private.allow_loopback()
        first = aioice.ice.get_host_addresses
        aiortc_private.allow_loopback()
        assert aioice.ice.get_host_addresses is first
        assert first(True, True) == (there or ["127.0.0.1"])


def test_a_machine_with_nothing_but_loopback() -> None:
    """The first test of test_peer, in a network namespace that has only lo."""
    inside = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(PEER)]
    script = 'ip link set lo up && exec "$@"'
    enter = ["unshare", "--net", "--map-root-user"]
    if subprocess.run([*enter, "ip", "link", "set", "lo", "up"], capture_output=True).returncode:
        pytest.skip("no network namespaces here")
    done = subprocess.run(
        [*enter, "sh", "-c", script, "sh", *inside, "-k", "test_open_talk_close"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0 and "1 passed" in done.stdout, done.stdout + done.stderr
