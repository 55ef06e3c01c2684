"""Faults planted in keys, gestures, turn and their diagrams: each turns its guard red."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import test_diagrams
import test_gestures
import test_keys
import test_turn
from test_planted_faults import Fault, Planted, around, row

from handset.core import diagrams
from handset.core.gestures import GESTURES, Beside, Cell
from handset.core.keys import Gesture, Key, KeyFact, Keys, Made
from handset.core.turn import Turn, TurnState
from handset.core.turn import TurnInput as In

S = TurnState
MS = 1_000_000

# ---- keys ---------------------------------------------------------------------------------


def at_the_first_opening(original: Any, keys: Keys, contact: Any, at_ns: int) -> Any:
    return original(keys, contact, at_ns + keys.settings.release_ns)


def each_closing_is_a_press(
    original: Any, keys: Keys, control: str, key: Key, down: bool, at_ns: int
) -> Any:
    contact = keys._contact(control, key)
    if down and contact.opened_ns is not None:
        contact.down = False
        keys._talking.pop(control, None)
    return original(keys, control, key, down, at_ns)


def deaf_while_it_may_bounce(
    original: Any, keys: Keys, control: str, key: Key, down: bool, at_ns: int
) -> Any:
    if down and keys._contact(control, key).opened_ns is not None:
        return []
    return original(keys, control, key, down, at_ns)


def one_ms_longer(original: Any, keys: Keys, contact: Any, at_ns: int) -> Any:
    return original(keys, contact, at_ns - MS)


def no_latch(original: Any, keys: Keys, contact: Any, at_ns: int) -> Any:
    facts = original(keys, contact, at_ns)
    return [replace(fact, gesture=Gesture.LET_GO) for fact in facts]


def at_its_moment_or_never(original: Any, keys: Keys, contact: Any, now_ns: int) -> Any:
    return original(keys, contact, now_ns) if now_ns - contact.since_ns < 5_100 * MS else []


def when_it_is_believed(original: Any, keys: Keys, contact: Any, at_ns: int) -> Any:
    facts = original(keys, contact, at_ns)
    return [replace(fact, at_ns=at_ns) if isinstance(fact, Made) else fact for fact in facts]


def by_one_look(original: Any, keys: Keys, now_ns: int) -> Any:
    for contact in keys._contacts.values():
        contact.seen_ns = contact.opened_ns
    return original(keys, now_ns)


def on_release(patch: pytest.MonkeyPatch) -> None:
    pressed, settle = Keys._pressed, Keys._settle

    def quiet(keys: Keys, contact: Any, at_ns: int) -> list[KeyFact]:
        facts = pressed(keys, contact, at_ns)
        return [] if keys._is_switch(contact.control) else facts

    def late(keys: Keys, contact: Any, at_ns: int) -> list[KeyFact]:
        opened, was_down = contact.opened_ns, contact.down
        facts = settle(keys, contact, at_ns)
        if was_down and not contact.down and keys._is_switch(contact.control):
            return [*facts, Made(Gesture.TOGGLE, contact.control, opened)]
        return facts

    patch.setattr(Keys, "_pressed", quiet)
    patch.setattr(Keys, "_settle", late)


def the_first_to_let_go(original: Any, keys: Keys, contact: Any, at_ns: int) -> Any:
    down, opened = contact.down, contact.opened_ns
    facts = original(keys, contact, at_ns)
    if down and not contact.down and keys._talking:
        return [*facts, Made(Gesture.LET_GO, contact.control, opened)]
    return facts


def each_control_talks(original: Any, keys: Keys, contact: Any, at_ns: int) -> Any:
    others = dict(keys._talking)
    keys._talking.clear()
    facts = original(keys, contact, at_ns)
    keys._talking = {**others, **keys._talking}
    return facts


def in_no_order(original: Any, keys: Keys) -> Any:
    return [c for c in keys._contacts.values() if c.opened_ns is not None]


def acts_at_start(original: Any, keys: Keys, control: str, at_ns: int, down: Any) -> Any:
    facts = original(keys, control, at_ns, down)
    for key in down:
        keys._contacts[control, key].stuck = False
        keys._talking[control] = None
    return facts


def is_let_go(original: Any, keys: Keys, control: str, at_ns: int) -> Any:
    lost = control in keys._talking
    facts = original(keys, control, at_ns)
    return [Made(Gesture.LET_GO, control, at_ns)] if lost else facts


def is_not_missed(original: Any, keys: Keys, control: str, at_ns: int) -> Any:
    keys._switched_by = ""
    return original(keys, control, at_ns)


def still_talks(original: Any, keys: Keys) -> None:
    talking = dict(keys._talking)
    original(keys)
    keys._talking = talking


def again_and_again(original: Any, keys: Keys, contact: Any, now_ns: int) -> Any:
    contact.told_held = False
    return original(keys, contact, now_ns)


def catches_up(original: Any, keys: Keys, contact: Any, now_ns: int) -> Any:
    steps: list[KeyFact] = []
    while contact.key in (Key.VOLUME_UP, Key.VOLUME_DOWN) and contact.repeat_ns <= now_ns:
        steps += original(keys, contact, contact.repeat_ns)
    return steps


PRESSES = partial(test_keys.check_presses, "hold", 60)
KEY_FAULTS = [
    Planted(
        "a release on the first open contact",
        around(Keys, "_settle", at_the_first_opening),
        PRESSES,
    ),
    Planted("a bounce is a second press", around(Keys, "level", each_closing_is_a_press), PRESSES),
    Planted(
        "a press in the release window is lost",
        around(Keys, "level", deaf_while_it_may_bounce),
        test_keys.test_a_press_within_the_release_time_is_the_same_press,
    ),
    Planted(
        "a release takes a millisecond longer",
        around(Keys, "_settle", one_ms_longer),
        partial(test_keys.test_the_next_press_is_never_lost, 25),
    ),
    Planted("let go when it is believed", around(Keys, "_settle", when_it_is_believed), PRESSES),
    Planted(
        "the clock overtakes the contact",
        around(Keys, "tick", by_one_look),
        test_keys.test_a_release_is_not_believed_before_the_contact_had_time_to_close_again,
    ),
    Planted("a toggle acts on release", on_release, partial(test_keys.check_presses, "toggle", 60)),
    Planted(
        "a tap never latches",
        around(Keys, "_settle", no_latch),
        partial(test_keys.check_presses, "tap_latch", 60),
    ),
    Planted(
        "the second control ends the hold",
        around(Keys, "_settle", the_first_to_let_go),
        test_keys.test_it_is_down_once_on_two_controls,
    ),
    Planted(
        "the second control is another press",
        around(Keys, "_pressed", each_control_talks),
        test_keys.test_it_is_down_once_on_two_controls,
    ),
    Planted(
        "the first contact to open ends the hold",
        around(Keys, "_opened", in_no_order),
        test_keys.test_the_last_contact_to_open_ends_the_hold,
    ),
    Planted(
        "a late consumer loses a switch",
        around(Keys, "_let_go_by", lambda o, s, at, control="": []),
        partial(test_keys.check_late, test_keys.HOLD_THEN_TOGGLE, "hold"),
    ),
    Planted(
        "a late consumer loses a long press",
        around(Keys, "_held_long", at_its_moment_or_never),
        partial(test_keys.check_late, test_keys.HELD_LONG, "hold"),
    ),
    Planted(
        "a key that is down at the start acts",
        around(Keys, "back", acts_at_start),
        test_keys.test_a_key_that_is_down_as_its_control_appears_is_stuck_until_it_was_up,
    ),
    Planted(
        "a control that is gone has let go",
        around(Keys, "lost", is_let_go),
        test_keys.test_a_control_that_goes_away_in_a_hold_is_lost_and_may_come_back_held,
    ),
    Planted(
        "a switch that is gone is not missed",
        around(Keys, "lost", is_not_missed),
        test_keys.test_a_switch_is_missed_until_its_turn_is_over,
    ),
    Planted(
        "a broken key takes all others away",
        around(Keys, "turn_over", still_talks),
        test_keys.test_a_key_that_is_still_down_when_its_turn_is_over_takes_no_other_key_away,
    ),
    Planted(
        "a long press means more than once",
        around(Keys, "_held_long", again_and_again),
        partial(test_keys.test_a_key_that_is_held_long_means_more, Key.MUTE),
    ),
    Planted(
        "a stall is a row of volume steps",
        around(Keys, "_repeated", catches_up),
        test_keys.test_a_stall_is_no_row_of_volume_steps,
    ),
]


# ---- the turn -----------------------------------------------------------------------------


def shortest(samples: int) -> Fault:
    def wrong(original: Any, turn: Turn, *args: Any, **named: Any) -> Any:
        turn.settings = replace(turn.settings, shortest=samples)
        return original(turn, *args, **named)

    return around(Turn, "gesture", wrong)


def no_range_is_taken(original: Any, turn: Turn, next_free: int) -> None:
    original(turn, 0)


def whole_tail(original: Any, turn: Turn, opened: Any, sample: Any, facts: Any) -> None:
    original(turn, opened, replace(sample, est=opened.end), facts)


def tail_by_time(original: Any, turn: Turn, position: int, now_ns: int) -> Any:
    opened = turn._open
    if turn.state is S.TAILING and opened and now_ns - opened.release_ns > 250_000_000:
        position = max(position, opened.end)
    return original(turn, position, now_ns)


def takes_its_number_back(original: Any, turn: Turn, *args: Any) -> None:
    turn.number -= 1
    original(turn, *args)


def act(action: str, wrong: Any) -> Fault:
    """``wrong(open turn, sample)`` after an action of the table."""

    def method(original: Any, turn: Turn, name: str, at: int, sample: Any, *args: Any) -> None:
        opened = turn._open
        original(turn, name, at, sample, *args)
        if name == action:
            wrong(opened, sample)

    return around(Turn, "_act", method)


def from_the_press(opened: Any, sample: Any) -> None:
    opened.start = sample.est


def stays_automatic(opened: Any, _: Any) -> None:
    opened.source = "vad"


def believes_silence(original: Any, turn: Turn, opened: Any, now_ns: int) -> Any:
    opened.listened = True
    return original(turn, opened, now_ns)


def forgets_what_was_said(original: Any, turn: Turn, *args: Any) -> None:
    opened = turn._open
    if args[0] == "resolve" and opened and opened.evidence.get("stuck_key") == "no speech":
        opened.spoken_ns = None
    original(turn, *args)


def without_evidence(original: Any, turn: Turn, opened: Any, facts: Any) -> None:
    opened.evidence.clear()
    original(turn, opened, facts)


def once(original: Any, turn: Turn, opened: Any, now_ns: int) -> Any:
    warned = original(turn, opened, now_ns)
    opened.warn_ns = now_ns * 9 if warned else opened.warn_ns
    return warned


PATHS = test_turn.check_every_path
CELL = test_turn.test_every_input_in_every_state
TURN_FAULTS = [
    Planted("letting go of a stuck key commits", row(S.STUCK, In.LET_GO, S.IDLE, "commit"), PATHS),
    Planted("a stuck key commits at once", row(S.HOLDING, In.STUCK, S.TAILING, "stick"), PATHS),
    Planted("lost for too long commits", row(S.LOST, In.LOST_TOO_LONG, S.IDLE, "commit"), PATHS),
    Planted("a lost control lets go", row(S.HOLDING, In.CONTROL_LOST, S.TAILING, "release"), PATHS),
    Planted(
        "a control that is back lets go", row(S.LOST, In.CONTROL_BACK, S.TAILING, "release"), PATHS
    ),
    Planted("kept for too long commits", row(S.KEPT, In.KEPT_TOO_LONG, S.IDLE, "commit"), PATHS),
    Planted(
        "kept for too long is settled", row(S.STUCK, In.KEPT_TOO_LONG, S.IDLE, "resolve"), PATHS
    ),
    Planted(
        "held back for too long commits",
        row(S.HELD_BACK, In.KEPT_TOO_LONG, S.IDLE, "commit"),
        PATHS,
    ),
    Planted("typing sends what was held back", row(S.HELD_BACK, In.TYPED, S.IDLE, "commit"), PATHS),
    Planted("a stop commits a hold", row(S.HOLDING, In.STOP, S.IDLE, "commit"), PATHS),
    Planted("a stop commits what is kept", row(S.KEPT, In.STOP, S.IDLE, "resolve"), PATHS),
    Planted("silence ends a hold", row(S.HOLDING, In.VOICE_END, S.TAILING, "silence"), PATHS),
    Planted("silence ends a latch", row(S.LATCHED, In.VOICE_END, S.TAILING, "silence"), PATHS),
    Planted(
        "an alert's button sends a hold",
        row(S.HOLDING, In.ACKNOWLEDGE, S.TAILING, "release"),
        PATHS,
    ),
    Planted(
        "silence commits where manual is wanted",
        row(S.SPEAKING, In.VOICE_END_HELD, S.TAILING, "silence"),
        test_turn.test_no_row_lets_time_or_a_fault_commit,
    ),
    Planted(
        "a stop forgets what was let go",
        row(S.TAILING, In.STOP, S.IDLE, "cancel"),
        partial(CELL, S.TAILING, In.STOP),
    ),
    Planted(
        "a cancel in the post-roll comes too late",
        row(S.TAILING, In.CANCEL, S.TAILING),
        test_turn.test_a_cancel_in_the_post_roll_wins,
    ),
    Planted(
        "a lost control ends the turn",
        row(S.HOLDING, In.CONTROL_LOST, S.IDLE, "give_up"),
        partial(CELL, S.HOLDING, In.CONTROL_LOST),
    ),
    Planted(
        "too soon is a turn",
        shortest(0),
        partial(test_turn.test_to_the_sample, S.HOLDING, In.LET_GO, 4_799, test_turn.Abandoned),
    ),
    Planted(
        "long enough is too soon",
        shortest(4_801),
        partial(test_turn.test_to_the_sample, S.LATCHED, In.TALK, 4_800, test_turn.AudioEnds),
    ),
    Planted(
        "too soon is a turn where the control is lost",
        lambda patch: patch.delitem(test_turn.TABLE, (S.LOST, In.TOO_SOON)),
        partial(test_turn.test_to_the_sample, S.LOST, In.TOGGLE, 4_799, test_turn.Abandoned),
    ),
    Planted(
        "a pre-roll from the turn before",
        around(Turn, "_end", no_range_is_taken),
        test_turn.test_a_press_in_the_post_roll_shares_no_sample,
    ),
    Planted(
        "the tail goes on in the next turn",
        around(Turn, "_cut", whole_tail),
        test_turn.test_a_press_in_the_post_roll_shares_no_sample,
    ),
    Planted(
        "what is confirmed goes on after the gesture",
        around(Turn, "_cut", whole_tail),
        partial(test_turn.test_a_gesture_sends_what_was_held_back, In.ACKNOWLEDGE, 0),
    ),
    Planted(
        "the tail is waited for by time",
        around(Turn, "captured", tail_by_time),
        test_turn.test_the_tail_is_waited_for_by_samples_and_not_by_time,
    ),
    Planted(
        "a number is used twice",
        around(Turn, "_abandon", takes_its_number_back),
        partial(test_turn.check_histories, In.TALK, 200, 3),
    ),
    Planted(
        "two open turns",
        row(S.HOLDING, In.TALK, S.HOLDING, "start"),
        partial(test_turn.check_histories, In.TALK, 200, 2),
    ),
    Planted(
        "a turn that nobody ended",
        row(S.LATCHED, In.CANCEL, S.IDLE),
        partial(test_turn.check_histories, In.TOGGLE, 200, 2),
    ),
    Planted(
        "what was said before the press is lost",
        act("take_over", from_the_press),
        test_turn.test_a_button_makes_an_automatic_turn_a_manual_one,
    ),
    Planted(
        "a turn that was taken over stays automatic",
        act("take_over", stays_automatic),
        partial(test_turn.check_histories, In.VOICE, 200, 4),
    ),
    Planted(
        "the lost control is not told",
        act("lose", lambda opened, _: opened.evidence.clear()),
        partial(test_turn.test_a_control_that_comes_back_takes_the_turn_over, In.TALK),
    ),
    Planted(
        "silence is believed of who was not listened to",
        around(Turn, "_stuck", believes_silence),
        partial(test_turn.test_without_proof_of_silence_only_the_longest_is_stuck, False, False),
    ),
    Planted(
        "speech before a silence is thrown away",
        around(Turn, "_act", forgets_what_was_said),
        partial(
            test_turn.test_the_next_gesture_settles_what_is_kept,
            "and then a minute of silence",
            In.TALK,
        ),
    ),
    Planted(
        "silence is never a stuck key",
        around(Turn, "heard", lambda o, s, at, spoken: None),
        partial(test_turn.test_a_minute_without_speech_is_a_stuck_key, S.HOLDING),
    ),
    Planted(
        "a commit without its evidence",
        around(Turn, "_commit", without_evidence),
        partial(CELL, S.TAILING, In.TALK),
    ),
    Planted(
        "a long hold warns once",
        around(Turn, "_warn", once),
        test_turn.test_a_long_hold_warns_again_and_again_and_goes_on,
    ),
]


# ---- the gesture table and its picture ------------------------------------------------------


def one_less(patch: pytest.MonkeyPatch) -> None:
    edges = diagrams._turn_edges
    patch.setattr(diagrams, "_turn_edges", lambda gestures: edges(gestures)[1:])


def cell(state: S, gesture: Gesture, what: In | None, beside: Beside = Beside.NOTHING) -> Planted:
    return Planted(
        f"another cell for {gesture.value} in {state.value}",
        lambda patch: patch.setitem(GESTURES, (state, gesture), Cell(what, beside)),
        partial(test_gestures.check_cell, state, gesture),
    )


GESTURE_FAULTS = [
    cell(S.HOLDING, Gesture.LOUDER, In.LET_GO, Beside.LOUDER),
    cell(S.IDLE, Gesture.TALK, In.TALK),
    cell(S.IDLE, Gesture.TALK, In.TALK, Beside.CLEAR_PLAYBACK),
    cell(S.LATCHED, Gesture.MUTE, None),
    cell(S.LATCHED, Gesture.NEW_WEARER, None, Beside.NEW_WEARER),
    cell(S.HOLDING, Gesture.PAIR, None, Beside.PAIR),
    cell(S.STUCK, Gesture.ACKNOWLEDGE, In.ACKNOWLEDGE, Beside.ACKNOWLEDGE_ALERT),
    cell(S.TAILING, Gesture.CANCEL, None, Beside.SILENCE),
    cell(S.HELD_BACK, Gesture.TOGGLE, None),
    Planted(
        "a latch has less authority",
        lambda patch: patch.setitem(GESTURES, (S.LATCHED, Gesture.TALK), Cell(None)),
        partial(
            test_gestures.test_each_way_to_talk_reaches_a_commit,
            test_gestures.WAYS["tap_latch"],
            S.IDLE,
        ),
    ),
    Planted("a row that is not drawn", one_less, test_diagrams.check_arrows),
]


@pytest.mark.parametrize(
    "planted", KEY_FAULTS + TURN_FAULTS + GESTURE_FAULTS, ids=lambda planted: planted.name
)
def test_the_guard_of_a_turn_goes_red(planted: Planted, monkeypatch: pytest.MonkeyPatch) -> None:
    planted.fault(monkeypatch)
    with pytest.raises((AssertionError, ValueError, KeyError, IndexError)):
        planted.guard()
