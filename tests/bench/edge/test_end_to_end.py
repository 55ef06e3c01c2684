"""The whole edge, as a process, with a real peer: a scripted handset of a hundred lines."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, TypeVar

import aiohttp
import numpy as np
import pytest
from aiortc import RTCBundlePolicy, RTCConfiguration, RTCPeerConnection, RTCSessionDescription

from handset.bench import speech
from handset.bench.edge.process import EdgeFailed, EdgeProcess
from handset.core import messages as m
from handset.core import packets
from handset.edge.codec import decode_from_edge, encode
from handset.edge.mic import MicTrack
from handset.edge.whip import Target, Whip
from handset.errors import CredentialRefused, EdgeRefused, FingerprintMismatch

REPLY = speech.load("readings-four")
ASKED = speech.load("ask-readings")
START = 480_123
AT = m.Instant(1, "boot")
T = TypeVar("T")


class Scripted:
    """A handset without a machine in it: the test says what it sends."""

    def __init__(self, outbox_id: str = "outbox") -> None:
        self.pc = RTCPeerConnection(
            RTCConfiguration(iceServers=[], bundlePolicy=RTCBundlePolicy.MAX_BUNDLE)
        )
        self.mic = MicTrack(limit=len(ASKED.packets))
        self.sender = self.pc.addTransceiver(self.mic, direction="sendonly").sender
        self.outbox_id, self.seq, self.session = outbox_id, 0, ""
        self.got: list[Any] = []
        self.audio: list[packets.Packet] = []
        self.changed = asyncio.Event()
        self.channels = {n: self.pc.createDataChannel(n) for n in ("ctl", "aud", "tick")}
        self.channels["ctl"].on("message", lambda data: self._add(self.got, data))
        self.channels["tick"].on("message", lambda data: self._add(self.got, data))
        self.channels["aud"].on("message", lambda data: self._add(self.audio, data))

    def _add(self, to: list[Any], data: str | bytes) -> None:
        to.append(
            packets.decode(data) if isinstance(data, bytes) else decode_from_edge(data).message
        )
        self.changed.set()

    async def until(self, what: Callable[[], T], seconds: float = 20) -> T:
        async with asyncio.timeout(seconds):
            while not (found := what()):
                self.changed.clear()
                await self.changed.wait()
            return found

    async def first(self, kind: type[T]) -> T:
        return await self.until(lambda: next((g for g in self.got if isinstance(g, kind)), None))

    async def connect(self, edge: EdgeProcess) -> None:
        opened = asyncio.Event()
        self.channels["tick"].on("open", opened.set)
        await self.pc.setLocalDescription(await self.pc.createOffer())
        answer = await Whip(Target(edge.url, edge.credential, edge.fingerprint)).offer(
            self.pc.localDescription.sdp
        )
        await self.pc.setRemoteDescription(RTCSessionDescription(answer.sdp, "answer"))
        async with asyncio.timeout(20):
            await opened.wait()

    def send(self, message: Any, channel: str = "ctl") -> None:
        self.channels[channel].send(encode(message))

    async def hello(self, epoch: int = 1, **fields: Any) -> Any:
        self.send(
            m.Hello(
                handset_id="h1",
                label="one",
                software="test",
                protocol=fields.pop("protocol", m.Versions(1, 1)),
                boot_id="boot",
                epoch=epoch,
                outbox_id=self.outbox_id,
                unacknowledged=fields.pop("unacknowledged", 0),
                capabilities=[],
                output_route="test",
                output_rate=48_000,
                **fields,
            )
        )
        answer = await self.until(
            lambda: next((g for g in self.got if isinstance(g, m.Welcome | m.Refused)), None)
        )
        self.got.remove(answer)
        if isinstance(answer, m.Welcome):
            self.session = answer.session
        return answer

    def event(self, kind: type[m.Durable], domain: str, **fields: Any) -> m.Durable:
        """Send a durable event under the next number."""
        self.seq += 1
        event = kind(
            event_id=fields.pop("event_id", f"{kind.__name__}-{self.seq}"),
            session=fields.pop("session", self.session),
            origin_epoch=1,
            at=AT,
            domain=domain,
            outbox_id=self.outbox_id,
            seq=self.seq,
            **fields,
        )
        self.send(event)
        return event

    async def acknowledged(self) -> m.EventAck:
        """Everything sent so far is settled."""
        return await self.until(
            lambda: next(
                (g for g in self.got if isinstance(g, m.EventAck) and g.seq >= self.seq), None
            )
        )

    def map(self, epoch: int = 1) -> None:
        origin = MicTrack.origin(self.sender)
        self.send(
            m.CaptureMap(
                epoch=epoch,
                ssrc=MicTrack.ssrc(self.sender),
                rtp_ts=(origin + START) % (1 << 32),
                capture_sample=START,
                lookahead=ASKED.pre_skip,
            )
        )

    def speak(self, turn: int, start: int = START) -> None:
        """One turn, all of it by RTP: the clip's packets are those of a fresh encoder."""
        self.event(m.TurnStarted, "turn", turn=turn, source="ptt", capture_start=start, pre_roll=0)
        for index, packet in enumerate(ASKED.packets):
            self.mic.put(packet, start + index * packets.PACKET_SAMPLES)
        self.event(
            m.Commit,
            "turn",
            turn=turn,
            commit=m.CommitBy("ptt"),
            capture=m.Span(start, start + ASKED.samples),
        )

    def backfill(self, missing: m.CaptureMissing, start: int = START) -> int:
        """Send the packets that the ranges touch; how many."""
        sent = 0
        for index, packet in enumerate(ASKED.packets):
            begin = start + index * packets.PACKET_SAMPLES
            if any(r.start < begin + 960 and begin < r.end for r in missing.ranges):
                data = packets.CaptureData(missing.turn, begin, (packet,))
                self.channels["aud"].send(packets.encode(data))
                sent += 1
        return sent

    def received(self, handle: int) -> int:
        """Packets of an item that are here without a hole."""
        following = 0
        for message in self.audio:
            if isinstance(message, packets.ItemAudio) and message.handle == handle:
                assert message.first_packet <= following
                following = max(following, message.first_packet + len(message.packets))
        return following

    def room(self, room_ms: int) -> None:
        self.send(m.PlayoutProgress(item_id=None, handed=0, queued_ms=0, room_ms=room_ms), "tick")


