"""Every invariant can fail: each fault here is planted in the real code, and the test that
guards against it goes red. One list, in one place. The guards are tests of the suite, so
that they are green without the fault is seen there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pytest
import test_device
import test_fence
import test_headset
import test_item_positions
import test_lane_clears
import test_outbox

from handset.core.floor import Floor
from handset.core.headset import Headset
from handset.core.item import Item
from handset.core.lane import Lane
from handset.core.ledger import Ledger
from handset.core.messages import Cause, ItemCursor, PlayoutCleared, Truncate
from handset.core.outbox import Outbox
from handset.core.packets import ItemAudio
from handset.core.playback import Playback
from handset.core.receipts import Context
from handset.core.segments import SegmentLog
from handset.core.turn import TABLE, TurnState
from handset.core.turn import TurnInput as In

Fault = Callable[[pytest.MonkeyPatch], None]


def around(owner: type, name: str, wrong: Callable[..., Any]) -> Fault:
    """``wrong(original, self, *args)`` in the place of a method."""
    original = getattr(owner, name)

    def plant(monkeypatch: pytest.MonkeyPatch) -> None:
        def method(self: Any, *args: Any, **named: Any) -> Any:
            return wrong(original, self, *args, **named)

        monkeypatch.setattr(owner, name, method)

    return plant


def row(state: TurnState, what: In, following: TurnState, *actions: str) -> Fault:
    """Another row of the turn's table."""

    def plant(monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(TABLE, (state, what), (following, actions))

    return plant


def cursor_with(change: Callable[[Item, ItemCursor], dict[str, Any]]) -> Fault:
    def wrong(original: Any, item: Item) -> ItemCursor:
        cursor = original(item)
        return replace(cursor, **change(item, cursor))

    return around(Item, "cursor", wrong)


def at_request(item: Item, cursor: ItemCursor) -> dict[str, Any]:
    if cursor.at_request is None:
        return {}
    played = cursor.at_request.est
    return {"played": played, "audio_end_ms": played * 1000 // cursor.rate}


def newest_first(original: Any, ledger: Ledger, upto: int, handed: bool) -> None:
    if handed and len(ledger._lane) > 1:
        (a, run), (b, other) = ledger._lane[0], ledger._lane[1]
        ledger._lane[0], ledger._lane[1] = (b, run), (a, other)
    original(ledger, upto, handed)


def without(kind: type) -> Callable[..., Any]:
    def wrong(original: Any, box: Outbox, events: Any) -> Any:
        return original(box, [event for event in events if not isinstance(event, kind)])

    return wrong


def by_clock_alone(original: Any, ledger: Ledger, item: Item, now_ns: int) -> bool:
    ledger._alive_ns = now_ns
    return bool(original(ledger, item, now_ns))


def any_turn(original: Any, lane: Lane, response_id: str, turn: int, speculative: bool) -> Any:
    return original(lane, response_id, max(turn, lane.committed_turn), speculative)


def sticky(original: Any, lane: Lane, response_id: str, turn: int, speculative: bool) -> Any:
    return [] if lane._dead else original(lane, response_id, turn, speculative)


def fade_not_counted(original: Any, ledger: Ledger, answer: Any) -> Any:
    return original(ledger, replace(answer, cursor=answer.cursor - answer.faded))


def revive(original: Any, ledger: Ledger, answer: Any) -> Any:
    ledger.answered = min(ledger.answered, answer.request - 1)
    return original(ledger, answer)


def no_silence(original: Any, log: SegmentLog, device_frame: int) -> int:
    return device_frame


def every_packet(original: Any, lane: Lane, response: Any, stream: Any, packet: ItemAudio) -> Any:
    return original(lane, response, stream, replace(packet, first_packet=stream.next_packet))


def cancel_with_the_link(original: Any, headset: Headset, event: Any, now: int) -> Any:
    return original(headset, event, now) + headset.playback.clear(Cause("remote", now))


def keep_silence(original: Any, item: Item, start: int, frames: int, samples: int) -> None:
    silent_at = item.silent_at
    original(item, start, frames, samples)
    item.silent_at = silent_at


def starvation_is_played(original: Any, ledger: Ledger, segment: Any) -> None:
    original(ledger, segment)
    for item in ledger.items.values():
        item.handed += segment.length if segment.kind == 2 else 0


def forget_the_barrier(original: Any, headset: Headset, event: Any, now: int) -> Any:
    headset._barrier.clear()
    return original(headset, event, now)


def forget_what_is_known(original: Any, box: Outbox, events: Any) -> Any:
    box._known.clear()
    return original(box, events)


def one_more(original: Any, box: Outbox, outbox_id: str, seq: int, applied: Any = ()) -> Any:
    return original(box, outbox_id, min(seq + 1, box._seq), applied)


@dataclass(frozen=True, slots=True)
class Planted:
    name: str
    fault: Fault
    guard: Callable[[], object]


def _ceil(item: Item, cursor: ItemCursor) -> dict[str, Any]:
    return {"audio_end_ms": -(-cursor.played * 1000 // cursor.rate)}


def _queued_with_dropped(item: Item, cursor: ItemCursor) -> dict[str, Any]:
    return {"queued": cursor.received - cursor.handed}


HOLDING, LOST, TAILING, IDLE = (
    TurnState.HOLDING, TurnState.LOST, TurnState.TAILING, TurnState.IDLE,
)  # fmt: skip
AUDIBLE = test_item_positions.test_the_audible_item_is_cut_and_the_queued_one_is_at_zero
NO_LINK = test_headset.test_what_was_made_without_a_link_is_sent_in_order_once_there_is_one

FAULTS = [
    Planted("the cursor at the request, not at the cut", cursor_with(at_request), AUDIBLE),
    Planted(
        "milliseconds rounded up",
        cursor_with(_ceil),
        test_item_positions.test_milliseconds_are_rounded_down,
    ),
    Planted("the newest item, not the audible one", around(Ledger, "_take", newest_first), AUDIBLE),
    Planted("dropped counted as queued", cursor_with(_queued_with_dropped), AUDIBLE),
    Planted(
        "the fade of a clear not counted",
        around(Ledger, "_answer", fade_not_counted),
        test_item_positions.test_the_fade_of_a_clear_was_played,
    ),
    Planted(
        "no map between rates",
        around(Item, "samples", lambda o, i, n: min(n, i.received)),
        partial(test_item_positions.test_a_cut_lands_within_a_sample_of_the_frames, 24_000, 44_100),
    ),
    Planted(
        "an item that was handed whole is cut",
        around(Ledger, "live", lambda o, ledger: list(ledger.items.values())),
        partial(
            test_item_positions.test_what_was_handed_whole_is_not_cut_while_it_leaves_the_device,
            True,
        ),
    ),
    Planted(
        "starvation moves the position",
        around(Ledger, "_segment", starvation_is_played),
        test_device.test_starvation_moves_no_position,
    ),
    Planted(
        "synthesized silence not counted",
        around(Ledger, "_segment", lambda o, s, x: None),
        test_device.test_starvation_moves_no_position,
    ),
    Planted(
        "silence in between not seen",
        around(SegmentLog, "queue_at", no_silence),
        partial(test_device.bounds_hold, 60),
    ),
    Planted(
        "final before the silence",
        around(Ledger, "_is_silent", lambda o, s, i, n: True),
        test_device.test_a_cut_item_is_final_only_after_its_silence,
    ),
    Planted(
        "played, by the clock alone",
        around(Ledger, "_is_silent", by_clock_alone),
        partial(test_device.test_played_is_not_said_while_no_callback_runs, 500),
    ),
    Planted(
        "an older end of an item believed",
        around(Item, "append", keep_silence),
        test_fence.test_an_item_that_goes_on_at_the_last_moment_ends_later,
    ),
    Planted(
        "what a device took is played",
        around(Ledger, "lose", lambda o, s, frames, reason: o(s, 0, reason)),
        test_device.test_a_device_lost_in_mid_item,
    ),
    Planted(
        "a late answer is believed",
        around(Ledger, "_answer", revive),
        test_lane_clears.test_a_late_answer_of_an_old_number_changes_nothing,
    ),
    Planted(
        "a remote clear stops everything",
        around(Playback, "clear_response", lambda o, s, r, cause, now: s.clear(cause)),
        test_lane_clears.test_a_remote_clear_of_what_waits_leaves_what_plays,
    ),
    Planted(
        "a stale response admitted",
        around(Lane, "created", any_turn),
        test_fence.test_a_response_to_an_older_turn_than_the_committed_one_is_stale,
    ),
    Planted(
        "a sticky fence",
        around(Lane, "created", sticky),
        test_lane_clears.test_a_next_response_plays_at_once,
    ),
    Planted(
        "a speculative response is handed",
        around(Lane, "created", lambda o, s, r, turn, speculative: o(s, r, turn, False)),
        test_fence.test_a_speculative_response_of_an_abandoned_turn_never_sounds,
    ),
    Planted(
        "the floor is not respected",
        around(Playback, "pump", lambda o, s, floor: o(s, False)),
        test_fence.test_what_arrives_while_the_person_talks_is_stale_once_the_turn_is_committed,
    ),
    Planted(
        "packets are taken twice",
        around(Lane, "_audio", every_packet),
        test_fence.test_packets_are_taken_in_order_and_once,
    ),
    Planted(
        "a link loss cancels",
        around(Headset, "_link_closed", cancel_with_the_link),
        test_headset.test_playing_goes_on_over_a_link_loss,
    ),
    Planted(
        "a commit does not wait for its cursor",
        around(Floor, "release_commit", lambda o, s, now, patience=0: o(s, now, 0)),
        test_headset.test_a_commit_waits_for_its_cursor,
    ),
    Planted(
        "a stop commits a held turn",
        row(HOLDING, In.STOP, IDLE, "commit"),
        test_headset.test_a_stop_commits_no_turn_that_was_not_released,
    ),
    Planted(
        "audio before what a crash left",
        around(Headset, "_edge_audio", forget_the_barrier),
        test_headset.test_what_is_unacknowledged_comes_before_new_audio,
    ),
    Planted("a cursor is dropped", around(Outbox, "add", without(Truncate)), AUDIBLE),
    Planted(
        "a clear is not told",
        around(Outbox, "add", without(PlayoutCleared)),
        test_device.test_a_device_lost_in_mid_item,
    ),
    Planted(
        "the same event twice",
        around(Outbox, "add", forget_what_is_known),
        test_outbox.test_the_same_fact_is_kept_once,
    ),
    Planted(
        "more settled than acknowledged",
        around(Outbox, "acknowledge", one_more),
        test_outbox.test_an_acknowledgement_settles_a_prefix_and_what_was_applied_above_it,
    ),
    Planted(
        "an event is not sent again", around(Outbox, "pending", lambda o, s: o(s)[1:]), NO_LINK
    ),
    Planted(
        "events of one session told as another's",
        around(Context, "of", lambda o, s, session: s),
        test_headset.test_another_session_ends_what_the_old_one_said,
    ),
]


@pytest.mark.parametrize("planted", FAULTS, ids=lambda planted: planted.name)
def test_the_guard_goes_red(planted: Planted, monkeypatch: pytest.MonkeyPatch) -> None:
    planted.fault(monkeypatch)
    with pytest.raises((AssertionError, ValueError, KeyError, StopIteration)):
        planted.guard()
