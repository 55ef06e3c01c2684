"""A process that is killed, and what the next one finds.

The living process is the real core on the real queue, with its counters in a real file. It
dies at a record of its journal, or between two blocks of the card. What the next process
makes of the remains is compared with the card's tape, and with what the dead one said.
"""

from __future__ import annotations

import contextlib
import random
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from headset_rig import MS, Rig, Writer
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tiers import count

from handset.audio.capture import Capture, CaptureConfig
from handset.audio.playout import Playout, PlayoutConfig, read_remains
from handset.core import events as ev
from handset.core import messages as msg
from handset.core.ledger import Ledger
from handset.core.outbox import Outbox
from handset.core.recovery import (
    Recovered,
    append_record,
    device_record,
    event_record,
    recover,
)
from handset.fakes.card import FakeCard

BOOT = (7, 8)
BUFFER, BLOCK = 1_440, 480
FADE = 240
LATER = 1 << 50


class Killed(BaseException):
    """SIGKILL: nothing of the process runs after it."""


class JournalledWriter(Writer):
    """A range is journalled before its frames are published."""

    def flush(self) -> None:
        while self.backlog:
            chunk = self.backlog[0]
            n = min(len(chunk.frames), self.playout.space)
            if n < len(chunk.frames) and n == 0:
                return
            part = chunk.samples * n // len(chunk.frames) if n < len(chunk.frames) else 0
            samples = part or chunk.samples
            self.rig.perform(ev.Log(append_record(chunk.item_id, n, samples)))
            starts = self.rig.headset.playback.ledger.starts_run(chunk.item_id)
            if n:
                assert self.playout.write(self.playout.generation, chunk.frames[:n], starts) == n
            chunk.frames = chunk.frames[n:]
            chunk.samples -= samples
            last = len(chunk.frames) == 0
            if last:
                self.backlog.popleft()
            self.rig.tell(ev.AudioQueued(chunk.item_id, n, samples))
            if last and chunk.total is not None:
                self.rig.tell(ev.ItemQueued(chunk.item_id, chunk.total))


class Living(Rig):
    """A process: ``dies_at`` records of its journal, that one included."""

    def __init__(self, region: Path, dies_at: int = LATER, **options: Any) -> None:
        self.region = region
        self.dies_at = dies_at
        self.journal: list[dict[str, Any]] = []
        """Never reset here: the worst case."""
        self.events: list[msg.Durable] = []
        """Those that are in the journal."""
        options.setdefault("fade_ms", 5.0)
        super().__init__(**options)

    def log(self, record: dict[str, Any]) -> None:
        self.journal.append(record)
        if len(self.journal) >= self.dies_at:
            raise Killed

    def plug(self, rate: int | None = None) -> None:
        self.rate = rate or self.rate
        first_clear = self.headset.playback.generation
        config = PlayoutConfig(
            self.rate,
            seconds=self.seconds,
            fade_ms=self.fade_ms,
            restart_frames=720,
            first_clear=first_clear,
            boot_id=BOOT,
        )
        self.card = FakeCard(
            Playout(config, self.region),
            Capture(CaptureConfig(self.rate)),
            blocks=self.block_frames,
            buffer=self.buffer,
            start_ns=self._idle_ns,
        )
        self.answers = []
        self.writer = JournalledWriter(self, self.card.playout)
        timing = self.card.timing()
        self.log(device_record(Ledger(timing, 0, first_clear)))
        self.tell(ev.DeviceReady(timing, "fake"))

    def perform(self, effect: ev.Effect) -> None:
        match effect:
            case ev.Log(record):
                self.log(record)
            case ev.Keep(events):
                for event in events:
                    self.kept.append(event)
                    self.events.append(event)
                    self.log(event_record(event, event.event_id))
                self.effects.append(effect)
                return
        super().perform(effect)

    def kill(self) -> None:
        """From outside, between two steps of it."""
        if self.card is not None:
            self.card.kill()

    def after(self, story: Callable[[Living], None]) -> Found:
        """Lives through the story, or until it dies."""
        with contextlib.suppress(Killed):
            story(self)
        self.kill()
        return Found(self)


