"""From real packets to the real queue: in order, to the sample, and journalled first."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest

from handset.audio.playout import Frames, Playout, PlayoutConfig
from handset.bench import speech
from handset.bench.speech import Clip
from handset.core.events import AudioFenced, AudioQueued, Event, ItemQueued
from handset.core.ledger import Ledger
from handset.core.messages import Cause
from handset.core.segments import DeviceTiming
from handset.edge.opus import ItemDecoder
from handset.playing import Speaker

RATES = [48_000, 44_100, 16_000]
REPLY = speech.load("readings-four")
OTHER = speech.load("yes-five")
BLOCK = 480
RESAMPLER = 100
"""Frames that may sit in a resampler at most."""
Records = list[tuple[str, int, int]]


class Desk:
    """The control side: a speaker at a real queue, the ledger, and the device's tape."""

    def __init__(self, rate: int = 48_000, seconds: float = 87.0) -> None:
        self.queue = Playout(PlayoutConfig(rate, seconds=seconds, fade_ms=0.0))
        self.ledger = Ledger(DeviceTiming(rate, BLOCK, 3 * BLOCK, BLOCK))
        self.speaker = Speaker(self.queue, self.journal, self.tell, self.ledger.starts_run)
        self.order: list[tuple[str, str, int]] = []
        """What was journalled and told, in order, with where the queue was."""
        self.records: Records = []
        self.told: Records = []
        self.fenced: list[tuple[str, int]] = []
        self.ends: list[tuple[str, int]] = []
        self.tape: list[Frames] = []
        self._now_ns = 10**9

    def journal(self, record: dict[str, object]) -> None:
        assert record["k"] == "append"
        item, frames, samples = record["item"], record["frames"], record["samples"]
        assert isinstance(item, str) and isinstance(frames, int) and isinstance(samples, int)
        self.records.append((item, frames, samples))
        self.order.append(("journal", item, self.queue.written))

    def tell(self, event: Event) -> None:
        match event:
            case AudioQueued(item_id, frames, samples):
                self.ledger.append(item_id, frames, samples)
                item = self.ledger.items[item_id]
                inside = item.received * item.device_rate / item.rate - item.frames
                # Below 0 where parts of a chunk round down, which claims too little.
                assert -20 < inside < RESAMPLER, "samples that no frame stands for"
                self.told.append((item_id, frames, samples))
                self.order.append(("queued", item_id, self.queue.written))
            case ItemQueued(item_id, samples):
                self.ledger.end(item_id, samples)
                self.ends.append((item_id, samples))
                self.order.append(("end", item_id, self.queue.written))
            case AudioFenced(item_id, samples):
                self.ledger.fenced(item_id, samples)
                self.fenced.append((item_id, samples))
            case _:
                raise AssertionError(event)

    def open(self, name: str, clip: Clip) -> None:
        self.ledger.announce(name, "r", 0, 1, clip.rate)
        self.speaker.open(name, clip.rate, clip.pre_skip)

    def say(self, name: str, clip: Clip, at_once: int = 10) -> None:
        """The whole clip, in messages of a few packets."""
        self.open(name, clip)
        for packets in bundles(clip.packets, at_once):
            self.speaker.decode(name, packets)
        self.speaker.end(name, clip.samples)

    def block(self) -> None:
        """One callback, and what the control side does after it."""
        frames = self.queue.render(BLOCK, self._now_ns + 30_000_000, self._now_ns)
        self.tape.append(frames)
        self._now_ns += BLOCK * 10**9 // self.queue.config.rate
        seen = self.queue.look()
        assert seen is not None
        self.ledger.update(*seen)  # raises when ledger and queue differ by one frame
        self.speaker.flush()

    def drain(self) -> Frames:
        """Plays until nothing is left; all that was handed."""
        while self.speaker.waiting or self.queue.written > self.ledger.read:
            self.block()
        return np.concatenate(self.tape)[: self.queue.written]

    def sums(self, records: Records, name: str) -> tuple[int, int]:
        mine = [record for record in records if record[0] == name]
        return sum(frames for _, frames, _ in mine), sum(samples for _, _, samples in mine)


