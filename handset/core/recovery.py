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
from handset.core.item import Item
from handset.core.ledger import Cut, Ledger
from handset.core.messages import Cause, Durable, PlayoutCleared, TurnAbandoned
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
class _Replay:
    ledger: Ledger | None = None
    timing: DeviceTiming | None = None
    session: str = ""
    turn: int = 0
    open_turn: int | None = None
    clear: int = 0
    responses: dict[int, list[str]] = field(default_factory=dict)
    cuts: list[Cut] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    finals: list[str] = field(default_factory=list)


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
    if replay.ledger is not None:
        _settle(replay, snapshot, list(answers))
        for item_id in replay.finals:
            replay.ledger.forget(item_id)
        found.items = list(replay.ledger.items.values())
        found.events += _playout(replay, replay.ledger, snapshot, context, now_ns)
    if replay.open_turn is not None:
        envelope = context.envelope(
            f"turn/{replay.open_turn}/abandoned", now_ns, "turn", turn=replay.open_turn
        )
        found.events.append(TurnAbandoned(**envelope, reason="restart"))
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


def _apply(replay: _Replay, record: Record) -> None:
    kind = record["k"]
    if kind == "device":
        replay.timing = DeviceTiming(
            record["rate"], record["period"], record["buffer"], record["block"]
        )
        replay.ledger = Ledger(
            replay.timing,
            record["written"] - record["handed"] - record["dropped"],
            record["clear"],
            handed=record["handed"],
            dropped=record["dropped"],
        )
        replay.clear = max(replay.clear, record["clear"])
    elif kind == "session":
        replay.session = record["session"]
    elif kind == "turn":
        replay.turn = max(replay.turn, record["turn"])
        replay.open_turn = record["turn"]
    elif kind == "turn_over":
        replay.open_turn = None if replay.open_turn == record["turn"] else replay.open_turn
    elif replay.ledger is not None:
        _apply_lane(replay, replay.ledger, kind, record)


def _apply_lane(replay: _Replay, ledger: Ledger, kind: str, record: Record) -> None:
    if kind == "announce":
        ledger.announce(
            record["item"], record["response"], record["content"], record["turn"], record["rate"]
        )
    elif kind == "append":
        if ledger.open_for(record["item"]):
            ledger.append(record["item"], record["frames"], record["samples"])
    elif kind == "end":
        ledger.end(record["item"], record["samples"])
    elif kind == "clear":
        cause = Cause(record["cause"], record["at"])
        request = ledger.clear(cause, record["only"] or None)
        replay.responses.setdefault(request, []).extend(record["responses"])
        replay.clear = max(replay.clear, request)
    elif kind == "answer":
        replay.answers.append(_answer(record))
    elif kind == "final":
        replay.finals.append(record["item"])


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


def _settle(replay: _Replay, snapshot: Snapshot | None, left: list[Answer]) -> None:
    """Brings the ledger to where the callback was."""
    ledger = replay.ledger
    assert ledger is not None
    by_request = {answer.request: answer for answer in (*left, *replay.answers)}
    ordered = [by_request[request] for request in sorted(by_request)]
    if snapshot is None:
        for answer in ordered:
            _note(replay, ledger.replay_answer(answer))
        return
    seen = [answer for answer in ordered if answer.request <= snapshot.answered]
    replay.cuts += ledger.update(snapshot, seen, ())
    # The callback was killed after its cut and before the block's snapshot.
    for answer in ordered[len(seen) :]:
        _note(replay, ledger.replay_answer(answer))


def _note(replay: _Replay, cut: Cut | None) -> None:
    if cut is not None:
        replay.cuts.append(cut)


def _playout(
    replay: _Replay,
    ledger: Ledger,
    snapshot: Snapshot | None,
    context: Context,
    now_ns: int,
) -> list[Durable]:
    timing = ledger.timing
    fading = snapshot.fading if snapshot is not None else 0
    cut_before = {item.item_id for cut in replay.cuts for item in cut.items}
    untouched = [item for item in ledger.live() if item.item_id not in cut_before]
    responses = list(dict.fromkeys(item.response_id for item in untouched))
    closed = ledger.lose(timing.buffer + max(timing.block, timing.period) + fading, REASON)
    events: list[Durable] = []
    for cut in replay.cuts:
        stopped = [name for number in cut.requests for name in replay.responses.get(number, [])]
        events += receipts.cleared(context, cut, stopped, now_ns)
    rest = [item for item in closed if item.item_id not in cut_before]
    if rest:
        events += _restart(context, rest, responses, now_ns)
    again = [item for item in closed if item.item_id in cut_before and item.lost]
    events += [
        receipts.truncate(
            context, item, receipts.cleared_id(context, item.stopped_by or 0), now_ns, again=True
        )
        for item in again
        if receipts.needs_truncate(item)
    ]
    return events + [receipts.final(context, item, now_ns) for item in closed]


def _restart(
    context: Context, items: list[Item], responses: list[str], now_ns: int
) -> list[Durable]:
    """The crash itself stopped these: one transaction, as for a clear."""
    names = "+".join(item.item_id for item in items)
    event = PlayoutCleared(
        **context.envelope(f"clear/restart/{names}"[:200], now_ns, "playout"),
        request=0,
        causes=[Cause("restart", now_ns)],
        responses=responses,
        items=[item.cursor() for item in items],
        cut_ns=now_ns,
    )
    hit = [item for item in items if receipts.needs_truncate(item)]
    return [event, *(receipts.truncate(context, item, event.event_id, now_ns) for item in hit)]
