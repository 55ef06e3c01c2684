"""What a process that was killed had played, and what it still owed the edge.

The journal holds everything the ledger of that process was told, so the same ledger is
made again from it. The counters in the mapped region say how far the callback got. A
killed process closes the card, and what was in the card's buffer never sounded: the
hand-over counts stay exact, and ``lost_max`` bounds the rest.

The result is made of the same events, with the same ids, that the dead process would
have made: whatever was stored or sent already is found to be a duplicate.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from handset.core import receipts
from handset.core.facts import Anchor, Answer, Snapshot
from handset.core.item import Item, ItemState
from handset.core.ledger import Cut, Ledger, LedgerFault
from handset.core.messages import (
    Cause,
    Commit,
    Durable,
    PlayoutCleared,
    PlayoutReceipt,
    TurnAbandoned,
    TypedTurn,
)
from handset.core.playback import NO_DEVICE
from handset.core.receipts import Context
from handset.core.segments import DeviceTiming

Record = dict[str, Any]
REASON = "restart"


@dataclass(slots=True)
class Recovered:
    """``events``: to be added to the outbox, in order; those it knows are no news."""

    events: list[Durable] = field(default_factory=list)
    session: str = ""
    turn: int = 0
    """Newest turn that was started."""
    clear: int = 0
    """Newest clear that was asked for."""
    items: list[Item] = field(default_factory=list)


@dataclass(slots=True)
class _Asked:
    """One clear: in which session, why, and the responses that it stopped."""

    session: str
    cause: Cause
    responses: list[str]


@dataclass(slots=True)
class _Replay:
    ledger: Ledger = field(default_factory=lambda: Ledger(NO_DEVICE))
    has_queue: bool = False
    session: str = ""
    turn: int = 0
    open_turn: int | None = None
    typed: dict[int, str] = field(default_factory=dict)
    """Typed turns whose event was not made yet."""
    clear: int = 0
    asked: dict[int, list[_Asked]] = field(default_factory=dict)
    """By number: one each, but for those that coalesced."""
    cuts: list[Cut] = field(default_factory=list)


def recover(
    records: Iterable[Record],
    snapshot: Snapshot | None,
    answers: Iterable[Answer],
    boot_id: str,
    now_ns: int,
) -> Recovered:
    """``records`` from the journal, ``snapshot`` and ``answers`` from the mapped region
    (None and empty when there is none of this boot)."""
    replay = _Replay()
    for record in records:
        _apply(replay, record)
    found = Recovered(session=replay.session, turn=replay.turn, clear=replay.clear)
    context = Context(replay.session, None, boot_id)
    fading = _settle(replay, snapshot, answers) if replay.has_queue else 0
    found.items = list(replay.ledger.items.values())
    found.events += _playout(replay, fading, context, now_ns)
    if replay.open_turn is not None:
        envelope = context.envelope(
            f"turn/{replay.open_turn}/abandoned", now_ns, "turn", turn=replay.open_turn
        )
        found.events.append(TurnAbandoned(**envelope, reason="restart"))
    for turn, text in replay.typed.items():
        found.events.append(receipts.typed_turn(context, turn, text, now_ns, known=False))
    return found


def device_record(ledger: Ledger) -> Record:
    """The record that opens the journal of a device, at a moment when no item is alive;
    the replay begins at the last one."""
    timing = ledger.timing
    return {
        "k": "device",
        "rate": timing.rate,
        "period": timing.period,
        "buffer": timing.buffer,
        "block": timing.block,
        "written": ledger.written,
        "handed": ledger.handed,
        "dropped": ledger.dropped,
        "clear": ledger.generation,
    }


def append_record(item_id: str, frames: int, samples: int) -> Record:
    """A range, journalled before its frames are published."""
    return {"k": "append", "item": item_id, "frames": frames, "samples": samples}


def event_record(event: Durable, text: str) -> Record:
    """A durable event, as ``text``. What it ends is in the same record: a turn or an item
    whose end was said ends no second time, and one whose end was not said does."""
    record: Record = {"k": "event", "event": text}
    if isinstance(event, Commit | TypedTurn | TurnAbandoned):
        record["ends_turn"] = event.turn
    elif isinstance(event, PlayoutReceipt) and event.state != "queued":
        record["ends_item"] = event.item_id
    return record


def parked_record(event: Durable, text: str) -> Record:
    """An event that waits for its session."""
    return {**event_record(event, text), "k": "parked"}


def _apply(replay: _Replay, record: Record) -> None:
    kind = record["k"]
    if kind == "device":
        _new_device(replay, record)
    elif kind == "session":
        replay.session = record["session"]
    elif kind == "turn":
        replay.turn = max(replay.turn, record["turn"])
        replay.open_turn = record["turn"]
    elif kind == "typed":
        replay.turn = max(replay.turn, record["turn"])
        replay.typed[record["turn"]] = record["text"]
    elif kind == "unparked":
        pass
    elif kind in ("event", "parked"):
        replay.typed.pop(record.get("ends_turn", 0), None)
        replay.ledger.forget(record.get("ends_item", ""))
        if replay.open_turn == record.get("ends_turn"):
            replay.open_turn = None
    else:
        _apply_lane(replay, replay.ledger, kind, record)


def _new_device(replay: _Replay, record: Record) -> None:
    """What had frames in the queue of the one before was settled when that was lost; what
    only was announced waits for this one."""
    timing = DeviceTiming(record["rate"], record["period"], record["buffer"], record["block"])
    before, replay.ledger = (
        replay.ledger,
        Ledger(
            timing,
            record["written"] - record["handed"] - record["dropped"],
            record["clear"],
            handed=record["handed"],
            dropped=record["dropped"],
        ),
    )
    for item in list(before.items.values()):
        if item.frames or item.stopped_by is not None:
            before.forget(item.item_id)
    replay.ledger.inherit(before)
    replay.cuts.clear()
    replay.has_queue = True
    replay.clear = max(replay.clear, record["clear"])


def _apply_lane(replay: _Replay, ledger: Ledger, kind: str, record: Record) -> None:
    if kind == "announce":
        if record["item"] not in ledger.items:  # said again for a new device
            item = ledger.announce(
                record["item"],
                record["response"],
                record["content"],
                record["turn"],
                record["rate"],
            )
            item.session = record["session"]
    elif kind == "append":
        if ledger.open_for(record["item"]):
            ledger.append(record["item"], record["frames"], record["samples"])
    elif kind == "end":
        ledger.end(record["item"], record["samples"])
    elif kind == "clear":
        cause = Cause(record["cause"], record["at"])
        request = ledger.clear(cause, record["only"] or None)
        asked = _Asked(replay.session, cause, record["responses"])
        replay.asked.setdefault(request, []).append(asked)
        replay.clear = max(replay.clear, request)
    elif kind == "hole":
        if record["item"] in ledger.items:
            ledger.items[record["item"]].make_hole(record["from"], record["until"])
    elif kind == "answer":
        _note(replay, ledger.replay_answer(_answer(record)))


def _answer(record: Record) -> Answer:
    anchor = Anchor(
        record["frame"], record["ns"], record["since"], record["since_ns"], record["blocks"]
    )
    return Answer(
        request=record["request"],
        fence=record["fence"],
        cursor=record["cursor"],
        faded=record["faded"],
        discarded=record["discarded"],
        handed=record["handed"],
        device_frame=record["device_frame"],
        dac_ns=record["dac_ns"],
        now_ns=record["now_ns"],
        flags=record["flags"],
        anchor=anchor,
    )


def _settle(replay: _Replay, snapshot: Snapshot | None, answers: Iterable[Answer]) -> int:
    """Brings the ledger to where the callback was. Returns how many frames of a fade are
    counted as handed that the callback still held."""
    ledger = replay.ledger
    if snapshot is None:
        return 0
    late = sorted(
        (answer for answer in answers if answer.request > ledger.answered),
        key=lambda answer: answer.request,
    )
    seen = [answer for answer in late if answer.request <= snapshot.answered]
    try:
        replay.cuts += ledger.update(snapshot, seen, ())
    except LedgerFault:
        # A queue that was made after the last record, for another device: all that the
        # one before it had was settled. Were it anything else, nothing is known to have
        # sounded.
        for item in ledger.items.values():
            item.make_hole(0, item.frames)
        return 0
    fading = snapshot.fading
    # The callback was killed after its cut and before the block's snapshot.
    for answer in late[len(seen) :]:
        _note(replay, ledger.replay_answer(answer))
        fading += answer.faded
    return fading


def _note(replay: _Replay, cut: Cut | None) -> None:
    if cut is not None:
        replay.cuts.append(cut)


def _playout(replay: _Replay, fading: int, context: Context, now_ns: int) -> list[Durable]:
    ledger, timing = replay.ledger, replay.ledger.timing
    cut_before = {item.item_id for cut in replay.cuts for item in cut.items}
    whole = [item for item in ledger.items.values() if item.complete]
    untouched = [item.response_id for item in ledger.live()]
    unanswered = {n: asked for n, asked in replay.asked.items() if n > ledger.answered}
    closed = ledger.lose(timing.buffer + max(timing.block, timing.period) + fading, REASON)
    for item in whole:
        if item.whole:  # more than the buffer holds was handed after it
            item.state, item.reason = ItemState.PLAYED, None
    events: list[Durable] = []
    for cut in replay.cuts:
        asked = [
            (each.session, each.responses)
            for number in dict.fromkeys(cut.requests)
            for each in replay.asked.get(number, [])
        ]
        for told in receipts.by_session(context, cut, asked, now_ns):
            events += told
    rest = [
        item
        for item in closed
        if item.item_id not in cut_before and item.state is not ItemState.PLAYED
    ]
    finals = [item for item in closed if item not in rest]
    for item in finals:
        if item.lost and item.item_id in cut_before:
            cleared = receipts.cleared_id(context.of(item.session), item.stopped_by or 0)
            events.append(receipts.truncate(context, item, cleared, now_ns, again=True))
    events += [receipts.final(context, item, now_ns) for item in finals]
    if rest or unanswered:
        events += _restart(context, rest, untouched, unanswered, now_ns)
    return events


def _restart(
    context: Context,
    items: list[Item],
    responses: list[str],
    unanswered: dict[int, list[_Asked]],
    now_ns: int,
) -> list[Durable]:
    """The crash itself stopped these: one transaction, as for a clear. It answers clears
    that had been asked for as well, under the number of the last one."""
    request = max(unanswered, default=0)
    what = f"restart/{'+'.join(item.item_id for item in items)}"[:192]
    if request:
        what, context = str(request), context.of(unanswered[request][-1].session)
    asked = [each for number in unanswered for each in unanswered[number]]
    named = [name for each in asked for name in each.responses]
    causes = [each.cause for each in asked]
    event = PlayoutCleared(
        **context.envelope(f"clear/{what}", now_ns, "playout"),
        request=request,
        causes=[*causes, Cause("restart", now_ns)],
        responses=list(dict.fromkeys([*named, *responses])),
        items=[item.cursor() for item in items],
        cut_ns=now_ns,
    )
    hit = [item for item in items if receipts.needs_truncate(item)]
    return [
        event,
        *(receipts.truncate(context, item, event.event_id, now_ns) for item in hit),
        *(receipts.final(context, item, now_ns, event.event_id) for item in items),
    ]
