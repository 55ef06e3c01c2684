"""What must hold after any run. Each is a function of a rig that raises on a breach, so
that a planted fault can show that it would."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np
from headset_rig import CYCLE, LOUD, Rig

from handset.audio.playout import fade_gain
from handset.core import messages as msg
from handset.core.facts import Answer
from handset.fakes.card import FakeCard


def cursors(rig: Rig) -> dict[str, msg.ItemCursor]:
    """The newest word on every item: its final receipt, or the ledger."""
    ledger = rig.headset.playback.ledger
    known = {item.item_id: item.cursor() for item in ledger.items.values()}
    known.update({name: receipt.cursor for name, receipt in rig.finals().items()})
    return known


def identity(rig: Rig) -> None:
    """received = handed + dropped + queued, and none of them is negative."""
    said = [receipt.cursor for receipt in rig.of(msg.PlayoutReceipt)]
    said += [cursor for event in rig.of(msg.PlayoutCleared) for cursor in event.items]
    for cursor in [*said, *cursors(rig).values()]:
        assert cursor.received == cursor.handed + cursor.dropped + cursor.queued, cursor
        assert min(cursor.handed, cursor.dropped, cursor.queued, cursor.lost_max) >= 0, cursor
        assert cursor.played == cursor.handed - cursor.lost_max, cursor
        assert cursor.exact == (cursor.lost_max == 0), cursor
        assert cursor.audio_end_ms * cursor.rate <= cursor.played * 1000, cursor


def one_final_receipt(rig: Rig) -> None:
    """Exactly one for every item that was announced and is not alive."""
    finals = Counter(e.item_id for e in rig.of(msg.PlayoutReceipt) if e.state != "queued")
    assert all(n == 1 for n in finals.values()), finals
    alive = set(rig.headset.playback.ledger.items)
    announced = set(rig.headset.playback.ledger.closed) | alive
    assert announced - alive == set(finals), (announced, alive, finals)


def _on_tape(card: FakeCard, answers: list[Answer], upto: int | None = None) -> Counter[int]:
    """Frames by item number, from the card's own record (below device frame ``upto``). What
    a clear faded is checked against the curve of the fade, and counted."""
    tape = card.tape
    plain = tape[:upto].copy()
    found: Counter[int] = Counter()
    for answer in answers:
        start = int(answer.device_frame)
        if answer.faded == 0 or (upto is not None and start >= upto):
            continue
        number, index = divmod(int(tape[start - 1]) - LOUD, CYCLE)
        n = min(answer.faded, len(tape) - start)
        codes = LOUD + number * CYCLE + (index + 1 + np.arange(n)) % CYCLE
        gains = np.array([fade_gain(i, card.playout.fade) for i in range(n)])
        expected = (codes * 32768 * gains) >> 30
        assert np.array_equal(tape[start : start + n], expected), "a fade is not its curve"
        plain[start : start + n] = 0
        found[number] += answer.faded if upto is None else min(answer.faded, upto - start)
    assert not np.any((plain != 0) & (plain < LOUD)), "something sounds that no item is"
    numbers = (plain[plain >= LOUD] - LOUD) // CYCLE
    found.update(Counter(numbers.tolist()))
    return found


def history_bound(rig: Rig) -> None:
    """The ledger's sums, item by item, are what the cards' own records hold."""
    found: Counter[int] = Counter()
    cards = list(rig.tapes)
    if rig.card is not None:
        cards.append((rig.card, rig.answers))
    for card, answers in cards:
        found += _on_tape(card, answers)
    ledger = rig.headset.playback.ledger
    for item in [*ledger.items.values(), *ledger.closed.values()]:
        number = rig.number(item.item_id)
        receipt = rig.finals().get(item.item_id)
        if receipt is not None and receipt.state != "played":
            assert receipt.cursor.handed == item.samples(item.handed), item.item_id
        assert found.pop(number, 0) == item.handed, item.item_id
    assert not found, f"items on the tape that the ledger does not know: {found}"


def played_is_a_lower_bound(rig: Rig) -> None:
    """What is said to be played has left a converter, on the card's own word; exactly that
    much when it is said to be exact."""
    heard: Counter[int] = Counter()
    cards = list(rig.tapes)
    if rig.card is not None:
        cards.append((rig.card, rig.answers))
    for card, answers in cards:
        heard += _on_tape(card, answers, card.left(card.now_ns))
    ledger = rig.headset.playback.ledger
    for name, receipt in rig.finals().items():
        item = ledger.closed.get(name)
        if item is None:
            continue
        sounded = item.samples(heard[rig.number(name)])
        cursor = receipt.cursor
        assert cursor.played <= sounded, (name, cursor.played, sounded)
        if cursor.exact:
            assert sounded <= cursor.handed, (name, cursor, sounded)


def every_clear_is_answered(rig: Rig) -> None:
    """By number; one answer may cover several."""
    ledger = rig.headset.playback.ledger
    assert ledger.answered == ledger.generation, "a clear waits for its answer"
    asked = set(rig.clears)
    told = [event for event in rig.of(msg.PlayoutCleared) if not event.repeats and event.request]
    answered = {event.request for event in told}
    assert len({(event.session, event.request) for event in told}) == len(told), told
    assert answered <= asked
    assert not asked or max(answered) == max(asked), (asked, answered)
    ids = {event.event_id for event in rig.of(msg.PlayoutCleared)}
    assert {event.cleared for event in rig.of(msg.Truncate)} <= ids
    assert {event.cleared for event in rig.finals().values() if event.cleared} <= ids


def events_are_numbered(rig: Rig) -> None:
    """seq has no holes, no event id comes twice."""
    ids = [event.event_id for event in rig.kept]
    assert len(ids) == len(set(ids)), [name for name, n in Counter(ids).items() if n > 1]
    assert [event.seq for event in rig.kept] == list(range(1, len(rig.kept) + 1))


def events_reach_the_edge(rig: Rig) -> None:
    """All that was kept, when there is a link and the edge acknowledges."""
    arrived = {event.event_id for event in rig.sent_to_edge(msg.Durable)}
    assert {event.event_id for event in rig.kept} <= arrived
    assert len(rig.headset.outbox) == 0


def turns_rise(rig: Rig) -> None:
    numbers = [event.turn for event in rig.of(msg.TurnStarted)]
    assert numbers == sorted(set(numbers)), numbers
    ends = Counter(event.turn for event in [*rig.of(msg.Commit), *rig.of(msg.TurnAbandoned)])
    assert all(n == 1 for n in ends.values()), ends
    assert set(ends) <= set(numbers)


def truncates_are_needed(rig: Rig) -> None:
    """None for an item that was played to its end, none without audio, none above what
    was received; and one for every other item that was stopped."""
    truncated = {event.item_id: event for event in rig.of(msg.Truncate)}
    for name, receipt in rig.finals().items():
        cursor = receipt.cursor
        if receipt.state == "played" or cursor.received == 0:
            assert name not in truncated, name
        if receipt.state == "cleared" and cursor.dropped:
            assert name in truncated, name
        if name in truncated:
            assert truncated[name].audio_end_ms == cursor.audio_end_ms, name


def commits_follow_releases(rig: Rig) -> None:
    for commit in rig.of(msg.Commit):
        assert commit.capture.end > commit.capture.start
        assert isinstance(commit.commit.evidence["held_ms"], int)


ALWAYS: tuple[Callable[[Rig], None], ...] = (
    identity,
    one_final_receipt,
    history_bound,
    played_is_a_lower_bound,
    events_are_numbered,
    turns_rise,
    truncates_are_needed,
    commits_follow_releases,
)
AT_REST: tuple[Callable[[Rig], None], ...] = (
    *ALWAYS,
    every_clear_is_answered,
    events_reach_the_edge,
)


def check(rig: Rig) -> None:
    for invariant in ALWAYS:
        invariant(rig)


def check_at_rest(rig: Rig) -> None:
    """When everything has sounded and the edge has acknowledged."""
    for invariant in AT_REST:
        invariant(rig)