class Found:
    """What the next process finds, and what was true."""

    def __init__(self, dead: Living) -> None:
        self.dead = dead
        remains = read_remains(dead.region, BOOT)
        self.remains = remains
        self.result: Recovered = recover(
            dead.journal,
            remains.snapshot if remains else None,
            remains.answers if remains else (),
            "boot",
            dead.now + 1,
        )
        outbox = Outbox("next", dead.events)
        self.fresh = outbox.add(self.result.events)
        """What is news."""
        self.all: list[msg.Durable] = [*dead.events, *self.fresh]

    def of(self, kind: type[Any], events: list[msg.Durable] | None = None) -> list[Any]:
        return [each for each in (self.all if events is None else events) if isinstance(each, kind)]

    def finals(self) -> dict[str, msg.PlayoutReceipt]:
        """By item; each has one."""
        finals: dict[str, msg.PlayoutReceipt] = {}
        for receipt in self.of(msg.PlayoutReceipt):
            if receipt.state != "queued":
                assert receipt.item_id not in finals, f"two final receipts of {receipt.item_id}"
                finals[receipt.item_id] = receipt
        return finals

    def truncated(self) -> dict[str, int]:
        """The newest truncate of each item, samples."""
        return {each.item_id: each.played for each in self.of(msg.Truncate)}

    def check(self) -> None:
        """What holds for every death."""
        announced = {r["item"] for r in self.dead.journal if r["k"] == "announce"}
        finals = self.finals()
        assert set(finals) == announced
        clears = {clear.event_id: clear for clear in self.of(msg.PlayoutCleared)}
        told = self.truncated()
        for name, receipt in finals.items():
            cursor = receipt.cursor
            assert cursor.received == cursor.handed + cursor.dropped
            assert cursor.queued == 0
            assert cursor.played == cursor.handed - cursor.lost_max
            assert cursor.exact == (cursor.lost_max == 0)
            rates = [card.playout.config.rate for card, _ in self.dead.tapes]
            frames = BUFFER + BLOCK + round(FADE * self.dead.fade_ms / 5)
            slowest = min([*rates, self.dead.rate])
            assert cursor.lost_max <= frames * cursor.rate // slowest + 1
            self.check_truth(name, cursor)
            if receipt.state == "played":
                assert cursor.played == cursor.received
                assert name not in told, "played to its end, and truncated"
            elif cursor.received:
                assert told[name] == cursor.played
            if receipt.cleared is not None:
                stopped = clears[receipt.cleared]
                named = {each.item_id for each in stopped.items} | set(stopped.responses)
                assert {name, receipt.response_id} & named
        for each in self.of(msg.Truncate):
            assert each.cleared in clears
        started = {turn.turn for turn in self.of(msg.TurnStarted)}
        over = [each.turn for each in self.of(msg.Commit) + self.of(msg.TurnAbandoned)]
        assert len(over) == len(set(over)), "a turn ended twice"
        assert started <= set(over)
        assert self.result.turn == max([0, *started, *over])

    def check_truth(self, name: str, cursor: msg.ItemCursor) -> None:
        """Against the tapes: what was handed over, and what left the converter."""
        number = self.dead.number(name)
        cards = [card for card, _ in self.dead.tapes]
        if self.dead.card is not None:
            cards.append(self.dead.card)
        sounded = handed = 0.0
        for card in cards:
            per_frame = cursor.rate / card.playout.config.rate
            sounded += _marked(card.heard, number) * per_frame
            handed += _marked(card.tape, number) * per_frame
        slack = 1 + cursor.faded + cursor.rate / 16_000  # in a fade frames have other values
        assert cursor.played <= sounded + slack
        assert cursor.handed <= handed + slack


def _marked(tape: Any, number: int) -> int:
    base = 16_000 + 8 * number
    return int(((tape >= base) & (tape < base + 8)).sum())


@pytest.fixture
def region() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        yield Path(folder) / "playout"


def reply(living: Living, ms: float = 1_000) -> None:
    """Two seconds of a reply, of which ``ms`` are played."""
    living.say("r1", "a", 48_000)
    living.run(ms)


# ---- one death each --------------------------------------------------------------------------


def test_nothing_was_said(region: Path) -> None:
    found = Living(region).after(lambda living: living.run(100))
    assert found.fresh == ()
    assert found.result.session == "s1"


def test_killed_before_the_first_block(region: Path) -> None:
    def story(living: Living) -> None:
        living.say("r1", "a", 48_000)

    found = Living(region).after(story)
    found.check()
    assert found.remains is None
    (final,) = found.finals().values()
    assert (final.state, final.reason) == ("cleared", "restart")
    assert (final.cursor.received, final.cursor.played, final.cursor.exact) == (48_000, 0, True)
    assert found.truncated() == {"a": 0}