def bundles(packets: tuple[bytes, ...], n: int) -> Iterable[tuple[bytes, ...]]:
    return (packets[at : at + n] for at in range(0, len(packets), n))


def decoded(clip: Clip, rate: int) -> Frames:
    """The clip as one decoder makes it, all at once."""
    decoder = ItemDecoder(clip.rate, clip.pre_skip, rate)
    return np.concatenate((decoder.packets(list(clip.packets)), decoder.end(clip.samples)))


@pytest.mark.parametrize("rate", RATES)
def test_an_item_is_played_to_the_sample(rate: int) -> None:
    desk = Desk(rate)
    desk.say("a", REPLY)
    whole = decoded(REPLY, rate)
    assert len(whole) == -(-REPLY.samples * rate // REPLY.rate)
    assert np.array_equal(desk.drain(), whole)
    item = desk.ledger.items["a"]
    assert item.complete
    assert (item.received, item.frames, item.handed) == (REPLY.samples, len(whole), len(whole))
    assert item.cursor().handed == REPLY.samples
    assert desk.ends == [("a", REPLY.samples)]
    assert desk.speaker.damaged == 0


@pytest.mark.parametrize("rate", RATES)
def test_a_full_queue_makes_the_rest_wait_in_order(rate: int) -> None:
    desk = Desk(rate, seconds=0.3)
    desk.say("a", OTHER)
    desk.say("b", REPLY, at_once=25)
    desk.say("c", OTHER, at_once=1)
    assert desk.queue.space == 0
    assert desk.speaker.waiting > 5 * rate
    assert desk.ends == []
    whole = np.concatenate([decoded(clip, rate) for clip in (OTHER, REPLY, OTHER)])
    assert desk.queue.written + desk.speaker.waiting == len(whole)
    assert np.array_equal(desk.drain(), whole)
    assert desk.ends == [("a", OTHER.samples), ("b", REPLY.samples), ("c", OTHER.samples)]
    for name, clip in (("a", OTHER), ("b", REPLY), ("c", OTHER)):
        assert desk.sums(desk.told, name) == (len(decoded(clip, rate)), clip.samples)


@pytest.mark.parametrize("rate", RATES)
def test_the_journal_has_a_range_before_the_queue_does(rate: int) -> None:
    desk = Desk(rate, seconds=0.3)
    desk.say("a", REPLY)
    desk.drain()
    assert desk.records == desk.told
    queue = 0
    for frames, step in zip(desk.records, _pairs(desk.order), strict=True):
        (first, _, before), (second, _, after) = step
        assert (first, second) == ("journal", "queued")
        assert (before, after) == (queue, queue + frames[1])
        queue = after
    assert queue == desk.queue.written


def _pairs(
    order: list[tuple[str, str, int]],
) -> list[tuple[tuple[str, str, int], tuple[str, str, int]]]:
    writes = [step for step in order if step[0] != "end"]
    return list(zip(writes[::2], writes[1::2], strict=True))


def test_every_prefix_of_a_slow_item_is_accounted_for() -> None:
    desk = Desk(44_100)
    desk.open("a", REPLY)
    for packets in bundles(REPLY.packets, 3):
        desk.speaker.decode("a", packets)
        for _ in range(4):
            desk.block()
        item = desk.ledger.items["a"]
        assert item.samples(item.handed) <= item.received <= REPLY.samples
    desk.speaker.end("a", REPLY.samples)
    desk.drain()
    assert desk.ledger.items["a"].complete
    assert desk.ledger.items["a"].cursor().handed == REPLY.samples


# ---- clears --------------------------------------------------------------------------------


def test_what_was_decoded_before_a_clear_is_refused_after_it() -> None:
    desk = Desk(seconds=0.3)
    desk.say("a", REPLY)
    waited = desk.speaker.waiting
    assert waited > 0
    before = desk.queue.written
    received = desk.sums(desk.told, "a")[1]
    desk.ledger.clear(Cause("gesture", 0))
    desk.queue.clear()
    for _ in range(10):
        desk.block()  # there is room again, and nothing of it is written
    assert desk.queue.written == before
    assert desk.speaker.waiting == 0
    assert received + sum(samples for _, samples in desk.fenced) == REPLY.samples
    assert {name for name, _ in desk.fenced} == {"a"}
    assert desk.ends == []
    assert desk.ledger.items["a"].fenced == REPLY.samples - received
    assert desk.records == desk.told, "nothing is journalled that was not written"


def test_a_new_item_after_a_clear_is_played_whole() -> None:
    desk = Desk(seconds=0.3)
    desk.say("a", REPLY)
    desk.ledger.clear(Cause("gesture", 0))
    desk.queue.clear()
    fence = desk.queue.written
    desk.say("b", OTHER)
    desk.drain()
    first = desk.ledger.log.device_of(fence)
    assert first is not None
    whole = decoded(OTHER, 48_000)
    assert np.array_equal(np.concatenate(desk.tape)[first : first + len(whole)], whole)
    assert desk.ends == [("b", OTHER.samples)]


def test_dropped_items_never_sound_and_others_do() -> None:
    desk = Desk(seconds=0.3)
    desk.say("a", OTHER)
    desk.say("b", REPLY)
    desk.say("c", OTHER)
    queued = {name: desk.sums(desk.told, name)[1] for name in "abc"}
    assert queued["c"] == 0
    desk.speaker.drop(("b", "never heard of"))
    fenced = sum(samples for name, samples in desk.fenced if name == "b")
    assert queued["b"] + fenced == REPLY.samples
    assert {name for name, _ in desk.fenced} == {"b"}
    desk.drain()
    assert [name for name, _ in desk.ends] == ["a", "c"]
    assert desk.sums(desk.told, "c")[1] == OTHER.samples


def test_packets_of_a_dropped_item_are_nobody_s() -> None:
    desk = Desk()
    desk.open("a", REPLY)
    desk.speaker.decode("a", REPLY.packets[:10])
    desk.speaker.drop(("a",))
    told = list(desk.told)
    desk.speaker.decode("a", REPLY.packets[10:])
    desk.speaker.end("a", REPLY.samples)
    assert desk.told == told
    assert desk.ends == []


# ---- packets that don't add up ---------------------------------------------------------------


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("said", ["longer", "shorter", "nothing"])
def test_an_item_is_never_longer_than_what_came_of_it(rate: int, said: str) -> None:
    desk = Desk(rate)
    desk.open("a", REPLY)
    desk.speaker.decode("a", REPLY.packets[:50])
    desk.speaker.end("a", {"longer": REPLY.samples, "shorter": 10, "nothing": 0}[said])
    assert desk.speaker.damaged == 1
    most = 50 * 480
    ((_, total),) = desk.ends
    frames, samples = desk.sums(desk.told, "a")
    assert total == samples <= most
    assert samples >= most - 480 - REPLY.pre_skip, "at most the last packet is held back"
    assert frames <= -(-samples * rate // REPLY.rate)
    assert np.array_equal(desk.drain(), decoded(REPLY, rate)[:frames])
    assert desk.ledger.items["a"].complete


def test_an_empty_item_ends_at_once() -> None:
    desk = Desk()
    desk.ledger.announce("a", "r", 0, 1, 24_000)
    desk.speaker.open("a", 24_000, 312)
    desk.speaker.end("a", 0)
    assert desk.ends == [("a", 0)]
    assert desk.speaker.damaged == 0
    assert desk.ledger.items["a"].complete
