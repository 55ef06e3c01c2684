"""Taking the floor while a reply plays: by button, by voice, in writing."""

from __future__ import annotations

import numpy as np
import pytest
from headset_invariants import check_at_rest
from headset_rig import LOUD, MS, Rig

from handset.core import events as ev
from handset.core import messages as msg
from handset.core.floor import FloorSettings
from handset.core.keys import Key, KeySettings, Mode
from handset.core.person import PersonSettings
from handset.core.wearer import WearerSettings

GRACE_MS = 80


def person(
    tap: str = "stop", mode: Mode = "hold", suspect: str = "pause", manual: bool = False
) -> PersonSettings:
    return PersonSettings(
        KeySettings(mode),
        FloorSettings(GRACE_MS * MS, tap, suspect),
        WearerSettings(disclose=False),
        manual,
        tell=False,
    )


def speaking(rig: Rig, seconds: float = 0.3) -> None:
    rig.say("r", "a", 48_000)
    rig.play(round(seconds * 48_000))


def loud(rig: Rig) -> np.ndarray:
    """The frames of items, in the order in which the card got them."""
    return rig.card.tape[rig.card.tape >= LOUD]


def frames(rig: Rig) -> int:
    return len(loud(rig))


def test_a_press_pauses_at_the_next_block_and_is_a_clear_when_it_lasts() -> None:
    rig = Rig(person=person())
    speaking(rig)
    pressed_ns, handed = rig.now, frames(rig)
    rig.press()
    assert rig.clears == []  # not yet, but nothing more is handed
    rig.run(GRACE_MS - 20)
    assert (rig.clears, frames(rig)) == ([], handed)
    rig.run(60)
    assert len(rig.clears) == 1
    (cleared,) = rig.of(msg.PlayoutCleared)
    assert cleared.causes == [msg.Cause("gesture", pressed_ns)]
    (item,) = cleared.items
    assert item.handed * 2 == handed  # the pause is the cursor: 24 kHz on 48
    assert item.at_request is not None and item.at_request.hi <= item.handed
    rig.run(300)
    rig.release()
    rig.run(400)
    assert frames(rig) == handed
    assert len(rig.of(msg.Commit)) == 1
    check_at_rest(rig)


@pytest.mark.parametrize("ms", [20, 60])
def test_a_tap_may_stop_playback(ms: int) -> None:
    rig = Rig(person=person("stop"))
    speaking(rig)
    handed = frames(rig)
    rig.press()
    rig.run(ms)
    rig.release()
    rig.run(200)
    (abandoned,) = rig.of(msg.TurnAbandoned)
    assert (abandoned.reason, abandoned.stopped) == ("too_short", ["r"])
    assert (frames(rig), rig.final_states()) == (handed, {"a": "cleared"})
    assert rig.of(msg.Commit) == []
    check_at_rest(rig)


@pytest.mark.parametrize("ms", [20, 60])
def test_a_tap_may_let_playback_go_on_without_gap_or_repeat(ms: int) -> None:
    rig = Rig(person=person("resume"))
    speaking(rig)
    rig.press()
    rig.run(ms)
    rig.release()
    rig.run(2_500)
    (abandoned,) = rig.of(msg.TurnAbandoned)
    assert (abandoned.reason, abandoned.stopped, abandoned.live) == ("too_short", [], ["r"])
    assert rig.clears == []
    assert rig.final_states() == {"a": "played"}
    assert np.array_equal(loud(rig) - LOUD, np.arange(96_000) % 8)  # each once, in order
    check_at_rest(rig)


def test_a_release_decides_by_the_hand_s_times_and_not_by_when_it_is_told() -> None:
    rig = Rig(person=person("resume"))
    speaking(rig)
    at = rig.now
    sample = msg.Estimate(rig.position(), rig.position(), rig.position())
    rig.tell(ev.KeyLevel("button", Key.TALK, True, at, sample))
    rig.card.hang(5 * MS)
    later = msg.Estimate(sample.est + 96 * 48, sample.est, sample.est + 97 * 48)
    rig.tell(ev.KeyLevel("button", Key.TALK, False, at + 96 * MS, later))
    rig.run(200)
    assert len(rig.clears) == 1  # 96 ms: it lasted
    assert rig.of(msg.TurnAbandoned)[0].reason == "too_short"  # and holds too little audio


def test_a_tap_that_latches_clears_at_once() -> None:
    rig = Rig(person=person(mode="tap_latch"))
    speaking(rig)
    rig.press()
    rig.run(50)
    rig.release()
    rig.run(60)
    assert len(rig.clears) == 1
    rig.run(600)
    rig.press()
    rig.run(50)
    rig.release()
    rig.run(500)
    (commit,) = rig.of(msg.Commit)
    assert commit.commit.source == "latch"
    check_at_rest(rig)