def test_killed_in_the_middle_of_an_item(region: Path) -> None:
    found = Living(region).after(reply)
    found.check()
    cursor = found.finals()["a"].cursor
    assert cursor.handed == pytest.approx(24_000, abs=1_500)
    assert cursor.lost_max == (BUFFER + BLOCK) // 2
    assert not cursor.exact
    (cleared,) = found.of(msg.PlayoutCleared)
    assert [cause.kind for cause in cleared.causes] == ["restart"]
    assert cleared.responses == ["r1"]
    assert found.finals()["a"].cleared == cleared.event_id


def test_killed_between_a_clear_and_its_answer(region: Path) -> None:
    """The event is the one that the dead process would have made of the answer."""

    def story(living: Living) -> None:
        reply(living)
        living.press()

    found = Living(region).after(story)
    found.check()
    (cleared,) = found.of(msg.PlayoutCleared, list(found.fresh))
    assert [cause.kind for cause in cleared.causes] == ["gesture", "restart"]
    assert cleared.responses == ["r1"]
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        lives_on = Living(Path(folder) / "playout")
        story(lives_on)
        lives_on.run(100)
    (would_be,) = lives_on.of(msg.PlayoutCleared)
    assert (cleared.event_id, cleared.request) == (would_be.event_id, would_be.request)
    ours = {event.event_id for event in found.of(msg.Truncate) + found.of(msg.PlayoutReceipt)}
    theirs = lives_on.of(msg.Truncate) + lives_on.of(msg.PlayoutReceipt)
    assert ours == {event.event_id for event in theirs}


def test_killed_after_the_answer_and_before_the_journal_had_it(region: Path) -> None:
    def story(living: Living) -> None:
        reply(living)
        living.press()
        living.card.block()  # the callback answers; nobody looks

    found = Living(region).after(story)
    found.check()
    (cleared,) = found.of(msg.PlayoutCleared)
    assert [cause.kind for cause in cleared.causes] == ["gesture"]
    assert cleared.event_id == "s1/clear/1"
    cursor = found.finals()["a"].cursor
    assert cursor.faded == FADE // 2
    assert cursor.lost_max > 0
    assert found.remains is not None and found.remains.snapshot.answered == 1


def test_killed_in_the_middle_of_a_fade(region: Path) -> None:
    """50 ms of fade in blocks of 10 ms: most of it was in the callback's hands."""

    def story(living: Living) -> None:
        reply(living)
        living.press()
        living.card.block()
        living.card.block()

    found = Living(region, fade_ms=50.0).after(story)
    assert found.remains is not None
    fading = found.remains.snapshot.fading
    assert fading == 2_400 - 2 * BLOCK
    cursor = found.finals()["a"].cursor
    assert cursor.lost_max == (BUFFER + BLOCK + fading) // 2
    assert found.truncated() == {"a": cursor.played}


def test_an_answer_without_a_snapshot_bounds_its_whole_fade(region: Path) -> None:
    """The callback dies between its answer and the snapshot of that block."""
    living = Living(region, fade_ms=50.0)
    reply(living)
    living.press()
    before = read_remains(region, BOOT)
    living.card.block()
    after = read_remains(region, BOOT)
    assert before is not None and after is not None
    assert before.snapshot.answered == 0 and len(after.answers) == 1
    result = recover(living.journal, before.snapshot, after.answers, "boot", living.now)
    (final,) = [e for e in result.events if isinstance(e, msg.PlayoutReceipt)]
    assert final.cleared == "s1/clear/1"
    assert final.cursor.lost_max == (BUFFER + BLOCK + 2_400) // 2
    handed_then = before.snapshot.handed // 2
    assert final.cursor.played <= handed_then - BUFFER // 2 + 1


def test_killed_while_the_tail_of_a_cut_item_sounds(region: Path) -> None:
    """Its truncate went out as exact; a lower one follows, and says which it replaces."""

    def story(living: Living) -> None:
        reply(living)
        living.press()
        living.step()

    found = Living(region).after(story)
    found.check()
    first, second = found.of(msg.Truncate)
    assert first.exact and not second.exact
    assert second.supersedes == first.event_id
    assert second.played < first.played
    assert second.event_id == f"{first.event_id}/lost"


