"""Two real peers, with an air that loses."""

from __future__ import annotations

import asyncio
import gc
import struct
import time
from typing import Any

import aioice.ice
import aioice.stun
import numpy as np
import pytest
from aiortc import RTCPeerConnection
from whip_edge import Air, Edge, Events, until

from handset.core.packets import MAX_MESSAGE
from handset.edge.mic import MicTrack
from handset.edge.opus import CaptureEncoder
from handset.edge.peer import Binary, Closed, Link, Opened, Text
from handset.edge.whip import IceServer
from handset.errors import (
    CredentialRefused,
    EdgeUnreachable,
    FingerprintMismatch,
    ProtocolMismatch,
    UsageError,
)


async def opened(edge: Edge, events: Events) -> tuple[Link, MicTrack]:
    mic = MicTrack()
    return await Link.open(edge.target(), mic, events), mic


# ---- life


async def test_open_talk_close(edge: Edge, events: Events) -> None:
    link, _ = await opened(edge, events)
    session = edge.sessions[0]
    assert events.all == [Opened()] and link.is_open
    assert link.send("ctl", "hello") and link.send("aud", b"\x01\x02") and link.send("tick", "t")
    await until(lambda: len(session.messages) == 3)
    assert sorted(session.messages, key=str) == [
        ("aud", b"\x01\x02"),
        ("ctl", "hello"),
        ("tick", "t"),
    ]
    session.channels["ctl"].send("welcome")
    session.channels["aud"].send(b"\x03")
    session.channels["tick"].send(b"\x04")
    await until(lambda: len(events.all) == 4)
    assert events.of(Text) == [Text("ctl", "welcome")]
    assert sorted(events.of(Binary), key=lambda e: e.data) == [
        Binary(b"\x03"),
        Binary(b"\x04", "tick"),
    ]
    assert [session.channels[name].ordered for name in ("ctl", "aud", "tick")] == [
        True,
        True,
        False,
    ]
    assert {session.channels[name].maxRetransmits for name in ("ctl", "aud", "tick")} == {None}
    await link.close()
    await link.close("again")
    assert events.all[-1] == Closed("closed by the handset") and len(events.of(Closed)) == 1
    assert session.deleted and edge.requests[-1][0] == "DELETE"
    assert not link.is_open and not link.send("ctl", "late") and link.refused == 1


async def test_the_edge_ends_it(edge: Edge, events: Events) -> None:
    link, mic = await opened(edge, events)
    await edge.sessions[0].pc.close()
    await until(lambda: bool(events.of(Closed)))
    await until(lambda: mic.readyState == "ended")
    assert not link.send("tick", "x") and link.refused == 1
    await link.close()
    assert len(events.of(Closed)) == 1


async def test_what_the_edge_says_early_comes_after_opened(edge: Edge, events: Events) -> None:
    edge.greeting = "so eager"
    link, _ = await opened(edge, events)
    await until(lambda: len(events.all) == 2)
    assert events.all == [Opened(), Text("ctl", "so eager")]
    await link.close()


async def test_a_sink_that_raises_costs_one_event(edge: Edge) -> None:
    heard: list[Any] = []

    def sink(event: Any) -> None:
        if event == Text("ctl", "bad"):
            raise RuntimeError("the queue is gone")
        heard.append(event)

    link = await Link.open(edge.target(), MicTrack(), sink)
    for text in ("bad", "good"):
        edge.sessions[0].channels["ctl"].send(text)
    await until(lambda: Text("ctl", "good") in heard)
    assert link.is_open and link.sink_faults == 1
    await link.close()


async def test_channels_that_the_edge_makes_are_not_heard(edge: Edge, events: Events) -> None:
    link, _ = await opened(edge, events)
    edge.sessions[0].pc.createDataChannel("ctl")
    await until(lambda: link.strangers == 1)
    assert events.all == [Opened()]
    await link.close()


