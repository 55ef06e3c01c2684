"""What an edge keeps of one session: its turns, responses, items and history."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from handset.core.messages import (
    Commit,
    CommitBy,
    Durable,
    Hello,
    ItemCursor,
    PlayoutReceipt,
    Policy,
    Span,
    TurnHeld,
    WearerConsent,
)

from .alerts import Alerts, is_replay, original
from .history import AssistantItem, History
from .lives import TURN, Response, Turn, TurnEvent
from .outboxes import Refusal

ASK_AFTER_NS = 120_000_000
"""Packets that were sent before the commit are late by less than this, mostly."""
ASK_AGAIN_NS = 1_000_000_000


@dataclass(slots=True)
class TurnRecord:
    """``capture``: the committed range; ``missing``: what of it had not come when last looked."""

    number: int
    state: Turn = Turn.UNKNOWN
    capture: Span | None = None
    commit: Commit | None = None
    by: CommitBy | None = None
    typed: str = ""
    missing: list[Span] = field(default_factory=list)
    asked: int = 0
    ask_at_ns: int = 0

    def step(self, event: TurnEvent) -> bool:
        """False, and nothing changed, when the event has no place here."""
        following = TURN.get((self.state, event))
        if following is None:
            return False
        self.state = following
        return True

    def due(self, missing: list[Span], now_ns: int) -> bool:
        """Whether to ask for what is missing now. Not while it is coming in."""
        coming = missing != self.missing and self.asked > 0
        self.missing = missing
        if not coming and now_ns < self.ask_at_ns:
            return False
        self.ask_at_ns = now_ns + ASK_AGAIN_NS
        self.asked += not coming
        return not coming


@dataclass(slots=True)
class ResponseRecord:
    response_id: str
    turn: int
    nth: int | None
    entire: bool = False
    """Worth nothing in part: an alert, or a disclosure."""
    state: Response = Response.LIVE


@dataclass(frozen=True, slots=True)
class Arrival:
    """One durable event as it came, for the report. ``at_ns``: the edge's clock."""

    at_ns: int
    connection: int
    event: Durable
    outcome: str
    refusal: Refusal | None


@dataclass(slots=True)
class Session:
    """``order``: admitted turns, in the order of their admission."""

    session_id: str
    token: str = ""
    epoch: int = 0
    ended: str | None = None
    hellos: list[Hello] = field(default_factory=list)
    turns: dict[int, TurnRecord] = field(default_factory=dict)
    order: list[int] = field(default_factory=list)
    responses: dict[str, ResponseRecord] = field(default_factory=dict)
    history: History = field(default_factory=History)
    cursors: dict[str, ItemCursor] = field(default_factory=dict)
    """The newest cursor of each item, from whatever event."""
    receipts: dict[str, PlayoutReceipt] = field(default_factory=dict)
    """The final receipt of each item."""
    clears: list[str] = field(default_factory=list)
    """Ids of the clears that were applied, in that order."""
    consents: list[WearerConsent] = field(default_factory=list)
    alerts: Alerts = field(default_factory=Alerts)
    takes: dict[str, AssistantItem] = field(default_factory=dict)
    """Items of alerts, each time one was played again; outside the conversation."""
    require_manual: bool = False
    manual_next: bool = False
    """The same, for the next turn that is committed."""
    require_consent: bool = False
    policies: list[Policy] = field(default_factory=list)
    held: list[TurnHeld] = field(default_factory=list)

    @property
    def highest_admitted(self) -> int:
        return max(self.order, default=0)

    @property
    def wants_manual(self) -> bool:
        """Silence commits nothing now."""
        return self.require_manual or self.manual_next

    @property
    def may_capture(self) -> bool:
        """Who wears the headset agreed to it, where that is asked for. The newest word counts:
        consent is one wearer's, and no other's."""
        agreed = bool(self.consents) and self.consents[-1].capture
        return agreed or not self.require_consent

    def take(self, name: str) -> AssistantItem | None:
        """An item of an alert that the handset played again, under a name of its own."""
        if name in self.takes:
            return self.takes[name]
        item = self.history.find(original(name))
        if item is None or not is_replay(name) or not item.ended:
            return None
        if not self.responses[item.response_id].entire:
            return None
        again = replace(
            item,
            item_id=name,
            cursor=None,
            exact=True,
            played_to_end=False,
        )
        return self.takes.setdefault(name, again)

    def turn(self, number: int) -> TurnRecord:
        return self.turns.setdefault(number, TurnRecord(number))

    def admit(self, number: int) -> None:
        """The turn is whole: it is the person's word from here on."""
        turn = self.turns[number]
        if not turn.step(TurnEvent.COMPLETE):
            raise ValueError(f"turn {number} is {turn.state.value}, not waiting for its audio")
        self.take_word(turn)

    def take_word(self, turn: TurnRecord) -> None:
        """The turn is the person's word from here on."""
        self.order.append(turn.number)
        self.history.user(turn.number, said(turn))


def said(turn: TurnRecord) -> str:
    """What the model is given of a turn. The bench edge has no recogniser: what was typed,
    else how much was spoken."""
    if turn.typed:
        return turn.typed
    assert turn.capture is not None
    return f"[speech, {turn.capture.end - turn.capture.start} samples]"