def test_after_the_final_receipt_there_is_no_news(region: Path) -> None:
    def story(living: Living) -> None:
        reply(living, 3_000)
        living.say("r2", "b", 48_000)
        living.run(500)
        living.speak()

    found = Living(region).after(story)
    found.check()
    assert {name: final.state for name, final in found.finals().items()} == {
        "a": "played",
        "b": "cleared",
    }
    assert found.fresh == ()
    assert found.result.clear == 1
    assert found.result.turn == 1


def test_an_item_that_had_sounded_whole_was_played(region: Path) -> None:
    """Nobody had looked for half a second: the final receipt was not made yet."""

    def story(living: Living) -> None:
        living.response("r1")
        for name in ("a", "b"):
            living.start_item(name, "r1")
            living.audio(name, 24_000)
            living.end_item(name, 24_000)
        living.run(800)
        living.card.run(24_000)

    found = Living(region).after(story)
    found.check()
    assert found.finals()["a"].state == "played"
    assert found.finals()["b"].state == "cleared"
    assert "a" not in found.truncated()


def test_an_open_turn_is_abandoned(region: Path) -> None:
    def story(living: Living) -> None:
        living.speak()
        living.press()
        living.run(500)

    found = Living(region).after(story)
    found.check()
    (abandoned,) = found.of(msg.TurnAbandoned, list(found.fresh))
    assert (abandoned.turn, abandoned.reason) == (2, "restart")
    assert abandoned.event_id == "s1/turn/2/abandoned"
    assert found.result.turn == 2


def test_two_devices_in_one_journal(region: Path) -> None:
    def story(living: Living) -> None:
        reply(living)
        living.unplug()
        living.run(200)
        living.plug(44_100)
        living.say("r2", "b", 48_000)
        living.run(1_000)

    found = Living(region).after(story)
    found.check()
    assert found.finals()["a"].cursor.lost_max == (BUFFER + BLOCK) // 2
    assert [event.item_id for event in found.of(msg.PlayoutReceipt, list(found.fresh))] == ["b"]
    assert found.finals()["b"].cursor.handed == pytest.approx(24_000, abs=1_500)


def test_what_was_announced_without_a_device_is_there_with_one(region: Path) -> None:
    def story(living: Living) -> None:
        living.say("r1", "a", 48_000)
        living.plug()
        living.run(1_000)

    found = Living(region, device=False).after(story)
    found.check()
    assert found.finals()["a"].cursor.handed == pytest.approx(24_000, abs=1_500)


def test_what_was_announced_and_never_had_a_device(region: Path) -> None:
    found = Living(region, device=False).after(lambda living: living.say("r1", "a", 48_000))
    found.check()
    assert found.finals()["a"].cursor.received == 0


def test_a_queue_that_was_made_after_the_last_record(region: Path) -> None:
    """Killed while another card was being opened."""

    def story(living: Living) -> None:
        reply(living)
        living.unplug()
        queue = Playout(PlayoutConfig(48_000, first_clear=1, boot_id=BOOT), region)
        queue.render(BLOCK, 20 * MS, 10 * MS)

    found = Living(region).after(story)
    assert found.remains is not None and found.remains.snapshot.read == 0
    found.check()
    assert found.fresh == ()


@pytest.mark.parametrize("answered", [False, True])
def test_an_item_of_a_session_that_is_over(region: Path, answered: bool) -> None:
    """Its events are of its own session, as the living process would have said them."""

    def story(living: Living) -> None:
        reply(living)
        living.lose_link()
        living.edge.session = "s2"
        living.connect()
        assert living.headset.session.session == "s2"
        if answered:
            living.card.block()

    found = Living(region).after(story)
    found.check()
    assert {event.session for event in found.of(msg.PlayoutReceipt)} == {"s1"}
    assert {event.session for event in found.of(msg.PlayoutCleared)} == {"s1"}
    assert found.result.session == "s2"


def test_more_clears_than_the_queue_holds_at_once(region: Path) -> None:
    """Answered ones make room in the replay as they did in life."""

    def story(living: Living) -> None:
        for n in range(40):
            living.say(f"r{n}", f"i{n}", 24_000)
            living.run(60)
            living.clear_remotely(f"r{n}")
            living.run(20)
        living.say("last", "z", 48_000)
        living.run(1_000)

    found = Living(region).after(story)
    found.check()
    assert found.result.clear == 40
    assert [event.item_id for event in found.of(msg.PlayoutReceipt, list(found.fresh))][-1] == "z"
    assert found.finals()["z"].cursor.handed == pytest.approx(24_000, abs=1_500)


