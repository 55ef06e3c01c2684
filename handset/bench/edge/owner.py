"""The session owner: what an edge has to do with each message of a handset. Pure.

Rules.

1. One owner per handset. It outlives connections and sessions: events of an ended session
   are accepted, those of a session it has never had are settled as orphans.
2. Nothing but ``session.hello`` is taken from a connection that has not said it. A refusal
   leaves the connection as it was; another hello may follow.
3. Audio of a connection, either way, is taken up when as many durable events have been
   settled on it as its hello announced.
4. A commit is admitted when its capture range is complete, by sample count; only then is
   there a user turn in history and a response. What is missing is asked for, first after
   a moment (packets may be on their way), again when nothing has come for a while.
5. Unprompted speech carries the highest turn that was admitted when it was written.
6. Every acknowledgement is about the event and nothing else.

``handle`` takes one message, ``poll`` lets time pass; both give effects, in order. The
lives of turns and responses are in :mod:`.lives`, settling in :mod:`.outboxes`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, Protocol

from handset.core import messages as m
from handset.core.packets import Malformed

from .alerts import OpenAlert
from .effects import (
    Attach,
    Continue,
    Credit,
    Effect,
    Forget,
    Generate,
    MapCapture,
    Send,
    StopItems,
)
from .events import apply
from .greeting import Greeted, refusal, welcome
from .lives import RESPONSE, Act, Response, ResponseEvent, Turn
from .outboxes import Outboxes, Outcome, Refusal, Settled
from .session import ASK_AFTER_NS, Arrival, ResponseRecord, Session
from .terms import Terms


class Captures(Protocol):
    """Where the packets of the microphone are."""

    def missing(self, span: m.Span) -> list[m.Span]: ...


@dataclass(slots=True)
class Owner:
    """``new_id(kind)`` gives ids and tokens that were never given before."""

    captures: Captures
    new_id: Callable[[str], str]
    terms: Terms = field(default_factory=Terms)
    protocol: m.Versions = field(default_factory=lambda: m.Versions(m.PROTOCOL_MIN, m.PROTOCOL_MAX))
    session: Session | None = None
    sessions: dict[str, Session] = field(default_factory=dict)
    arrivals: list[Arrival] = field(default_factory=list)
    counters: Counter[str] = field(default_factory=Counter)
    progress: dict[str, int] = field(default_factory=dict)
    """Samples handed of each item, as last told: a bound for when the handset vanishes."""
    _links: dict[int, Greeted] = field(default_factory=dict)
    _effects: list[Effect] = field(default_factory=list)
    _outboxes: Outboxes = field(init=False)
    _now_ns: int = 0

    def __post_init__(self) -> None:
        self._outboxes = Outboxes(self._apply)

    # ---- what comes in -----------------------------------------------------------------

    def handle(self, connection: int, message: m.FromHandset, now_ns: int) -> list[Effect]:
        """One message. ``Malformed`` when it contradicts the protocol: nothing was changed."""
        self._now_ns = now_ns
        link = self._links.setdefault(connection, Greeted())
        if isinstance(message, m.Hello):
            self._hello(connection, link, message)
        elif isinstance(message, m.Fault):
            self.counters["errors_from_handset"] += 1
        elif link.epoch is None or self.session is None:
            raise Malformed(f"{message.TYPE} before session.hello")  # type: ignore[union-attr]
        elif isinstance(message, m.Durable):
            self._durable(connection, link, message)
        else:
            self._other(connection, link, self.session, message)
        return self._out()

    def poll(self, now_ns: int) -> list[Effect]:
        """Packets may have come, and time has passed."""
        self._now_ns = now_ns
        for session in self.sessions.values():
            for turn in session.turns.values():
                if turn.state is Turn.WAITING and turn.capture is not None:
                    self._admit(session, turn.number)
        return self._out()

    def acks(self) -> list[m.EventAck]:
        """What is settled of each outbox."""
        return self._outboxes.acks()

    def gone(self, connection: int) -> None:
        """The connection is closed."""
        self._links.pop(connection, None)

    # ---- what the edge does by itself ---------------------------------------------------

    def say(self, now_ns: int) -> tuple[str, list[Effect]]:
        """Unprompted speech: the response's id, and what follows."""
        if self.session is None or self.session.ended is not None:
            raise ValueError("there is no session to speak in")
        self._now_ns = now_ns
        response = self._respond(self.session, self.session.highest_admitted, None)
        return response.response_id, self._out()

    def alert(self, alert: OpenAlert, now_ns: int) -> list[Effect]:
        """Offers an alert, once more if it was offered before."""
        if self.session is None or self.session.ended is not None:
            raise ValueError("there is no session to alert in")
        self._now_ns = now_ns
        session = self.session
        if session.alerts.known.setdefault(alert.alert_id, alert) is not alert:
            raise ValueError(f"there is an alert {alert.alert_id} already")
        for before in alert.responses[-1:]:
            # The handset plays the old one or the new one; it needs no more of the old.
            self._step(*self.response(before), ResponseEvent.DROP)
        record = self._entire(session, session.highest_admitted) if alert.clips else None
        response_id = None if record is None else record.response_id
        self._effects.append(Send(alert.offer(response_id, now_ns)))
        if record is not None:
            self._effects.append(Generate(record.response_id, record.turn, None, alert.clips))
        return self._out()

    def offer_again(self, now_ns: int) -> list[Effect]:
        """On another connection: whatever is open, and has not expired."""
        effects: list[Effect] = []
        for alert in self.session.alerts.open() if self.session is not None else []:
            if alert.withdrawn:
                effects.append(Send(m.AlertWithdraw(alert_id=alert.alert_id)))
            elif alert.left_ms(now_ns) != 0:
                effects += self.alert(alert, now_ns)
        return effects

    def withdraw(self, alert_id: str, now_ns: int) -> list[Effect]:
        """KeyError for an alert that was never made."""
        if self.session is None:
            raise KeyError(alert_id)
        self._now_ns = now_ns
        self.session.alerts.known[alert_id].withdrawn = True
        self._effects.append(Send(m.AlertWithdraw(alert_id=alert_id)))
        return self._out()

    def policy(self, require_manual: bool, next_turn: bool) -> list[Effect]:
        """What commits are wanted from here on. ValueError without a session."""
        if self.session is None or self.session.ended is not None:
            raise ValueError("there is no session to have a policy for")
        scope: Literal["session", "next_turn"] = "next_turn" if next_turn else "session"
        if next_turn:
            self.session.manual_next = require_manual
        else:
            self.session.require_manual = require_manual
        policy = m.Policy(require_manual=require_manual, scope=scope)
        self.session.policies.append(policy)
        return [Send(policy)]

    def clear(self, response_id: str, now_ns: int) -> list[Effect]:
        """Ask the handset to stop playing a response. KeyError for an unknown one."""
        self._now_ns = now_ns
        session, record = self.response(response_id)
        self._step(session, record, ResponseEvent.ASK_CLEAR)
        self._effects.append(Send(m.OutputClear(response_id=response_id)))
        return self._out()

    def all_sent(self, response_id: str, now_ns: int) -> list[Effect]:
        """The last packet of the response went out."""
        self._now_ns = now_ns
        session, record = self.response(response_id)
        self._step(session, record, ResponseEvent.ALL_SENT)
        return self._out()

    def end(self, reason: str, now_ns: int) -> list[Effect]:
        """End the session from here."""
        self._now_ns = now_ns
        if self.session is not None and self.session.ended is None:
            self._end(self.session, reason)
            self._effects.append(Send(m.Ended(reason=reason)))
        return self._out()

    def response(self, response_id: str) -> tuple[Session, ResponseRecord]:
        for session in self.sessions.values():
            if response_id in session.responses:
                return session, session.responses[response_id]
        raise KeyError(response_id)

    # ---- hello -------------------------------------------------------------------------

    def _hello(self, connection: int, link: Greeted, hello: m.Hello) -> None:
        if link.epoch is not None:
            raise Malformed("session.hello a second time on one connection")
        refused = refusal(hello, self.protocol, self.sessions)
        if refused is not None:
            self._effects.append(Send(refused, connection))
            return
        if hello.resume is not None:
            session = self.sessions[hello.resume.session]
        else:
            if self.session is not None and self.session.ended is None:
                self._end(self.session, "replaced")
            session = Session(self.new_id("session"))
            session.require_manual = self.terms.require_manual
            session.require_consent = self.terms.require_consent
            if self.session is not None:  # what was not delivered is still owed
                owed = self.session.alerts.open()
                session.alerts.known = {alert.alert_id: alert for alert in owed}
            self.sessions[session.session_id] = session
        session.token = self.new_id("token")
        session.epoch = hello.epoch
        session.hellos.append(hello)
        self.session = session
        link.epoch, link.backlog = hello.epoch, max(0, hello.unacknowledged)
        told, voiced = None, self.terms.disclosure
        if hello.resume is None and voiced is not None:
            record = self._entire(session, 0) if voiced.clip is not None else None
            response_id = None if record is None else record.response_id
            told = m.Disclosure(voiced.id, voiced.text, response_id)
        self._effects.append(Send(welcome(hello, self.protocol, session, told), connection))
        if told is not None and told.response_id is not None:
            assert voiced is not None and voiced.clip is not None
            self._effects.append(Generate(told.response_id, 0, None, (voiced.clip,)))
        if hello.resume is not None and session.policies:
            # One may have been lost with the connection before; a welcome back says none.
            now = m.Policy(require_manual=session.require_manual)
            following = m.Policy(require_manual=session.manual_next, scope="next_turn")
            self._effects += [Send(now, connection), Send(following, connection)]
        self._attach(connection, link)

    def _attach(self, connection: int, link: Greeted) -> None:
        if link.attached or not link.settled or self.session is None:
            return
        link.attached = True
        resume = self.session.hellos[-1].resume
        have = {item.item_id: item.next_packet for item in resume.items} if resume else {}
        self._effects.append(Attach(connection, self.session.session_id, have))

    # ---- durable events ----------------------------------------------------------------

    def _durable(self, connection: int, link: Greeted, event: m.Durable) -> None:
        taken = self._outboxes.take(event)
        if not link.attached and taken[0].outcome is not Outcome.DROPPED:
            link.come.add((event.outbox_id, event.seq))
            if link.settled:
                taken += self._outboxes.release()
        self._record(connection, taken)
        for outbox_id in dict.fromkeys(settled.event.outbox_id for settled in taken):
            self._effects.append(Send(self._outboxes.ack(outbox_id), connection))
        self._attach(connection, link)

    def _record(self, connection: int, taken: list[Settled]) -> None:
        for settled in taken:
            outcome = settled.outcome.value
            if settled.event.session not in self.sessions and settled.outcome is Outcome.APPLIED:
                outcome = "orphaned"
            self.counters[f"events_{outcome}"] += 1
            self.arrivals.append(
                Arrival(self._now_ns, connection, settled.event, outcome, settled.refusal)
            )
            rejection = self._outboxes.rejection(settled)
            if rejection is not None:
                self._effects.append(Send(rejection, connection))

    def _apply(self, event: m.Durable) -> Refusal | None:
        """Carry out one event for the first and only time."""
        session = self.sessions.get(event.session)
        if session is None:
            return None
        refusal, follows = apply(session, event)
        if refusal is not None:
            return refusal
        for response_id in follows.cleared:
            self._step(session, session.responses[response_id], ResponseEvent.CLEARED)
        self._effects += [Forget(item_id) for item_id in follows.final]
        if follows.committed is not None:
            turn = session.turns[follows.committed]
            turn.ask_at_ns = self._now_ns + ASK_AFTER_NS
            self._admit(session, turn.number)
        if follows.typed is not None:
            session.take_word(session.turns[follows.typed])
            if session.ended is None:
                self._respond(session, follows.typed, len(session.order) - 1)
        if follows.ended is not None:
            self._end(session, follows.ended)
        return None

    # ---- turns and responses -----------------------------------------------------------

    def _admit(self, session: Session, number: int) -> None:
        turn = session.turns[number]
        assert turn.capture is not None
        missing = self.captures.missing(turn.capture)
        if missing:
            if turn.due(missing, self._now_ns):
                self._effects.append(Send(m.CaptureMissing(turn=number, ranges=missing[:64])))
            return
        session.admit(number)
        samples = turn.capture.end - turn.capture.start
        self._effects.append(Send(m.CaptureReceived(turn=number, samples=samples)))
        if session.ended is None:
            self._respond(session, number, len(session.order) - 1)

    def _respond(self, session: Session, turn: int, nth: int | None) -> ResponseRecord:
        record = ResponseRecord(self.new_id("response"), turn, nth)
        session.responses[record.response_id] = record
        self._effects.append(Generate(record.response_id, turn, nth))
        return record

    def _entire(self, session: Session, turn: int) -> ResponseRecord:
        """A response that is no answer, and worth nothing in part."""
        record = ResponseRecord(self.new_id("response"), turn, None, entire=True)
        session.responses[record.response_id] = record
        return record

    def _cancel(self, session: Session, record: ResponseRecord) -> None:
        event = ResponseEvent.DROP if record.entire else ResponseEvent.CANCEL
        self._step(session, record, event)

    def announce(self, response_id: str, silent: bool) -> list[Effect]:
        """The provider has begun the response, or will not say anything."""
        session, record = self.response(response_id)
        if silent:
            del session.responses[response_id]
            return []
        created = m.ResponseCreated(response_id=response_id, turn=record.turn)
        return [Send(created)] if record.state is Response.LIVE else []

    def _step(self, session: Session, record: ResponseRecord, event: ResponseEvent) -> None:
        before = record.state
        record.state, act = RESPONSE.get((before, event), (before, Act.NOTHING))
        response_id = record.response_id
        if act in (Act.END, Act.STOP):
            self._effects.append(StopItems(response_id, end=act is Act.END))
        if act is Act.SAY_DONE:
            self._effects.append(Send(m.ResponseDone(response_id=response_id)))
        elif before is Response.LIVE and record.state is not before:
            done = m.ResponseDone(response_id=response_id, status="cancelled")
            self._effects.append(Send(done))

    def _end(self, session: Session, reason: str) -> None:
        session.ended = reason
        for record in session.responses.values():
            if record.state is Response.LIVE:
                self._cancel(session, record)

    # ---- the rest ----------------------------------------------------------------------

    def _other(
        self, connection: int, link: Greeted, session: Session, message: m.FromHandset
    ) -> None:
        match message:
            case m.ResponseCancel(response_id=response_id):
                if response_id not in session.responses:
                    raise Malformed(f"response.cancel of unknown response {response_id}")
                self._cancel(session, session.responses[response_id])
            case m.CaptureMap(epoch=epoch):
                if epoch != link.epoch:
                    raise Malformed(f"capture.map of epoch {epoch} in epoch {link.epoch}")
                self._effects.append(MapCapture(connection, message))
            case m.PlayoutProgress(item_id=item_id, handed=handed):
                if item_id is not None and session.history.find(item_id) is not None:
                    self.progress[item_id] = max(handed, self.progress.get(item_id, 0))
                self._effects.append(Credit(max(0, message.room_ms)))
            case m.ClockPing(id=number, sent_ns=sent_ns):
                pong = m.ClockPong(
                    id=number,
                    sent_ns=sent_ns,
                    edge_received_ns=self._now_ns,
                    edge_sent_ns=self._now_ns,
                )
                self._effects.append(Send(pong, connection))
            case m.TurnHeld():
                self.counters["turns_held"] += 1
                session.held.append(message)
            case m.AudioWanted(item_id=item_id, next_packet=next_packet):
                self._effects.append(Continue(connection, item_id, next_packet))
            case _:
                raise Malformed(f"{type(message).__name__} is not for an edge")

    def _out(self) -> list[Effect]:
        effects, self._effects = self._effects, []
        return effects