@pytest.mark.parametrize("control", ["button", "keyboard"])
def test_a_toggle_clears_at_once_and_toggles_off(control: str) -> None:
    rig = Rig(person=person(mode="toggle" if control == "button" else "hold"))
    speaking(rig)
    rig.tap(Key.TALK, control)
    assert len(rig.clears) == 1
    rig.run(500)
    rig.tap(Key.TALK, control)
    rig.run(400)
    (commit,) = rig.of(msg.Commit)
    assert commit.commit.source == "toggle"
    assert commit.commit.evidence["control"] == control
    check_at_rest(rig)


def test_a_reply_that_nobody_heard_outlives_an_abandoned_turn() -> None:
    rig = Rig(person=person())
    rig.speak()
    rig.press()
    rig.run(40)
    rig.say("r", "a", 4_800, turn=1)
    rig.release()
    rig.run(2_500)
    rig.press()
    rig.run(40)
    rig.release()
    rig.run(800)
    assert rig.final_states() == {"a": "played"}
    check_at_rest(rig)


def test_a_reply_waits_through_a_long_turn_that_is_then_cancelled() -> None:
    """It has come whole, and more than the deadline of an item passes."""
    rig = Rig(person=person())
    rig.speak()
    rig.press()
    rig.run(100)
    rig.say("r", "a", 4_800, turn=1)
    rig.run(4_000)
    assert rig.finals() == {}
    rig.key(Key.CANCEL, True)
    rig.run(600)
    assert rig.of(msg.TurnAbandoned)[-1].reason == "cancelled"
    assert rig.final_states() == {"a": "played"}


def test_cancel_without_a_turn_silences_what_plays() -> None:
    rig = Rig(person=person())
    speaking(rig)
    rig.tap(Key.CANCEL)
    rig.run(200)
    assert rig.final_states() == {"a": "cleared"}
    assert rig.of(msg.TurnStarted) == []


# ---- by voice -------------------------------------------------------------------------------


def voice(rig: Rig, confirmed: bool | None, after_ms: int = 200) -> msg.Estimate:
    """A suspicion, and what becomes of it."""
    onset = rig.position() - 14_400
    estimate = msg.Estimate(onset, onset, onset)
    rig.tell(ev.VoiceSuspected(rig.now))
    rig.run(after_ms)
    if confirmed:
        rig.tell(ev.VoiceConfirmed(rig.now, estimate))
    elif confirmed is False:
        rig.tell(ev.VoiceDismissed(rig.now))
    return estimate


def silence(rig: Rig) -> None:
    last = rig.position() - 24_000
    rig.tell(ev.VoiceEnded(rig.now, msg.Estimate(last, last, last)))


@pytest.mark.parametrize("suspect", ["pause", "duck"])
def test_a_cough_resumes_at_the_next_sample(suspect: str) -> None:
    rig = Rig(person=person(mode="automatic", suspect=suspect))
    speaking(rig)
    handed = frames(rig)
    voice(rig, confirmed=False)
    assert (np.count_nonzero(rig.card.tape) == handed) == (suspect == "pause")
    rig.run(2_500)
    assert rig.final_states() == {"a": "played"}
    final = rig.finals()["a"].cursor
    assert (final.ducked > 0) == (suspect == "duck")
    if suspect == "pause":
        assert np.array_equal(loud(rig) - LOUD, np.arange(96_000) % 8)
        check_at_rest(rig)
    assert rig.of(msg.TurnStarted) == []


def test_frames_faded_for_a_cough_are_said_to_be_quieter() -> None:
    rig = Rig(person=person(mode="automatic"), fade_ms=5)
    speaking(rig)
    voice(rig, confirmed=False)
    rig.run(2_500)
    cursor = rig.finals()["a"].cursor
    assert cursor.faded == 0  # of no clear
    assert cursor.ducked == 2 * 240 // 2  # down and up again, in samples of the item


def test_confirmed_speech_clears_with_the_suspicion_as_its_cursor() -> None:
    rig = Rig(person=person(mode="automatic"))
    speaking(rig)
    handed, suspected_ns = frames(rig), rig.now
    onset = voice(rig, confirmed=True)
    rig.run(100)
    (cleared,) = rig.of(msg.PlayoutCleared)
    assert cleared.causes == [msg.Cause("voice", suspected_ns)]
    assert cleared.items[0].handed * 2 == handed
    (started,) = rig.of(msg.TurnStarted)
    assert started.source == "vad"
    assert started.capture_start <= onset.est  # what came before the detection is in it
    rig.run(600)
    silence(rig)
    rig.run(300)
    (commit,) = rig.of(msg.Commit)
    assert commit.commit.source == "vad"
    assert commit.capture.start == started.capture_start
    check_at_rest(rig)