@asynccontextmanager
async def handset(edge: EdgeProcess, outbox_id: str = "outbox") -> AsyncIterator[Scripted]:
    one = Scripted(outbox_id)
    try:
        await one.connect(edge)
        yield one
    finally:
        await one.pc.close()


def cursor(item: packets.ItemStart, received: int, played: int) -> m.ItemCursor:
    return m.ItemCursor(
        item_id=item.item_id,
        response_id=item.response_id,
        content_index=0,
        rate=item.rate,
        state="cleared",
        received=received,
        handed=played,
        dropped=received - played,
        queued=0,
        played=played,
        exact=True,
        audio_end_ms=played * 1000 // item.rate,
    )


@pytest.mark.parametrize("impair", ["loss=0.05,delay_ms=15,seed=3", "loss=0.05,burst=4,seed=5"])
async def test_a_turn_under_loss_a_reply_and_a_cut(impair: str) -> None:
    script = {"replies": [["readings-four"], ["yes-five"]], "think_ms": 0}
    async with EdgeProcess(script, impair) as edge, handset(edge) as one:
        await one.hello()
        one.map()
        one.speak(1)
        asked = await one.until(
            lambda: next(
                (g for g in one.got if isinstance(g, m.CaptureMissing | m.CaptureReceived)), None
            )
        )
        assert isinstance(asked, m.CaptureMissing), "5 % of 160 packets are lost with this seed"
        assert 0 < one.backfill(asked) < len(ASKED.packets) // 2
        done = await one.first(m.CaptureReceived)
        assert (done.turn, done.samples) == (1, ASKED.samples)
        assert np.array_equal(await edge.turn_pcm(1), ASKED.pcm())

        created = await one.first(m.ResponseCreated)
        item = await one.until(
            lambda: next((a for a in one.audio if isinstance(a, packets.ItemStart)), None)
        )
        assert (item.response_id, item.turn, created.turn) == (created.response_id, 1, 1)
        await one.until(lambda: one.received(item.handle) >= 60)
        packets_here = one.received(item.handle)
        received = (packets_here * 960 - item.pre_skip) // 2
        word = REPLY.words[2]
        played = word.end + 1
        assert played < received
        cleared = one.event(
            m.PlayoutCleared,
            "playout",
            request=1,
            causes=[m.Cause("gesture", 1)],
            responses=[item.response_id],
            items=[cursor(item, received, played)],
            cut_ns=1,
        )
        one.event(
            m.Truncate,
            "playout",
            item_id=item.item_id,
            content_index=0,
            audio_end_ms=played * 1000 // item.rate,
            played=played,
            exact=True,
            cleared=cleared.event_id,
        )
        one.event(
            m.PlayoutReceipt,
            "playout",
            item_id=item.item_id,
            state="cleared",
            cursor=cursor(item, received, played),
            cleared=cleared.event_id,
        )
        await one.acknowledged()
        assert (await one.first(m.ResponseDone)).status == "cancelled"

        report = await edge.report()
        session = report["sessions"][0]
        user, assistant = session["history"]
        assert user["role"] == "user"
        assert assistant["text"] == " ".join(w.word for w in REPLY.words[:3])
        assert assistant["interrupted"] and not assistant["approximate"]
        row = session["items"][0]
        assert row["played"] == played == row["truncated_at"]
        assert played < received <= row["sent"] < row["generated"] < row["samples"]
        assert session["turns"][0]["complete"] and session["turns"][0]["asked"] >= 1
        assert report["counters"].get("malformed", 0) == 0
        assert report["edge"]["counters"] == {} and report["edge"]["overrun"] == 0
        assert report["pacing"]["buffered_max"] <= 4096