async def test_messages_of_no_size_or_too_long(edge: Edge, events: Events) -> None:
    link, _ = await opened(edge, events)
    for data in (b"", b"x" * (MAX_MESSAGE + 1), "ü" * (MAX_MESSAGE // 2 + 1)):
        with pytest.raises(UsageError):
            link.send("aud", data)
    assert link.send("aud", b"x" * MAX_MESSAGE)
    await until(lambda: bool(edge.sessions[0].messages))
    assert link.refused == 0 and link.buffered("aud") == 0
    await link.close()


async def test_a_dead_path_does_not_hold_up_the_close(edge: Edge, events: Events, air: Air) -> None:
    link, _ = await opened(edge, events)
    air.dead = True
    edge.delay = 60.0
    for _ in range(200):
        link.send("ctl", "x" * 1_000)
    assert link.buffered("ctl") > 100_000
    start = time.monotonic()
    await link.close()
    assert time.monotonic() - start < 3.5


async def test_a_library_that_hangs_does_not_hold_up_the_close(
    edge: Edge, events: Events, monkeypatch: pytest.MonkeyPatch
) -> None:
    link, _ = await opened(edge, events)
    really = RTCPeerConnection.close
    with monkeypatch.context() as patch:
        patch.setattr(RTCPeerConnection, "close", lambda pc: asyncio.Event().wait())
        start = time.monotonic()
        await link.close()
        assert 2.9 < time.monotonic() - start < 3.5
    await really(link._pc)


async def test_many_epochs_leave_nothing_behind(edge: Edge) -> None:
    for _ in range(3):
        await (await Link.open(edge.target(), MicTrack(), lambda event: None)).close()
    await until(lambda: len(asyncio.all_tasks()) < 8)
    before = len(asyncio.all_tasks())
    for _ in range(10):
        await (await Link.open(edge.target(), MicTrack(), lambda event: None)).close()
    await edge.close()
    gc.collect()
    await until(lambda: len(asyncio.all_tasks()) <= before)


async def test_make_before_break(edge: Edge) -> None:
    old_events, new_events = Events(), Events()
    old, _ = await opened(edge, old_events)
    new, _ = await opened(edge, new_events)
    assert old.is_open and new.is_open
    await old.close()
    assert new.send("ctl", "still here")
    await until(lambda: edge.sessions[1].messages == [("ctl", "still here")])
    assert new_events.all == [Opened()]
    await new.close()


# ---- refusals


async def test_another_certificate_is_never_connected_to(edge: Edge, events: Events) -> None:
    with pytest.raises(FingerprintMismatch):
        await Link.open(edge.target(fingerprint="AB" * 32), MicTrack(), events)
    assert not events.of(Opened) and edge.sessions[0].deleted


async def test_a_lie_about_the_certificate_fails_in_the_handshake(
    edge: Edge, events: Events
) -> None:
    pinned = ":".join(["AB"] * 32)
    edge.rewrite = lambda sdp: sdp.replace(edge.fingerprint, pinned)
    with pytest.raises(EdgeUnreachable, match="failed"):
        await Link.open(edge.target(fingerprint=pinned), MicTrack(), events)
    assert not events.of(Opened) and len(events.of(Closed)) == 1


async def test_a_wrong_credential(edge: Edge, events: Events) -> None:
    mic = MicTrack()
    with pytest.raises(CredentialRefused):
        await Link.open(edge.target(credential="x"), mic, events)
    assert not events.of(Opened)


async def test_answers_that_can_not_be_used(edge: Edge, events: Events) -> None:
    edge.rewrite = lambda sdp: sdp.replace("m=audio", "m=video")
    with pytest.raises(ProtocolMismatch):
        await Link.open(edge.target(), MicTrack(), events)
    edge.rewrite = lambda sdp: sdp.replace("a=recvonly", "a=inactive")
    with pytest.raises(ProtocolMismatch, match="no microphone"):
        await Link.open(edge.target(), MicTrack(), events)
    edge.rewrite = lambda sdp: f"a=fingerprint:sha-256 {edge.fingerprint}"
    with pytest.raises(ProtocolMismatch, match="can't be used"):
        await Link.open(edge.target(), MicTrack(), events)
    assert not events.of(Opened)


async def test_a_machine_without_a_network(
    edge: Edge, events: Events, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(aioice.ice, "get_host_addresses", lambda use_ipv4, use_ipv6: [])
    with pytest.raises(EdgeUnreachable, match="connect it to a network"):
        await Link.open(edge.target(allow_loopback=False), MicTrack(), events)
    assert edge.requests == []


async def test_a_relay_that_does_not_exist_does_not_stop_the_rest(
    edge: Edge, events: Events
) -> None:
    servers = (
        IceServer("stun:nowhere.invalid:3478"),
        IceServer("turn:nowhere.invalid:3478", "u", "p"),
    )
    link = await Link.open(edge.target(ice_servers=servers), MicTrack(), events)
    assert events.all == [Opened()]
    await link.close()


async def test_a_path_that_never_comes_up(edge: Edge, events: Events) -> None:
    def leave(sdp: str) -> str:
        closing.append(asyncio.ensure_future(edge.sessions[-1].pc.close()))
        return sdp

    closing: list[Any] = []
    edge.rewrite = leave
    start = time.monotonic()
    with pytest.raises(EdgeUnreachable, match="UDP passes"):
        await Link.open(edge.target(), MicTrack(), events, seconds=1.0)
    assert time.monotonic() - start < 4.5
    assert not events.of(Opened)


# ---- loss


async def test_control_messages_arrive_in_order_at_5_percent_loss(
    edge: Edge, events: Events, air: Air
) -> None:
    link, _ = await opened(edge, events)
    session = edge.sessions[0]
    air.start(loss=0.05, delay=0.03)
    for i in range(250):
        assert link.send("ctl", f"{i}")
        session.channels["ctl"].send(f"{i}")
        await asyncio.sleep(0.004)
    await until(lambda: len(session.messages) == len(events.of(Text)) == 250, 20)
    assert air.lost > 0
    assert session.messages == [("ctl", f"{i}") for i in range(250)]
    assert events.of(Text) == [Text("ctl", f"{i}") for i in range(250)]
    air.stop()
    await link.close()


async def test_an_utterance_at_5_percent_loss(edge: Edge, events: Events, air: Air) -> None:
    """5 s by RTP: the edge sees what the air did not lose, each packet at its place."""
    link, mic = await opened(edge, events)
    session = edge.sessions[0]
    origin, ssrc = MicTrack.origin(link.sender), MicTrack.ssrc(link.sender)
    encoder = CaptureEncoder()
    pcm = np.random.default_rng(2).normal(0, 2_000, 48_000 * 5).astype(np.int16)
    packets = encoder.feed(pcm) + encoder.finish()
    first = (1 << 34) + 4_321  # beyond 32 bits: a day of capture at 48 kHz
    air.start(loss=0.05, delay=0.03)
    for i, packet in enumerate(packets):
        mic.put(packet, first + 960 * i)
        if i >= 25:  # what came before is the pre-roll, a burst
            await asyncio.sleep(0.02)
    await until(lambda: mic.waiting == 0)
    await asyncio.sleep(0.1)
    air.stop()
    assert mic.sent == len(packets) and mic.dropped == 0

    sent = {(origin + first + 960 * i) % (1 << 32): packet for i, packet in enumerate(packets)}
    lost = {
        struct.unpack(">I", head[4:8])[0]
        for head in air.lost_rtp
        if struct.unpack(">I", head[8:12])[0] == ssrc
    }
    assert 3 <= len(lost) <= 30 and lost < set(sent)
    assert {seen[0] for seen in session.rtp} == {ssrc}
    heard = {timestamp: payload for _, _, timestamp, payload in session.rtp}
    assert heard == {at: packet for at, packet in sent.items() if at not in lost}
    assert len(session.rtp) == len(packets) - len(lost)
    await link.close()