# ---- every death of a story --------------------------------------------------------------------


def conversation(living: Living) -> None:
    """A reply, an interruption, a reply of two items, an unplug, and one more."""
    living.speak()
    living.say("r1", "a", 24_000, turn=1)
    living.run(300)
    living.press()
    living.run(200)
    living.release()
    living.run(300)
    living.response("r2", 2)
    for name in ("b", "c"):
        living.start_item(name, "r2", 48_000, 2)
        living.audio(name, 9_600)
        living.end_item(name, 9_600)
    living.done("r2")
    living.run(250)
    living.unplug()
    living.say("r3", "d", 24_000)
    living.run(50)
    living.plug()
    living.run(100)
    living.press()
    living.tell(ev.ControlGone("button", living.now, "gone"))
    living.run(100)


def test_killed_at_any_record_of_a_conversation(region: Path) -> None:
    whole = Living(region)
    conversation(whole)
    whole.run(3_000)
    ids = {event.event_id for event in whole.kept}
    whole.kill()
    assert len(whole.journal) > 60
    for dies_at in range(1, len(whole.journal) + 1):
        living = Living.__new__(Living)
        story = _born(living, region, dies_at)
        found = living.after(story)
        found.check()
        for event in found.fresh:
            assert event.event_id in ids or _of_the_crash(event)


def _of_the_crash(event: msg.Durable) -> bool:
    """Only what the crash itself did has a name that life would not have given."""
    if isinstance(event, msg.Truncate):
        return event.supersedes is not None or "/restart/" in event.cleared
    return "/restart/" in event.event_id or isinstance(event, msg.TurnAbandoned)


def _born(living: Living, region: Path, dies_at: int, **options: Any) -> Callable[[Living], None]:
    """Even its first moments may be its last."""
    region.unlink(missing_ok=True)

    def story(_: Living) -> None:
        living.__init__(region, dies_at, **options)  # type: ignore[misc]
        conversation(living)

    return story


STEPS: dict[str, Callable[[Living, random.Random], None]] = {
    "say": lambda living, at: living.say(
        f"r{len(living.handles)}",
        f"i{len(living.handles)}",
        at.choice([0, 480, 4_801, 48_000]),
        at.choice([8_000, 24_000, 48_000]),
        living.headset.turn.number,
    ),
    "begin": lambda living, at: _begin(living, at),
    "run": lambda living, at: living.run(at.choice([10, 30, 100, 400])),
    "callbacks": lambda living, at: _callbacks(living, at.randint(1, 5)),
    "press": lambda living, at: living.press(),
    "release": lambda living, at: living.release(),
    "remote": lambda living, at: living.clear_remotely(f"r{at.randint(0, 5)}"),
    "unplug": lambda living, at: living.unplug() if living.card else living.plug(at.choice(RATES)),
    "session": lambda living, at: _new_session(living),
}
RATES = [48_000, 44_100, 16_000]


def _begin(living: Living, at: random.Random) -> None:
    """An item without an end."""
    name = f"i{len(living.handles)}"
    living.response(f"r{len(living.handles)}", living.headset.turn.number)
    living.start_item(name, f"r{len(living.handles)}")
    living.audio(name, at.choice([480, 9_600]))


def _callbacks(living: Living, n: int) -> None:
    if living.card is not None:
        for _ in range(n):
            living.card.block()


def _new_session(living: Living) -> None:
    if living.links and living.exited is None:
        living.lose_link()
        living.edge.session = f"s{int(living.edge.session[1:]) + 1}"
        living.connect()


@settings(
    max_examples=count(60, 600, 6_000), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
@given(
    steps=st.lists(st.sampled_from(sorted(STEPS)), min_size=3, max_size=25),
    seed=st.integers(0, 1_000),
    part=st.floats(0, 1),
)
def test_killed_anywhere_in_any_story(steps: list[str], seed: int, part: float) -> None:
    def story(living: Living) -> None:
        at = random.Random(seed)
        for name in steps:
            STEPS[name](living, at)

    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        whole = Living(Path(folder) / "first")
        try:
            story(whole)
        finally:
            whole.kill()
        dies_at = 3 + round(part * len(whole.journal))
        Living(Path(folder) / "second", dies_at).after(story).check()