async def test_a_reply_resumes_on_a_new_connection_where_the_handset_says() -> None:
    script = {"replies": [["yes-five", "readings-five"]], "think_ms": 0}
    async with EdgeProcess(script) as edge:
        async with handset(edge) as one:
            welcome = await one.hello()
            one.room(400)
            one.map()
            one.speak(1)
            item = await one.until(
                lambda: next((a for a in one.audio if isinstance(a, packets.ItemStart)), None)
            )
            await one.until(lambda: one.received(item.handle) >= 10)
            have = one.received(item.handle)
            assert have <= 20 + 100, "no more than the room it had said"
        async with handset(edge) as two:
            two.seq = one.seq
            resumed = await two.hello(
                epoch=2,
                resume=m.Resume(
                    welcome.session, welcome.resume_token, [m.ResumeItem(item.item_id, have)]
                ),
            )
            assert resumed.resumed and resumed.session == welcome.session
            two.room(60_000)
            await two.until(lambda: sum(isinstance(a, packets.ItemEnd) for a in two.audio) == 2)
            starts = [a for a in two.audio if isinstance(a, packets.ItemStart)]
            assert len(starts) == 2 and starts[0].item_id == item.item_id
            first = next(a for a in two.audio if isinstance(a, packets.ItemAudio))
            assert first.first_packet == have
            clip = speech.load("readings-five")
            got = [
                packet
                for a in two.audio
                if isinstance(a, packets.ItemAudio) and a.handle == starts[1].handle
                for packet in a.packets
            ]
            assert tuple(got) == clip.packets
            ends = [a for a in two.audio if isinstance(a, packets.ItemEnd)]
            assert ends[1] == packets.ItemEnd(starts[1].handle, len(clip.packets), clip.samples)
            assert (await two.first(m.ResponseDone)).status == "completed"


