"""From what the ledger found to durable events.

One answered clear makes one transaction: ``playout.cleared``, which is the authority,
with a truncate for every item of which something was received and not all was played,
and the final receipts of those that had nothing in the device. The final receipt of an
item whose tail is still sounding follows once it has sounded, so that it can be believed.

An item that was played to its end is never truncated. A truncate is never above what was
played and never rounded up.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TypedDict

from handset.core.item import Item, ItemState
from handset.core.ledger import Cut
from handset.core.messages import (
    Cause,
    CommitBy,
    Domain,
    InputText,
    Instant,
    PlayoutCleared,
    PlayoutReceipt,
    ReceiptState,
    Truncate,
    TypedTurn,
    UserMessage,
)


class Envelope(TypedDict):
    event_id: str
    session: str
    origin_epoch: int | None
    at: Instant
    domain: Domain
    turn: int | None
    response_id: str | None
    item_id: str | None


@dataclass(frozen=True, slots=True)
class Context:
    """Which session and epoch an event is of."""

    session: str
    origin_epoch: int | None
    boot_id: str

    def of(self, session: str) -> Context:
        """For what began in ``session``, which may not be the present one."""
        return replace(self, session=session) if session else self

    def envelope(
        self,
        what: str,
        at_ns: int,
        domain: Domain,
        *,
        turn: int | None = None,
        response_id: str | None = None,
        item_id: str | None = None,
    ) -> Envelope:
        """``what`` names the fact within the session: equal facts, equal event ids."""
        return {
            "event_id": f"{self.session}/{what}",
            "session": self.session,
            "origin_epoch": self.origin_epoch,
            "at": Instant(at_ns, self.boot_id),
            "domain": domain,
            "turn": turn,
            "response_id": response_id,
            "item_id": item_id,
        }


def cleared_id(context: Context, request: int) -> str:
    return f"{context.session}/clear/{request}"


def truncate(
    context: Context, item: Item, cleared: str, at_ns: int, again: bool = False
) -> Truncate:
    """``again``: a lower one, because the device was lost with some of it."""
    context = context.of(item.session)
    cursor = item.cursor()
    name = f"item/{item.item_id}/truncate"
    return Truncate(
        **context.envelope(
            f"{name}/lost" if again else name,
            at_ns,
            "playout",
            turn=item.turn,
            response_id=item.response_id,
            item_id=item.item_id,
        ),
        content_index=item.content_index,
        audio_end_ms=cursor.audio_end_ms,
        played=cursor.played,
        exact=cursor.exact,
        cleared=cleared,
        supersedes=f"{context.session}/{name}" if again else None,
    )


def needs_truncate(item: Item) -> bool:
    return item.received > 0 and item.state is not ItemState.PLAYED


def cleared(
    context: Context,
    cut: Cut,
    responses: list[str],
    at_ns: int,
    lost: Iterable[Item] = (),
) -> tuple[PlayoutCleared, *tuple[Truncate, ...]]:
    """The transaction of one answered clear. ``lost``: items that it did not hit, and that
    the device took with it."""
    event = PlayoutCleared(
        **context.envelope(f"clear/{cut.answer.request}", at_ns, "playout"),
        request=cut.answer.request,
        causes=list(cut.causes),
        responses=responses,
        items=[item.cursor() for item in (*cut.items, *lost)],
        cut_ns=cut.answer.dac_ns,
    )
    hit = [item for item in cut.items if needs_truncate(item)]
    return (event, *(truncate(context, item, event.event_id, at_ns) for item in hit))


def by_session(
    context: Context,
    cut: Cut,
    asked: list[tuple[str, list[str]]],
    at_ns: int,
    lost: Iterable[Item] = (),
) -> list[tuple[PlayoutCleared, *tuple[Truncate, ...]]]:
    """One transaction for each session that the answer is for: one, unless a new session
    began before it. ``asked``: of every clear in ``cut.requests`` the session in which it
    was asked for, and the responses that it stopped."""
    gone = list(lost)
    sessions = [session for session, _ in asked]
    sessions += [item.session for item in (*cut.items, *gone)]
    told = []
    for session in dict.fromkeys(sessions):
        mine = [n for n, (where, _) in enumerate(asked) if where == session]
        part = replace(
            cut,
            causes=tuple(cut.causes[n] for n in mine) or cut.causes,
            items=tuple(item for item in cut.items if item.session == session),
        )
        responses = [name for n in mine for name in asked[n][1]]
        of_it = [item for item in gone if item.session == session]
        told.append(cleared(context.of(session), part, responses, at_ns, of_it))
    return told


def withdrawn(
    context: Context, response_id: str, items: list[Item], cause: Cause, at_ns: int
) -> PlayoutCleared:
    """A response was stopped before any of its audio was queued: nothing was cut."""
    envelope = context.envelope(f"clear/{response_id}", at_ns, "playout", response_id=response_id)
    return PlayoutCleared(
        **envelope,
        request=0,
        causes=[cause],
        responses=[response_id],
        items=[item.cursor() for item in items],
        cut_ns=at_ns,
    )


def restarted(context: Context, item: Item, at_ns: int) -> tuple[PlayoutCleared, Truncate]:
    """An item was handed whole, but the device restarted with a part of it in its buffer."""
    envelope = context.envelope(
        f"clear/restarted/{item.item_id}", at_ns, "playout", response_id=item.response_id
    )
    event = PlayoutCleared(
        **envelope,
        request=0,
        causes=[Cause("device_restarted", at_ns)],
        responses=[],
        items=[item.cursor()],
        cut_ns=at_ns,
    )
    return event, truncate(context, item, event.event_id, at_ns)


def repeated(context: Context, event: PlayoutCleared, at_ns: int) -> PlayoutCleared:
    """The answer to a clear of a response that was dead already."""
    name = event.event_id.removeprefix(f"{event.session}/")
    envelope = context.of(event.session).envelope(f"{name}/again", at_ns, "playout")
    return PlayoutCleared(
        **envelope,
        request=event.request,
        causes=event.causes,
        responses=event.responses,
        items=event.items,
        cut_ns=event.cut_ns,
        repeats=event.event_id,
    )


def queued(context: Context, item: Item, at_ns: int) -> PlayoutReceipt:
    return _receipt(context, item, "queued", at_ns, "queued")


def final(context: Context, item: Item, at_ns: int, cleared: str | None = None) -> PlayoutReceipt:
    """``cleared``: what stopped it, when that was no clear of the queue."""
    states: dict[ItemState, ReceiptState] = {
        ItemState.PLAYED: "played",
        ItemState.CLEARED: "cleared",
        ItemState.UNFINISHED: "unfinished",
    }
    return _receipt(context, item, states[item.state], at_ns, "final", cleared)


def _receipt(
    context: Context,
    item: Item,
    state: ReceiptState,
    at_ns: int,
    name: str,
    cleared: str | None = None,
) -> PlayoutReceipt:
    context = context.of(item.session)
    if cleared is None and item.stopped_by is not None and name == "final":
        cleared = cleared_id(context, item.stopped_by)
    return PlayoutReceipt(
        **context.envelope(
            f"item/{item.item_id}/{name}",
            at_ns,
            "playout",
            turn=item.turn,
            response_id=item.response_id,
            item_id=item.item_id,
        ),
        state=state,
        cursor=item.cursor(),
        cleared=cleared,
        reason=item.reason,
    )


def typed_turn(context: Context, turn: int, text: str, at_ns: int, known: bool) -> TypedTurn:
    """``known``: the cursor of the clear that it asked for went out before."""
    return TypedTurn(
        **context.envelope(f"turn/{turn}/commit", at_ns, "turn", turn=turn),
        item=UserMessage(f"typed_{turn}", [InputText(text)]),
        commit=CommitBy("typed", {"characters": len(text)}),
        cursor="known" if known else "pending",
    )