@pytest.mark.parametrize("scope", ["setting", "session", "next_turn"])
def test_where_manual_is_wanted_silence_commits_nothing(scope: str) -> None:
    rig = Rig(person=person(mode="automatic", manual=scope == "setting"))
    if scope != "setting":
        rig.edge_says(msg.Policy(require_manual=True, scope=scope))  # type: ignore[arg-type]
    voice(rig, confirmed=True)
    rig.run(600)
    silence(rig)
    rig.run(2_000)
    assert rig.of(msg.Commit) == []
    (held,) = rig.sent_to_edge(msg.TurnHeld)
    assert held.turn == 1
    rig.tap(Key.ACKNOWLEDGE)
    rig.run(100)
    (commit,) = rig.of(msg.Commit)
    assert commit.commit.source == "ptt"
    assert commit.commit.evidence["began"] == "vad"
    assert commit.capture == held.capture
    voice(rig, confirmed=True)
    rig.run(600)
    silence(rig)
    rig.run(600)
    assert len(rig.of(msg.Commit)) == (2 if scope == "next_turn" else 1)


def test_a_held_back_turn_goes_on_with_the_voice_and_expires_without_a_gesture() -> None:
    rig = Rig(person=person(mode="automatic", manual=True))
    voice(rig, confirmed=True)
    rig.run(500)
    silence(rig)
    rig.run(1_000)
    voice(rig, confirmed=True)
    rig.run(500)
    silence(rig)
    assert [held.turn for held in rig.sent_to_edge(msg.TurnHeld)] == [1, 1]
    rig.run(121_000)
    assert rig.of(msg.Commit) == []
    assert [gone.reason for gone in rig.of(msg.TurnAbandoned)] == ["expired"]


def test_the_button_is_past_every_detector() -> None:
    """A press while speech is suspected, and while an automatic turn is open."""
    rig = Rig(person=person(mode="automatic"))
    speaking(rig)
    handed = frames(rig)
    rig.tell(ev.VoiceSuspected(rig.now))
    rig.run(30)
    rig.press()
    rig.run(20)
    rig.tell(ev.VoiceDismissed(rig.now))  # it has no say any more
    rig.run(300)
    assert frames(rig) == handed
    rig.release()
    rig.run(400)
    assert [c.commit.source for c in rig.of(msg.Commit)] == ["ptt"]
    voice(rig, confirmed=True)
    rig.run(300)
    rig.press()
    silence(rig)  # the voice does not end what a hand holds
    rig.run(1_000)
    assert len(rig.of(msg.Commit)) == 1
    rig.release()
    rig.run(400)
    last = rig.of(msg.Commit)[-1].commit
    assert (last.source, last.evidence["began"]) == ("ptt", "vad")


def test_in_a_manual_mode_no_voice_takes_the_floor() -> None:
    rig = Rig(person=person())
    speaking(rig)
    voice(rig, confirmed=True)
    rig.run(2_500)
    assert rig.of(msg.TurnStarted) == []
    assert rig.final_states() == {"a": "played"}


# ---- typed ----------------------------------------------------------------------------------


def test_a_typed_turn_stops_playback_and_commits_at_once() -> None:
    rig = Rig(person=person())
    speaking(rig)
    rig.tell(ev.Typed("stop the fan"))
    rig.run(100)
    (cleared,) = rig.of(msg.PlayoutCleared)
    assert cleared.causes[0].kind == "typed"
    (typed,) = rig.of(msg.TypedTurn)
    assert (typed.turn, typed.cursor) == (1, "known")
    assert typed.item.content[0].text == "stop the fan"
    assert typed.commit.source == "typed"
    kinds = [event.TYPE for event in rig.kept]  # type: ignore[attr-defined]
    assert kinds.index("playout.cleared") < kinds.index("conversation.item.create")
    rig.say("s", "b", 4_800, turn=1)
    rig.run(400)
    assert rig.final_states()["b"] == "played"
    check_at_rest(rig)


def test_typed_turns_wait_for_a_spoken_one_and_keep_their_order() -> None:
    rig = Rig(person=person())
    rig.press()
    rig.run(300)
    rig.tell(ev.Typed("one"))
    rig.tell(ev.Typed("two"))
    rig.run(100)
    assert rig.of(msg.TypedTurn) == []
    rig.release()
    rig.run(600)
    committed = [e for e in rig.kept if isinstance(e, msg.Commit | msg.TypedTurn)]
    assert [event.turn for event in committed] == [1, 2, 3]
    assert [e.item.content[0].text for e in rig.of(msg.TypedTurn)] == ["one", "two"]


def test_typing_settles_what_was_held_back() -> None:
    rig = Rig(person=person(mode="automatic", manual=True))
    voice(rig, confirmed=True)
    rig.run(500)
    silence(rig)
    rig.tell(ev.Typed("yes"))
    rig.run(100)
    assert [gone.reason for gone in rig.of(msg.TurnAbandoned)] == ["expired"]
    assert [turn.turn for turn in rig.of(msg.TypedTurn)] == [2]
