"""Notices: what is in the lane, when it has run dry, and where it lies in the capture."""

from __future__ import annotations

import numpy as np

from handset.audio.playout import Frames, Playout, PlayoutConfig
from handset.core import events as ev
from handset.core.messages import Estimate
from handset.core.notices import Notice, Part
from handset.fakes.card import FakeCard
from handset.notices import Sounds
from handset.notifying import FLUSH_MS, TAIL_MS, NoticePlayer

RATE = 48_000


class Long:
    """Longer than the lane holds."""

    def frames(self, notice: Notice, part: Part) -> Frames:
        return np.full(500_000, 700, np.int16)


class Ear:
    def __init__(self, sounds: object = None) -> None:
        self.playout = Playout(PlayoutConfig(RATE, seconds=1, fade_ms=5))
        self.card = FakeCard(self.playout)
        self.told: list[ev.Event] = []
        sounds = Sounds("en", RATE) if sounds is None else sounds
        self.player = NoticePlayer(
            self.playout,
            self.card.timing(),
            sounds,  # type: ignore[arg-type]
            self.told.append,
            lambda ns: Estimate(ns * 48 // 1_000_000, ns * 48 // 1_000_000, ns * 48 // 1_000_000),
        )

    def run(self, ms: int) -> None:
        for _ in range(ms // 10):
            self.card.block()
            seen = self.playout.snapshot()
            assert seen is not None
            self.player.look(seen)

    def spans(self) -> list[tuple[int, int]]:
        return [
            (event.span.start, event.span.end)
            for event in self.told
            if isinstance(event, ev.NoticePlayed)
        ]


def sounded(ear: Ear) -> tuple[int, int]:
    """When the first and the last frame of it left the converter, in capture samples."""
    loud = np.flatnonzero(ear.card.tape)
    first, last = (ear.card.time_of(int(n)) * 48 // 1_000_000 for n in (loud[0], loud[-1] + 1))
    return first, last


def test_a_tone_is_marked_where_it_sounded_and_its_end_is_told() -> None:
    ear = Ear()
    ear.run(100)
    ear.player.play(Notice.TALK_PERMIT, Part.TONE)
    ear.run(300)
    assert [type(event) for event in ear.told] == [ev.NoticePlayed, ev.NoticeDone]
    ((start, end),) = ear.spans()
    first, last = sounded(ear)
    assert start <= first and last <= end - TAIL_MS * 48
    assert first - start < 480 and end - TAIL_MS * 48 - last < 960  # and not by much
    assert ear.told[0] == ev.NoticePlayed("talk_permit/tone", ear.told[0].span)  # type: ignore[union-attr]


def test_what_is_flushed_is_marked_up_to_there_and_no_end_is_told() -> None:
    ear = Ear()
    ear.player.play(Notice.DISCLOSURE, Part.PROMPT)
    ear.run(200)
    ear.player.flush()
    ear.run(300)
    assert [type(event) for event in ear.told] == [ev.NoticePlayed]
    ((_, end),) = ear.spans()
    assert 0 <= end - TAIL_MS * 48 - sounded(ear)[1] < (FLUSH_MS + 20) * 48
    ear.player.play(Notice.TALK_PERMIT, Part.TONE)  # and the next one is none the worse
    ear.run(300)
    assert isinstance(ear.told[-1], ev.NoticeDone)
    assert ear.spans()[1][0] > end
    assert ear.spans()[1][1] - TAIL_MS * 48 - sounded(ear)[1] < 960


def test_a_flush_and_another_at_once_mark_both() -> None:
    ear = Ear()
    ear.player.play(Notice.DISCLOSURE, Part.PROMPT)
    ear.run(200)
    ear.player.flush()
    ear.player.play(Notice.TALK_PERMIT, Part.TONE)
    ear.run(400)
    names = [event.name for event in ear.told if isinstance(event, ev.NoticePlayed)]
    assert names == ["disclosure/prompt", "talk_permit/tone"]
    loud = np.flatnonzero(ear.card.tape)
    marked = ear.spans()
    for frame in loud:
        at = ear.card.time_of(int(frame)) * 48 // 1_000_000
        assert any(start <= at < end for start, end in marked)


def test_what_is_longer_than_the_lane_is_played_whole() -> None:
    ear = Ear(Long())
    ear.player.play(Notice.DISCLOSURE, Part.PROMPT)
    ear.run(11_000)
    assert np.count_nonzero(ear.card.tape) == 500_000
    assert isinstance(ear.told[-1], ev.NoticeDone)


def test_one_after_the_other_each_has_its_mark() -> None:
    ear = Ear()
    for notice in (Notice.LATCH_ON, Notice.LATCH_OFF):
        ear.player.play(notice, Part.TONE)
        ear.run(600)
    (_, end), (start, _) = ear.spans()
    assert end < start
