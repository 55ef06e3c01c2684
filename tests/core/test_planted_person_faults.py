"""Faults planted in what joins hands, voice, ear and turn: each turns its guard red."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import test_alerts
import test_barge_in
import test_fence
import test_offline_turns
import test_wearer
from test_planted_faults import Planted, around

from handset.core.alerts import Alerts
from handset.core.floor import Floor
from handset.core.headset import Headset
from handset.core.holds import Hold, Holds
from handset.core.keys import Key
from handset.core.lane import Lane
from handset.core.marks import Marks
from handset.core.person import Person
from handset.core.playback import Playback
from handset.core.telling import Telling
from handset.core.volume import Volume
from handset.core.wearer import Wearer


def clear_as_the_grace_ends(original: Any, floor: Floor, now: int, down_until: int) -> Any:
    return original(floor, now, now)  # whether the key is still down or not


def all_that_is_there(original: Any, floor: Floor, cause: Any, only: Any = None) -> Any:
    return original(floor, cause)


def at_once(original: Any, floor: Floor, text: str, at_ns: int) -> Any:
    return floor._type(text, at_ns)


def sounding_of_now(original: Any, floor: Floor, at_ns: int) -> Any:
    floor._suspected_ns = None
    return []


def no_hold(original: Any, playback: Playback, why: Hold, duck: bool = False) -> Any:
    return original(playback, why, duck) if why is Hold.MUTED else []


def forgets_mute(original: Any, holds: Holds) -> Any:
    holds._ducks.clear()
    return []


def held_responses_stop_too(original: Any, playback: Playback) -> list[str]:
    return [name for name, response in playback.lane.responses.items() if response.streams]


def any_end_will_do(original: Any, alerts: Alerts, alert: Any, now_ns: int) -> Any:
    return alerts._delivered(alert, "played", now_ns)


def before_it_is_whole(original: Any, alerts: Alerts, alert: Any, now_ns: int, _: bool) -> Any:
    response = alerts.playback.lane.responses.get(alert.response_id or "")
    for stream in response.streams.values() if response else ():
        stream.ended = True
    return original(alerts, alert, now_ns, True)


def deaf_to_volume(original: Any, alerts: Alerts, now_ns: int, free: bool, _: bool) -> Any:
    return original(alerts, now_ns, free, True)


def over_the_person(original: Any, alerts: Alerts, now_ns: int, _: bool, audible: bool) -> Any:
    return original(alerts, now_ns, True, audible)


def acknowledged_before_it_came(original: Any, alerts: Alerts, by: str, at_ns: int) -> Any:
    for alert in alerts._open.values():
        alert.state = alert.state.DELIVERED
    return original(alerts, by, at_ns)


def drops_what_is_early(original: Any, lane: Lane, response_id: str, packet: Any) -> None:
    lane.fenced["unknown_response"] += 1


def no_session_no_event(original: Any, headset: Headset, events: Any) -> Any:
    return original(headset, [event for event in events if event.session])


FAULTS = [
    Planted(
        "a tap of 60 ms is a clear",
        around(Floor, "tick", clear_as_the_grace_ends),
        partial(test_barge_in.test_a_tap_may_let_playback_go_on_without_gap_or_repeat, 60),
    ),
    Planted(
        "a press does not pause",
        around(Playback, "hold", no_hold),
        test_barge_in.test_a_press_pauses_at_the_next_block_and_is_a_clear_when_it_lasts,
    ),
    Planted(
        "a tap stops what came since",
        around(Floor, "_take_floor", all_that_is_there),
        test_barge_in.test_a_reply_that_nobody_heard_outlives_an_abandoned_turn,
    ),
    Planted(
        "a suspicion does nothing",
        around(Floor, "suspected", sounding_of_now),
        test_barge_in.test_confirmed_speech_clears_with_the_suspicion_as_its_cursor,
    ),
    Planted(
        "a typed turn overtakes a spoken one",
        around(Floor, "typed", at_once),
        test_barge_in.test_typed_turns_wait_for_a_spoken_one_and_keep_their_order,
    ),
    Planted(
        "a clear ends a mute",
        around(Holds, "cleared", forgets_mute),
        test_offline_turns.test_volume_zero_holds_the_lane_and_hands_nothing_into_silence,
    ),
    Planted(
        "a press stops an alert that waits",
        around(Playback, "stoppable", held_responses_stop_too),
        test_alerts.test_it_waits_for_a_reply_and_for_a_person,
    ),
    Planted(
        "a cut alert is delivered",
        around(Alerts, "_again", any_end_will_do),
        partial(test_alerts.test_cut_off_it_is_played_again_by_itself, 1),
    ),
    Planted(
        "an alert begins before it is whole",
        around(Alerts, "_begin", before_it_is_whole),
        test_alerts.test_it_is_not_begun_before_all_of_it_is_there,
    ),
    Planted(
        "an alert nobody can hear",
        around(Alerts, "tick", deaf_to_volume),
        partial(test_alerts.test_where_it_can_t_be_heard_it_waits, 8),
    ),
    Planted(
        "an alert over a person",
        around(Alerts, "tick", over_the_person),
        test_alerts.test_one_that_interrupts_stops_the_reply_and_no_person,
    ),
    Planted(
        "acknowledged before it was delivered",
        around(Alerts, "acknowledge", acknowledged_before_it_came),
        partial(test_alerts.test_the_button_acknowledges_what_was_delivered, Key.ACKNOWLEDGE),
    ),
    Planted(
        "early audio is dropped",
        around(Lane, "_keep_early", drops_what_is_early),
        test_fence.test_audio_that_overtakes_its_announcement_is_played,
    ),
    Planted(
        "words before a session are lost",
        around(Headset, "_keep", no_session_no_event),
        partial(
            test_offline_turns.test_a_turn_without_a_connection_is_kept_and_delivered,
            "before the first connection",
        ),
    ),
    Planted(
        "silence commits where manual is wanted",
        lambda patch: patch.setattr(Person, "wants_manual", property(lambda self: False)),
        partial(test_barge_in.test_where_manual_is_wanted_silence_commits_nothing, "session"),
    ),
    Planted(
        "a voice takes the floor in a manual mode",
        lambda patch: patch.setattr(Person, "_voice_counts", property(lambda self: True)),
        test_barge_in.test_in_a_manual_mode_no_voice_takes_the_floor,
    ),
    Planted(
        "a reply before the disclosure",
        lambda patch: patch.setattr(Wearer, "gated", property(lambda self: False)),
        test_wearer.test_no_reply_is_played_before_the_person_was_told,
    ),
    Planted(
        "a microphone that is on without consent",
        lambda patch: patch.setattr(Wearer, "deaf", property(lambda self: False)),
        test_wearer.test_where_consent_is_required_the_microphone_is_off_until_a_gesture,
    ),
    Planted(
        "the wearer is never another one",
        around(Wearer, "gesture", lambda o, s, now: False),
        partial(test_wearer.test_another_wearer_is_told_anew, "idle"),
    ),
    Planted(
        "notices are not marked",
        around(Marks, "within", lambda o, s, span: []),
        test_offline_turns.test_what_the_handset_said_in_a_turn_is_marked_in_its_commit,
    ),
    Planted(
        "the person is not told",
        around(Telling, "step", lambda o, s, before, after, now: []),
        test_offline_turns.test_each_step_of_a_turn_that_a_person_must_know_is_told,
    ),
    Planted(
        "every volume is audible",
        lambda patch: patch.setattr(Volume, "audible", property(lambda self: True)),
        partial(test_alerts.test_where_it_can_t_be_heard_it_waits, 8),
    ),
]


@pytest.mark.parametrize("planted", FAULTS, ids=lambda planted: planted.name)
def test_the_guard_of_a_person_goes_red(planted: Planted, monkeypatch: pytest.MonkeyPatch) -> None:
    planted.fault(monkeypatch)
    with pytest.raises((AssertionError, ValueError, KeyError, IndexError, StopIteration)):
        planted.guard()
