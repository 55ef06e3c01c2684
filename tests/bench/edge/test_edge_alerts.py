"""The edge's side of alerts, typed turns and policy, without a network."""

from __future__ import annotations

from typing import Any

import pytest
from test_owner import Bench, hello

from handset.bench.edge.alerts import Alerts, OpenAlert, is_replay, original
from handset.bench.edge.effects import Generate, Send
from handset.bench.edge.owner import Owner
from handset.bench.edge.terms import DisclosureTerms, Terms
from handset.core import messages as m

AT = m.Instant(1, "boot")
SOURCE = m.AlertSource("ledger", "r1")


def alert(**fields: Any) -> OpenAlert:
    given: dict[str, Any] = {
        "alert_id": "A",
        "clips": ("yes-five",),
        "delivery": "when_idle",
        "acknowledge": True,
        "expires_in_ms": None,
        "source": SOURCE,
    }
    return OpenAlert(**(given | fields))


def event(kind: type, seq: int, **fields: Any) -> Any:
    return kind(
        event_id=f"s/{kind.__name__}/{seq}",
        session=fields.pop("session"),
        origin_epoch=1,
        at=AT,
        domain="alert",
        outbox_id="other",
        seq=seq,
        **fields,
    )


def test_an_alert_is_offered_with_its_response_and_again_with_another() -> None:
    bench = Bench()
    one = alert()
    sent: list[m.Alert] = []
    for _ in range(2):
        effects = bench.owner.alert(one, 1)
        (offer,) = [
            e.message for e in effects if isinstance(e, Send) and isinstance(e.message, m.Alert)
        ]
        (said,) = [e for e in effects if isinstance(e, Generate)]
        assert said.clips == ("yes-five",)
        assert offer.response_id == said.response_id
        sent.append(offer)
    assert [offer.attempt for offer in sent] == [1, 2]
    assert sent[0].response_id != sent[1].response_id


def test_a_silent_one_has_no_response() -> None:
    effects = Bench().owner.alert(alert(clips=(), delivery="silent"), 1)
    assert [type(e) for e in effects] == [Send]


def test_delivered_acknowledged_and_nothing_twice() -> None:
    alerts = Alerts({"A": alert(attempt=2)})
    told: dict[str, Any] = {
        "session": "s",
        "alert_id": "A",
        "source": SOURCE,
    }
    early = event(m.AlertAcknowledged, 1, attempt=1, by="talk", at_ns=1, **told)
    assert "was not delivered" in str(alerts.acknowledged(early))
    wrong = event(m.AlertDelivered, 2, attempt=3, how="played", plays=1, **told)
    assert "no attempt 3" in str(alerts.delivered(wrong))
    right = event(m.AlertDelivered, 3, attempt=1, how="played", plays=2, **told)
    assert alerts.delivered(right) is None and alerts.open()
    assert alerts.acknowledged(early) is None
    assert not alerts.open()
    late = event(
        m.AlertUndelivered, 4, attempt=2, reason="expired", plays=2, delivered=True, **told
    )
    assert alerts.undelivered(late) is None
    assert alerts.known["A"].state == "acknowledged"


def test_what_was_not_delivered_is_said() -> None:
    alerts = Alerts({"A": alert(attempt=1)})
    told = event(
        m.AlertUndelivered,
        1,
        session="s",
        alert_id="A",
        attempt=1,
        source=SOURCE,
        reason="expired",
        plays=0,
        delivered=False,
    )
    assert alerts.undelivered(told) is None
    assert (alerts.known["A"].state, alerts.open()) == ("undelivered: expired", [])


@pytest.mark.parametrize(
    ("name", "base"), [("i", "i"), ("i~2", "i"), ("i~x", "i~x"), ("a~b~13", "a~b")]
)
def test_the_name_of_a_replay(name: str, base: str) -> None:
    assert original(name) == base
    assert is_replay(name) == (name != base)


def test_a_typed_turn_is_admitted_at_once_and_answered() -> None:
    bench = Bench()
    session = bench.owner.session
    assert session is not None
    typed = m.TypedTurn(
        event_id="x/turn/9/commit",
        session=session.session_id,
        origin_epoch=1,
        at=AT,
        domain="turn",
        turn=9,
        outbox_id="other",
        seq=1,
        item=m.UserMessage("typed_9", [m.InputText("fan five")]),
        commit=m.CommitBy("typed"),
    )
    effects = bench.owner.handle(1, typed, 2)
    assert any(isinstance(e, Generate) and e.turn == 9 for e in effects)
    assert session.history.view()[-1].text == "fan five"
    assert session.order[-1] == 9


def test_terms_are_in_the_welcome_and_hold() -> None:
    terms = Terms(True, True, DisclosureTerms("d", "yes-five", "I am a machine."))
    ids = iter(range(100))
    owner = Owner(Bench().captures, lambda kind: f"{kind}{next(ids)}", terms)
    effects = owner.handle(1, hello(), 1)
    (welcome,) = [
        e.message for e in effects if isinstance(e, Send) and isinstance(e.message, m.Welcome)
    ]
    assert welcome.require_manual and welcome.require_consent
    assert welcome.disclosure is not None and welcome.disclosure.text == "I am a machine."
    (said,) = [e for e in effects if isinstance(e, Generate)]
    assert said.response_id == welcome.disclosure.response_id
    commit = m.Commit(
        event_id="x/turn/1/commit",
        session=welcome.session,
        origin_epoch=1,
        at=AT,
        domain="turn",
        turn=1,
        outbox_id="box",
        seq=1,
        commit=m.CommitBy("vad"),
        capture=m.Span(0, 48_000),
    )
    effects = owner.handle(1, commit, 2)
    refused = [e.message for e in effects if isinstance(e, Send)]
    codes = [each.code for each in refused if isinstance(each, m.EventRejected)]
    assert codes == ["manual_required"]
