"""Alerts: what must reach the person.

Rules:

1. An alert is played when all of its audio is there, nobody has the floor, the output is
   audible, and, unless it interrupts, nothing else is being played. One that interrupts
   stops the reply that is playing; no alert stops a person.
2. It is delivered when every item of it was played to its end, exactly, at an audible
   volume all the time. Cut off, lost with the device or turned down, it is played again,
   from its beginning, under names of its own; it does not need the edge for that.
3. A silent one is delivered when the lamp shows it.
4. Where it is to be acknowledged it stays open until a gesture, and reminds.
5. It ends exactly once: delivered (and acknowledged where asked for), or undelivered with
   the reason: expired, withdrawn, its session over, its audio damaged.
6. The same (id, attempt) again changes nothing. A higher attempt of one that is open takes
   its number; what has come of the earlier one is played, if it is whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

from handset.core import messages as msg
from handset.core.events import Effect, Observe
from handset.core.item import Item, ItemState
from handset.core.lane import Response
from handset.core.playback import Playback
from handset.core.receipts import Context, Envelope
from handset.core.volume import AUDIBLE, gain

AGAIN_NS = 1_000_000_000
"""Before a cut alert is played again: the person is doing something."""
REMIND_NS = 20_000_000_000
REMEMBER = 256


class AlertState(StrEnum):
    WAITING = "waiting"
    PLAYING = "playing"
    DELIVERED = "delivered"
    """And not acknowledged yet."""


@dataclass(slots=True)
class _Alert:
    said: msg.Alert
    session: str
    expires_ns: int | None
    state: AlertState = AlertState.WAITING
    response_id: str | None = None
    plays: int = 0
    not_before_ns: int = 0
    remind_ns: int = 0
    finals: list[Item] = field(default_factory=list)
    whole: Response | None = None
    """As it came, for another time."""


class Alerts:
    def __init__(
        self,
        playback: Playback,
        context: Callable[[], Context],
        keep: Callable[[Iterable[msg.Durable]], list[Effect]],
    ) -> None:
        self.playback = playback
        self._context = context
        self._keep = keep
        self._open: dict[str, _Alert] = {}
        self._ended: dict[str, int] = {}
        """Alerts that ended, with their newest attempt."""

    @property
    def waiting(self) -> bool:
        """One waits for a gesture, or to be played."""
        return bool(self._open)

    @property
    def to_acknowledge(self) -> bool:
        return any(alert.state is AlertState.DELIVERED for alert in self._open.values())

    @property
    def playing(self) -> bool:
        return any(alert.state is AlertState.PLAYING for alert in self._open.values())

    # ---- what the edge says -----------------------------------------------------------------

    def said(self, alert: msg.Alert, now_ns: int) -> list[Effect]:
        known = self._open.get(alert.alert_id)
        newest = known.said.attempt if known else self._ended.get(alert.alert_id, 0)
        if alert.attempt <= newest:
            if known is None or alert.response_id != known.said.response_id:
                self._refuse(alert)
            return []
        expires = None if alert.expires_in_ms is None else now_ns + alert.expires_in_ms * 1_000_000
        if known is not None and self._may_stay(known):
            known.said, known.expires_ns = alert, expires
            self._refuse(alert)
            return []
        if known is not None:
            self._bury(known)
        self._open[alert.alert_id] = _Alert(
            alert, self._context().session, expires, response_id=alert.response_id
        )
        if alert.response_id is not None:
            self.playback.lane.expect_alert(alert.response_id)
        facts: dict[str, object] = {"alert": alert.alert_id, "attempt": alert.attempt}
        return [Observe("alert.arrived", now_ns, facts)]

    def _may_stay(self, alert: _Alert) -> bool:
        """What there is of it needs no second telling."""
        if alert.state is not AlertState.WAITING or alert.response_id is None:
            return alert.state is not AlertState.WAITING
        response = self.playback.lane.responses.get(alert.response_id)
        return response is not None and response.whole

    def _refuse(self, alert: msg.Alert) -> None:
        """Its audio is not needed: what comes of it is counted, and does not sound."""
        if alert.response_id is not None:
            lane = self.playback.lane
            lane.expect_alert(alert.response_id)
            lane.kill(alert.response_id)

    def withdraw(self, alert_id: str, now_ns: int) -> list[Effect]:
        alert = self._open.get(alert_id)
        return self._give_up(alert, "withdrawn", now_ns) if alert is not None else []

    def session_over(self, now_ns: int) -> list[Effect]:
        """What was not delivered is the edge's to say again, in the next one."""
        effects: list[Effect] = []
        for alert in list(self._open.values()):
            effects += self._give_up(alert, "session_end", now_ns)
        return effects

    # ---- what the person does ---------------------------------------------------------------

    def acknowledge(self, by: str, at_ns: int) -> list[Effect]:
        """The oldest one that waits for it. Empty: none does."""
        for alert in self._open.values():
            if alert.state is AlertState.DELIVERED:
                said = alert.said
                event = msg.AlertAcknowledged(
                    **self._envelope(alert, "acknowledged", at_ns),
                    alert_id=said.alert_id,
                    attempt=said.attempt,
                    source=said.source,
                    by=by,
                    at_ns=at_ns,
                )
                self._end(alert)
                facts: dict[str, object] = {"alert": said.alert_id, "by": by}
                return [*self._keep([event]), Observe("alert.acknowledged", at_ns, facts)]
        return []

    # ---- time, and what was played ------------------------------------------------------------

    def finals(self, items: Iterable[Item], now_ns: int) -> list[Effect]:
        """Items that became final: of an alert's response they decide what becomes of it."""
        effects: list[Effect] = []
        for item in items:
            for alert in list(self._open.values()):
                if alert.response_id == item.response_id and alert.state is AlertState.PLAYING:
                    alert.finals.append(item)
                    effects += self._judge(alert, now_ns)
        return effects

    def _judge(self, alert: _Alert, now_ns: int) -> list[Effect]:
        assert alert.response_id is not None
        if any(i.response_id == alert.response_id for i in self.playback.ledger.items.values()):
            return []
        if all(_was_heard(item) for item in alert.finals):
            return self._delivered(alert, "played", now_ns)
        return self._again(alert, now_ns)

    def _again(self, alert: _Alert, now_ns: int) -> list[Effect]:
        """It was cut: what came of it is there for another time."""
        alert.finals = []
        alert.state = AlertState.WAITING
        alert.not_before_ns = now_ns + AGAIN_NS
        if alert.whole is None:
            return self._give_up(alert, "incomplete", now_ns)
        again = self.playback.lane.replay(alert.whole, alert.plays + 1)
        alert.response_id = again.response_id
        facts: dict[str, object] = {"alert": alert.said.alert_id, "plays": alert.plays}
        return [Observe("alert.cut", now_ns, facts)]

    def tick(self, now_ns: int, free: bool, audible: bool) -> list[Effect]:
        """``free``: nobody has the floor, and the person may be spoken to."""
        effects: list[Effect] = []
        for alert in list(self._open.values()):
            if alert.expires_ns is not None and now_ns >= alert.expires_ns:
                effects += self._give_up(alert, "expired", now_ns)
            elif alert.state is AlertState.PLAYING:
                response = self.playback.lane.responses.get(alert.response_id or "")
                if response is None and not alert.finals and not self._has_items(alert):
                    effects += self._again(alert, now_ns)
        if free and not self.playing:
            for alert in sorted(self._open.values(), key=_rank):
                if alert.state is AlertState.WAITING and now_ns >= alert.not_before_ns:
                    begun = self._begin(alert, now_ns, audible)
                    if begun:
                        return effects + begun
        return effects

    def reminders(self, now_ns: int) -> bool:
        """Whether it is time to remind of one that waits for the button."""
        due = False
        for alert in self._open.values():
            if alert.state is AlertState.DELIVERED and now_ns >= alert.remind_ns:
                alert.remind_ns = now_ns + REMIND_NS
                due = True
        return due

    def _begin(self, alert: _Alert, now_ns: int, audible: bool) -> list[Effect]:
        said = alert.said
        if alert.response_id is None:
            return self._delivered(alert, "shown", now_ns)
        playback = self.playback
        response = playback.lane.responses.get(alert.response_id)
        if response is None or not response.whole or not audible:
            return []
        effects: list[Effect] = []
        if not playback.silent:
            if said.delivery != "interrupt" or playback.current is None:
                return []
            cause = msg.Cause("alert", now_ns)
            effects += playback.clear_response(playback.current, cause, now_ns)
        response.held = False
        effects += playback.announce_held(response, now_ns)
        alert.whole = alert.whole or response
        alert.state = AlertState.PLAYING
        alert.plays += 1
        facts: dict[str, object] = {"alert": said.alert_id, "plays": alert.plays}
        return [*effects, Observe("alert.playing", now_ns, facts)]

    def _has_items(self, alert: _Alert) -> bool:
        items = self.playback.ledger.items.values()
        return any(item.response_id == alert.response_id for item in items)

    # ---- ends -----------------------------------------------------------------------------------

    def _delivered(
        self, alert: _Alert, how: Literal["played", "shown"], now_ns: int
    ) -> list[Effect]:
        said = alert.said
        outputs = [item.output for item in alert.finals if item.output is not None]
        event = msg.AlertDelivered(
            **self._envelope(alert, "delivered", now_ns),
            alert_id=said.alert_id,
            attempt=said.attempt,
            source=said.source,
            how=how,
            plays=alert.plays,
            items=[item.cursor() for item in alert.finals],
            output=min(outputs, key=lambda output: output.gain, default=None),
        )
        if said.acknowledge:
            alert.state = AlertState.DELIVERED
            alert.remind_ns = now_ns
        else:
            self._end(alert)
        facts: dict[str, object] = {"alert": said.alert_id, "how": how, "plays": alert.plays}
        return [*self._keep([event]), Observe("alert.delivered", now_ns, facts)]

    def _give_up(
        self,
        alert: _Alert,
        reason: Literal["expired", "withdrawn", "session_end", "incomplete"],
        now_ns: int,
    ) -> list[Effect]:
        said = alert.said
        event = msg.AlertUndelivered(
            **self._envelope(alert, "undelivered", now_ns),
            alert_id=said.alert_id,
            attempt=said.attempt,
            source=said.source,
            reason=reason,
            plays=alert.plays,
            delivered=alert.state is AlertState.DELIVERED,
        )
        self._end(alert)
        effects: list[Effect] = []
        if alert.response_id is not None and reason != "session_end":
            cause = msg.Cause("alert", now_ns)
            effects = self.playback.clear_response(alert.response_id, cause, now_ns)
        facts: dict[str, object] = {"alert": said.alert_id, "reason": reason}
        return [*effects, *self._keep([event]), Observe("alert.undelivered", now_ns, facts)]

    def _bury(self, alert: _Alert) -> None:
        if alert.response_id is not None:
            self.playback.lane.kill(alert.response_id)

    def _end(self, alert: _Alert) -> None:
        self._open.pop(alert.said.alert_id, None)
        self._ended[alert.said.alert_id] = alert.said.attempt
        while len(self._ended) > REMEMBER:
            self._ended.pop(next(iter(self._ended)))

    def _envelope(self, alert: _Alert, what: str, at_ns: int) -> Envelope:
        context = self._context().of(alert.session)
        said = alert.said
        return context.envelope(f"alert/{said.alert_id}/{said.attempt}/{what}", at_ns, "alert")


def _rank(alert: _Alert) -> int:
    return ("interrupt", "when_idle", "silent").index(alert.said.delivery)


def _was_heard(item: Item) -> bool:
    """Played to its end, all of it, where a person with the headset on could hear it."""
    output = item.output
    audible = output is None or (not output.muted and output.gain >= gain(AUDIBLE))
    return item.state is ItemState.PLAYED and item.whole and audible