async def test_bad_input_is_counted_and_answered_and_costs_nothing_else() -> None:
    async with EdgeProcess({"replies": []}) as edge, handset(edge) as one:
        one.channels["ctl"].send('{"type":"clock.ping","id":1,"sent_ns":1}')
        assert (await one.first(m.Fault)).message == "session.hello comes first"
        refused = await one.hello(protocol=m.Versions(7, 9))
        assert refused.code == "protocol" and refused.protocol == m.Versions(1, 1)
        assert "7 to 9" in refused.reason and "1 to 1" in refused.reason
        forgotten = await one.hello(resume=m.Resume("never", "token"))
        assert forgotten.code == "forgotten"
        await one.hello()
        for garbage in (
            "",
            "{",
            "[]",
            '{"type":"turn.started"}',
            '{"type":"new.thing"}',
            "x" * 999,
        ):
            one.channels["ctl"].send(garbage)
        one.channels["ctl"].send(b"\x00\x01")
        one.channels["aud"].send(b"\x01\x63")
        one.channels["aud"].send("text")
        one.send(m.ClockPing(id=5, sent_ns=9), "tick")
        pong = await one.first(m.ClockPong)
        assert (pong.id, pong.sent_ns) == (5, 9)
        assert pong.edge_received_ns <= pong.edge_sent_ns
        lost = one.event(
            m.TurnStarted,
            "turn",
            session="of another edge",
            turn=9,
            source="ptt",
            capture_start=0,
            pre_roll=0,
        )
        await one.acknowledged()
        report = await edge.report()
        assert report["counters"]["unknown_types"] == 1
        assert report["counters"]["malformed"] == 8
        assert report["counters"]["events_orphaned"] == 1
        assert report["edge"]["counters"]["malformed"] == 1, "the one before its hello"
        assert report["events"][0]["event"]["event_id"] == lost.event_id
        assert report["sessions"][0]["turns"] == []
        with pytest.raises(EdgeFailed, match="404"):
            await edge.report("nobody")
        with pytest.raises(EdgeFailed, match="404"):
            await edge.clear("no such response")


async def test_unprompted_speech_and_a_remote_clear() -> None:
    async with EdgeProcess({"replies": []}) as edge, handset(edge) as one:
        await one.hello()
        response_id = await edge.say("grease-five")
        created = await one.first(m.ResponseCreated)
        assert (created.response_id, created.turn) == (response_id, 0)
        await one.until(lambda: any(isinstance(a, packets.ItemAudio) for a in one.audio))
        await edge.clear(response_id)
        assert (await one.first(m.OutputClear)).response_id == response_id
        assert (await one.first(m.ResponseDone)).status == "cancelled"
        report = await edge.report()
        assert report["sessions"][0]["responses"][0]["state"] == "clearing"
        before = len(one.audio)
        await edge.script({"replies": [], "unprompted": ["yes-five"]})
        second = await edge.say()
        start = await one.until(
            lambda: next((a for a in one.audio[before:] if isinstance(a, packets.ItemStart)), None)
        )
        assert start is one.audio[before], "nothing of the first came in between"
        assert start.response_id == second != response_id


async def test_a_typed_turn_is_answered_under_a_policy() -> None:
    script = {"replies": [["yes-five"]], "think_ms": 0, "require_consent": True}
    async with EdgeProcess(script) as edge, handset(edge) as one:
        welcome = await one.hello()
        assert welcome.require_consent and not welcome.require_manual
        await edge.policy(True, next_turn=True)
        assert await one.first(m.Policy) == m.Policy(require_manual=True, scope="next_turn")
        one.send(m.TurnHeld(turn=1, capture=m.Span(0, 960)))
        spoken: dict[str, Any] = {"turn": 1, "capture": m.Span(0, 960)}
        one.event(m.Commit, "turn", commit=m.CommitBy("vad"), **spoken)
        assert (await one.first(m.EventRejected)).code == "manual_required"
        one.event(
            m.TypedTurn,
            "turn",
            turn=2,
            item=m.UserMessage("typed_2", [m.InputText("Fan five.")]),
            commit=m.CommitBy("typed", {"characters": 9}),
        )
        assert (await one.first(m.ResponseCreated)).turn == 2
        one.room(60_000)
        await one.until(lambda: any(isinstance(a, packets.ItemEnd) for a in one.audio))
        session = (await edge.report())["sessions"][0]
        (turn,) = session["turns"]
        assert (turn["state"], turn["committed_by"], turn["typed"]) == (
            "admitted",
            "typed",
            "Fan five.",
        )
        assert turn["evidence"] == {"characters": 9}
        assert session["history"][0]["text"] == "Fan five."
        assert [held["turn"] for held in session["held"]] == [1]
        assert session["policies"] == [{"require_manual": True, "scope": "next_turn"}]
        assert not session["manual_next"]


