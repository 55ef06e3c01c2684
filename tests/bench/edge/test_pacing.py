"""Pacing: everything once, in order, never more than the window, the credit or the pace."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from handset.bench import speech
from handset.bench.edge.pacing import (
    BUNDLE,
    BUNDLE_MAX,
    PACKET_MS,
    SPEED,
    WINDOW,
    PacedItem,
    Pacer,
)
from handset.bench.edge.provider import Generation, Item, Script
from handset.core.packets import ItemAudio, ItemEnd, ItemStart, Packet, decode

MS = 1_000_000


class Channel:
    """A channel that drains at ``rate`` bytes a millisecond."""

    def __init__(self, rate: float) -> None:
        self.rate, self.buffered, self.most = rate, 0.0, 0
        self.messages: list[tuple[int, Packet]] = []

    def run(self, pacer: Pacer, until_ms: int, start_ms: int = 0, room: bool = True) -> None:
        for ms in range(start_ms, until_ms, 5):
            self.buffered = max(0, self.buffered - 5 * self.rate)
            if room and ms % 200 == 0:
                pacer.credit(60_000, ms * MS)
            for data in pacer.pump(ms * MS, int(self.buffered)):
                self.buffered += len(data)
                self.messages.append((ms, decode(data)))
            self.most = max(self.most, int(self.buffered))

    def audio(self) -> list[tuple[int, ItemAudio]]:
        return [(ms, x) for ms, x in self.messages if isinstance(x, ItemAudio)]


def paced(name: str, complete: bool = True) -> tuple[PacedItem, speech.Clip]:
    clip = speech.load(name)
    item = PacedItem(name, "r", 1, clip.rate, clip.pre_skip, clip.samples)
    item.packets, item.complete = list(clip.packets), complete
    return item, clip


def pacer_with(*names: str) -> Pacer:
    pacer = Pacer()
    for name in names:
        pacer.add(paced(name)[0])
    pacer.attach({})
    return pacer


@settings(max_examples=30, deadline=None)
@given(st.floats(1.5, 200))
def test_items_go_whole_and_in_order_never_beyond_the_window(rate: float) -> None:
    pacer, channel = pacer_with("yes-five", "grease-five"), Channel(rate)
    channel.run(pacer, 30_000)

    assert channel.most <= WINDOW and pacer.buffered_max <= WINDOW
    kinds = [type(x) for _, x in channel.messages if not isinstance(x, ItemAudio)]
    assert kinds == [ItemStart, ItemEnd, ItemStart, ItemEnd]
    for handle, name in ((1, "yes-five"), (2, "grease-five")):
        clip = speech.load(name)
        bundles = [x for _, x in channel.audio() if x.handle == handle]
        assert tuple(p for x in bundles for p in x.packets) == clip.packets
        assert all(BUNDLE <= len(x.packets) <= BUNDLE_MAX for x in bundles[:-1])
        firsts = [x.first_packet for x in bundles]
        assert firsts == sorted(set(firsts)) and firsts[0] == 0
        end = next(x for _, x in channel.messages if isinstance(x, ItemEnd) and x.handle == handle)
        assert (end.packets, end.samples) == (len(clip.packets), clip.samples)


def test_the_pace_is_a_few_times_real_time() -> None:
    pacer, channel = pacer_with("readings-four"), Channel(1000)
    channel.run(pacer, 30_000)
    audio = channel.audio()
    (began, _), (ended, _) = audio[0], audio[-1]
    played_ms = sum(len(x.packets) for _, x in audio) * PACKET_MS
    assert 2 <= played_ms / (ended - began) <= 4
    for ms, bundle in audio:
        sent = sum(len(x.packets) for at, x in audio if ms - 1000 < at <= ms) * PACKET_MS
        assert sent <= 1000 * SPEED + BUNDLE_MAX * PACKET_MS, bundle.first_packet


def test_no_more_is_sent_than_the_handset_has_room_for() -> None:
    pacer, channel = pacer_with("readings-four"), Channel(1000)
    pacer.credit(500, 0)
    channel.run(pacer, 5_000, room=False)
    assert sum(len(x.packets) for _, x in channel.audio()) * PACKET_MS == 500
    pacer.credit(300, 5_000 * MS)
    channel.run(pacer, 6_000, 5_000, room=False)
    assert sum(len(x.packets) for _, x in channel.audio()) * PACKET_MS == 800
    pacer.credit(300, 5_100 * MS)
    channel.run(pacer, 7_000, 6_000, room=False)
    assert sum(len(x.packets) for _, x in channel.audio()) * PACKET_MS == 800, "it is on its way"


def test_a_stopped_response_sends_nothing_more() -> None:
    pacer, channel = pacer_with("readings-four"), Channel(1000)
    channel.run(pacer, 1_000)
    pacer.stop("r")
    before = len(channel.messages)
    channel.run(pacer, 3_000, 1_000)
    assert len(channel.messages) == before
    assert not pacer.feed("readings-four", (b"late",), False)


def test_a_cancelled_response_ends_its_items_where_they_are() -> None:
    pacer, channel = pacer_with("yes-five", "readings-four", "grease-five"), Channel(1000)
    channel.run(pacer, 1_500)
    sent = pacer.find("readings-four")
    assert sent is not None and 0 < sent.sent < len(sent.packets)
    left = pacer.end("r")
    assert left == {"yes-five": speech.load("yes-five").samples, "readings-four": sent.sent_samples}
    channel.run(pacer, 3_000, 1_500)
    end = channel.messages[-1][1]
    assert end == ItemEnd(2, sent.sent, sent.sent_samples)
    assert not pacer.unsent("r")


def test_a_new_connection_begins_items_again_where_the_handset_says() -> None:
    pacer, channel = pacer_with("yes-five", "grease-five"), Channel(1000)
    channel.run(pacer, 1_200)
    pacer.detach()
    channel.run(pacer, 2_000, 1_200)
    pacer.forget("yes-five")
    pacer.attach({"grease-five": 12})
    after = Channel(1000)
    after.run(pacer, 9_000, 2_000)
    assert isinstance(after.messages[0][1], ItemStart)
    assert after.audio()[0][1].first_packet == 12
    assert {x.handle for _, x in after.audio()} == {1}
    assert isinstance(after.messages[-1][1], ItemEnd)


def test_a_hole_is_filled_from_its_first_packet() -> None:
    pacer, channel = pacer_with("yes-five"), Channel(1000)
    channel.run(pacer, 3_000)
    assert pacer.resume("yes-five", 7)
    again = Channel(1000)
    again.run(pacer, 6_000, 3_000)
    assert again.audio()[0][1].first_packet == 7
    assert isinstance(again.messages[-1][1], ItemEnd)
    assert not pacer.resume("yes-five", 10_000) and not pacer.resume("never", 0)
    assert not pacer.resume("yes-five", -1)


def test_nothing_is_sent_before_there_is_a_bundle_or_the_end() -> None:
    pacer = Pacer()
    item, clip = paced("yes-five", complete=False)
    item.packets = list(clip.packets[: BUNDLE - 1])
    pacer.add(item)
    pacer.attach({})
    channel = Channel(1000)
    channel.run(pacer, 1_000)
    assert [type(x) for _, x in channel.messages] == [ItemStart]
    pacer.feed("yes-five", clip.packets[BUNDLE - 1 : BUNDLE + 1], ended=True)
    channel.run(pacer, 2_000, 1_000)
    assert sum(len(x.packets) for _, x in channel.audio()) == BUNDLE + 1


def generation(*names: str, think_ns: int = 0) -> Generation:
    items = [Item(name, speech.load(name)) for name in names]
    return Generation("r", items, 8.0, think_ns)


def test_the_provider_is_faster_than_playout_and_whole() -> None:
    made = generation("yes-five", "readings-five", think_ns=150 * MS)
    assert made.advance(150 * MS) == []
    chunks = [chunk for _ in range(150) for chunk in made.advance(10 * MS)]
    clips = [speech.load(name) for name in ("yes-five", "readings-five")]
    assert [c.item_id for c in chunks if c.ended] == ["yes-five", "readings-five"]
    for clip in clips:
        mine = [chunk for chunk in chunks if chunk.item_id == clip.name]
        assert tuple(p for chunk in mine for p in chunk.packets) == clip.packets
        assert [c.samples for c in mine] == sorted(c.samples for c in mine)
        assert mine[-1].samples == clip.samples
    assert sum(clip.seconds for clip in clips) / 8 < 1.5 and made.over


def test_a_stopped_provider_still_gives_what_was_on_its_way() -> None:
    made = generation("readings-four")
    made.advance(500 * MS)
    before = made.items[0].generated
    made.stop()
    late = made.advance(1000 * MS)
    assert sum(len(chunk.packets) for chunk in late) == 5
    assert made.items[0].generated == before + 5 and made.over and not made.finished
    idle = generation("readings-four", think_ns=MS)
    idle.stop()
    assert idle.advance(1000 * MS) == [] and idle.over


def test_a_script_is_checked_when_it_is_read() -> None:
    script = Script.conversation()
    assert script.replies[2] == ("due-five", "grease-five") and script.replies[3] == ()
    assert [clip.name for clip in script.clips(1)] == ["yes-five", "readings-five"]
    assert script.clips(99) == ()
    for text in ("[]", "{}", '{"replies": [["shout"]]}', '{"replies": [], "x": 1}', "{",
                 '{"replies": ["stop"]}', '{"replies": [], "speed": 0}'):  # fmt: skip
        try:
            Script.parse(text)
        except ValueError:
            continue
        raise AssertionError(f"{text} was accepted")
