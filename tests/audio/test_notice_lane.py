"""The notice lane and the volume, as the control side sees them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handset.audio.playout import Frames, Playout, PlayoutConfig, read_remains
from handset.core.facts import Snapshot
from handset.errors import UsageError
from handset.fakes.card import FakeCard

RATE = 48_000


def numbered(first: int, n: int) -> Frames:
    """Notice frames that say which one they are, up to 30,000 of them."""
    return (np.arange(first, first + n) % 30_000 + 1).astype(np.int16)


def newest(playout: Playout) -> Snapshot:
    seen = playout.snapshot()
    assert seen is not None
    return seen


def test_a_flush_fades_what_sounds_and_says_what_it_dropped() -> None:
    playout = Playout(PlayoutConfig(RATE, seconds=1, fade_ms=5))
    card = FakeCard(playout)
    assert playout.notice(np.full(4_000, 9_000, np.int16)) == playout.notice_written == 4_000
    card.block()
    seen = newest(playout)
    assert (seen.notice_handed, seen.notice_frame, seen.notice_device) == (480, 480, 480)
    playout.flush_notices()
    card.block()
    seen = newest(playout)
    assert (seen.notice_handed, seen.notice_flushed) == (480 + 240, 4_000 - 720)
    assert (seen.notice_frame, seen.notice_device) == (720, 720)
    assert np.all(np.diff(card.tape[480:720]) <= 0) and not card.tape[720:].any()


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 900), st.sampled_from([False, False, False, True])),
        min_size=1,
        max_size=40,
    ),
    st.lists(st.integers(1, 700), min_size=40, max_size=40),
)
def test_every_notice_frame_is_accounted_for_and_has_its_place(
    acts: list[tuple[int, bool]], blocks: list[int]
) -> None:
    playout = Playout(PlayoutConfig(RATE, seconds=1, notice_seconds=0.02, fade_ms=0))
    card = FakeCard(playout, blocks=iter(blocks), buffer=2_000)
    room = playout.notice_space
    for frames, flush in acts:
        taken = playout.notice(numbered(playout.notice_written, frames))
        assert taken == frames or playout.notice_space == 0
        if flush:
            playout.flush_notices()
        card.block()
        seen = newest(playout)
        queued = room - playout.notice_space
        assert playout.notice_written == seen.notice_handed + seen.notice_flushed + queued
        if seen.notice_frame:
            assert card.tape[seen.notice_device - 1] == numbered(seen.notice_frame - 1, 1)[0]
    sounded = card.tape[card.tape != 0]
    assert len(sounded) == newest(playout).notice_handed
    assert np.all(np.diff(sounded) > 0), "in order, each once"


def test_volume_is_over_speech_and_notices_and_changes_no_count() -> None:
    def play(*volumes: int) -> tuple[FakeCard, Snapshot]:
        playout = Playout(PlayoutConfig(RATE, seconds=1))
        card = FakeCard(playout)
        playout.write(0, np.full(9_600, 8_000, np.int16), True)
        playout.notice(np.full(4_800, 4_000, np.int16))
        for volume in volumes:
            playout.volume(volume)
            card.run(1_440)
        return card, newest(playout)

    full, seen = play(32_768, 32_768, 32_768)
    card, quiet = play(16_384, 0, 32_768)
    assert (seen.volume, quiet.volume) == (32_768, 32_768)
    assert seen == quiet
    assert np.all(full.tape[:4_320] == 12_000)
    assert np.all(card.tape[240:1_440] == 6_000)
    assert np.all(card.tape[1_680:2_880] == 0)
    assert np.array_equal(card.tape[3_120:], full.tape[3_120:])


@pytest.mark.parametrize("gain", [-1, 32_769, 65_536])
def test_a_volume_beyond_full_is_refused(gain: int) -> None:
    with pytest.raises(UsageError, match="Q15"):
        Playout(PlayoutConfig(RATE, seconds=1)).volume(gain)


def test_what_another_version_left_is_not_read(tmp_path: Path) -> None:
    region, boot = tmp_path / "region", (5, 6)
    playout = Playout(PlayoutConfig(RATE, seconds=1, boot_id=boot), region)
    FakeCard(playout).block()
    left = region.read_bytes()
    playout.close()
    version = int.from_bytes(left[8:16], "little")
    for other in (version - 1, version + 1):
        region.write_bytes(left[:8] + other.to_bytes(8, "little") + left[16:])
        assert read_remains(region, boot) is None
    region.write_bytes(left[: len(left) // 2])
    assert read_remains(region, boot) is None
    region.write_bytes(left)
    remains = read_remains(region, boot)
    assert remains is not None and remains.snapshot.volume == 32_768