async def test_an_alert_is_offered_again_on_the_next_connection_until_it_is_delivered() -> None:
    async with EdgeProcess({"replies": [], "think_ms": 0}) as edge:
        async with handset(edge) as one:
            welcome = await one.hello()
            one.room(0)  # nothing of it can come
            await edge.alert("A", "yes-five", source={"plane": "ledger", "receipt": "r-1"})
            lost = await one.first(m.Alert)
            created = await one.first(m.ResponseCreated)
            assert one.got.index(lost) < one.got.index(created)
            assert lost.response_id == created.response_id
        async with handset(edge) as two:
            two.seq = one.seq
            await two.hello(epoch=2, resume=m.Resume(welcome.session, welcome.resume_token))
            again = await two.first(m.Alert)
            assert (again.attempt, again.source) == (2, m.AlertSource("ledger", "r-1"))
            assert again.response_id != lost.response_id
            two.room(60_000)
            await two.until(lambda: any(isinstance(a, packets.ItemEnd) for a in two.audio))
            (start,) = [a for a in two.audio if isinstance(a, packets.ItemStart)]
            assert start.response_id == again.response_id, "nothing of the first attempt"
            clip = speech.load("yes-five")
            whole = replace(
                cursor(start, clip.samples, clip.samples), state="played", item_id=start.item_id
            )
            replayed = replace(
                whole,
                item_id=f"{start.item_id}~2",
                response_id=f"{start.response_id}~2",
            )
            two.event(
                m.PlayoutReceipt,
                "playout",
                item_id=replayed.item_id,
                state="played",
                cursor=replayed,
            )
            two.event(
                m.AlertDelivered,
                "alert",
                alert_id="A",
                attempt=2,
                source=again.source,
                how="played",
                plays=2,
                items=[replayed],
            )
            await two.acknowledged()
            report = await edge.report()
            (alert,) = report["sessions"][0]["alerts"]
            assert (alert["state"], alert["attempt"], alert["plays"]) == ("delivered", 2, 2)
            assert [row["outcome"] for row in report["events"]] == ["applied", "applied"]
            assert [row["text"] for row in report["sessions"][0]["history"]] == [clip.text]
            with pytest.raises(EdgeFailed, match="400"):
                await edge.alert("A", "yes-five")


async def test_the_door() -> None:
    async with EdgeProcess({"replies": []}, connections=1) as edge:
        async with handset(edge) as one:
            offer = one.pc.localDescription.sdp
            with pytest.raises(CredentialRefused):
                await Whip(Target(edge.url, "wrong")).offer(offer)
            with pytest.raises(EdgeRefused) as full:
                await Whip(Target(edge.url, edge.credential)).offer(offer)
            assert full.value.status == 503
        async with aiohttp.ClientSession() as http:
            headers = {"Authorization": f"Bearer {edge.credential}"}
            async with http.post(edge.url, data="x", headers=headers) as response:
                assert response.status == 415

    async with EdgeProcess({"replies": []}) as edge:
        whip = Whip(Target(edge.url, edge.credential, "00" * 32))
        with pytest.raises(FingerprintMismatch):
            await whip.offer(offer)
        assert (await edge.report())["edge"]["connections"] == 0
        headers = {
            "Authorization": f"Bearer {edge.credential}",
            "Content-Type": "application/sdp",
        }
        async with (
            aiohttp.ClientSession() as http,
            http.post(edge.url, data="v=0", headers=headers) as response,
        ):
            assert response.status == 400
