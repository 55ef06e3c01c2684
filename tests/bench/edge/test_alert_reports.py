"""What a handset says of alerts, consent and policy: taken when it can be so, else refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from test_owner import COMMITTED, STARTED, Bench, hello

from handset.bench.edge.alerts import OpenAlert
from handset.bench.edge.effects import Effect, Generate, Send, StopItems
from handset.bench.edge.lives import Turn
from handset.core import messages as m

SOURCE = m.AlertSource("ledger", "r-1")
LENGTH = 1000


class AlertBench(Bench):
    """With one alert that was offered, and generated to its end as item ``words``."""

    def __init__(self, acknowledge: bool = True, **fields: Any) -> None:
        super().__init__()
        self.seq = 2
        given: dict[str, Any] = {"clips": ("yes-five",), "delivery": "when_idle", "life": None}
        given |= fields
        self.alert = OpenAlert(
            "A", given["clips"], given["delivery"], acknowledge, given["life"], SOURCE
        )
        self.offered = self.owner.alert(self.alert, 0)
        for response_id in self.alert.responses:
            self.generate(response_id, "words")

    def generate(self, response_id: str, item_id: str) -> None:
        history = self.session.history
        history.begin(item_id, response_id, 1, 1000, "it is done", None)
        history.presume_unplayed(item_id)
        history.grow(item_id, LENGTH, ended=True)

    def cursor(self, item_id: str = "words", played: int = LENGTH, **fields: Any) -> m.ItemCursor:
        whole = played == LENGTH
        return m.ItemCursor(
            item_id=item_id,
            response_id="r",
            content_index=0,
            rate=1000,
            state=fields.pop("state", "played" if whole else "cleared"),
            received=LENGTH,
            handed=played,
            dropped=LENGTH - played,
            queued=0,
            played=played,
            exact=True,
            audio_end_ms=played,
        )

    def says(self, kind: type[m.Durable], connection: int = 1, **fields: Any) -> str | None:
        """The code of the refusal, null when it was taken."""
        self.seq += 1
        effects = self.take(self.event(kind, self.seq, **fields), connection=connection)
        codes = [e.code for e in self.sent(effects) if isinstance(e, m.EventRejected)]
        assert len(codes) < 2
        return codes[0] if codes else None

    def delivered(self, attempt: int = 1, **fields: Any) -> str | None:
        items = fields.pop("items", [self.cursor()])
        given = {"alert_id": "A", "source": SOURCE, "how": "played", "plays": 1} | fields
        return self.says(m.AlertDelivered, attempt=attempt, items=items, **given)

    def acknowledged(self, attempt: int = 1) -> str | None:
        told: dict[str, Any] = {"alert_id": "A", "source": SOURCE, "by": "acknowledge"}
        return self.says(m.AlertAcknowledged, attempt=attempt, at_ns=5, **told)

    def undelivered(self, reason: str, attempt: int = 1, delivered: bool = False) -> str | None:
        told: dict[str, Any] = {"alert_id": "A", "source": SOURCE, "plays": 1, "reason": reason}
        return self.says(m.AlertUndelivered, attempt=attempt, delivered=delivered, **told)

    def reconnect(self, epoch: int, now_ns: int = 0) -> list[Effect]:
        resume = m.Resume(self.session.session_id, self.session.token)
        return [
            *self.owner.handle(epoch, hello(epoch, resume=resume), now_ns),
            *self.owner.offer_again(now_ns),
        ]

    def texts(self) -> list[str]:
        return [entry.text for entry in self.session.history.view() if entry.role == "assistant"]


def offers(effects: list[Effect]) -> list[m.Alert]:
    return [message for message in Bench.sent(effects) if isinstance(message, m.Alert)]


def test_the_offer_comes_before_its_response() -> None:
    bench = AlertBench()
    send, generate = bench.offered
    assert isinstance(send, Send) and isinstance(generate, Generate)
    assert isinstance(send.message, m.Alert)
    assert send.message.response_id == generate.response_id
    assert generate.turn == bench.session.highest_admitted == 1


@pytest.mark.parametrize(
    "fields",
    [
        {"alert_id": "B"},
        {"attempt": 0},
        {"attempt": 2},
        {"source": m.AlertSource("ledger", "r-2")},
        {"how": "shown"},
        {"plays": 0},
        {"items": []},
        {"items": ["item"]},
        {"items": ["words", "item"]},
        {"items": ["never"]},
        {"output": m.Output(0.5, muted=True, route="usb", changed=False)},
    ],
    ids=str,
)
def test_a_delivery_that_can_not_be_is_refused(fields: dict[str, Any]) -> None:
    bench = AlertBench()
    if "items" in fields:
        fields = fields | {"items": [bench.cursor(name) for name in fields["items"]]}
    assert bench.delivered(**fields) is not None
    assert (bench.alert.state, bench.alert.plays) == ("offered", 0)
    assert bench.delivered() is None, "and what can be is taken after it"


@pytest.mark.parametrize("change", [{"state": "cleared"}, {"played": 999}, {"received": 1001}])
def test_a_delivery_is_of_every_sample(change: dict[str, Any]) -> None:
    bench = AlertBench()
    cursor = replace(bench.cursor(), **change)
    if "played" in change:
        cursor = replace(cursor, audio_end_ms=999)
    assert bench.delivered(items=[cursor]) is not None
    assert bench.alert.state == "offered"


def test_an_alert_has_one_life() -> None:
    """Every order of up to three reports of one attempt: each is taken exactly where it may be."""
    told = {"D": "delivered", "A": "acknowledged", "U": "undelivered", "V": "undelivered"}
    taken = {"", "D", "DA", "DV", "U"}  # V: undelivered, but it was delivered
    for first in told:
        for second in told:
            for third in told:
                bench, path = AlertBench(), ""
                for letter in (first, second, third):
                    if letter in "UV":
                        code = bench.undelivered("expired", delivered=letter == "V")
                    else:
                        code = getattr(bench, told[letter])()
                    assert (code is None) == (path + letter in taken), (path, letter, code)
                    path += letter if code is None else ""
                ends = {"": "offered", "D": "delivered", "DA": "acknowledged"}
                assert bench.alert.state == ends.get(path, "undelivered: expired")
                assert bench.alert.is_open == (path in ("", "D"))


def test_what_was_not_asked_for_is_not_acknowledged() -> None:
    bench = AlertBench(acknowledge=False)
    assert bench.delivered() is None
    assert bench.acknowledged() == "alert_state"
    assert bench.alert.state == "delivered" and not bench.alert.is_open
    assert bench.undelivered("expired", delivered=True) == "alert_state"


def test_a_silent_one_is_shown_and_not_played() -> None:
    bench = AlertBench(acknowledge=False, clips=(), delivery="silent")
    assert [type(effect) for effect in bench.offered] == [Send]
    assert bench.delivered() == "not_all"
    assert bench.delivered(how="shown", plays=0, items=[]) is None
    assert bench.alert.state == "delivered"


def test_a_new_connection_is_offered_what_is_open_and_the_old_audio_ends() -> None:
    bench = AlertBench()
    effects = bench.reconnect(2)
    (offer,) = offers(effects)
    assert (offer.attempt, len(set(bench.alert.responses))) == (2, 2)
    assert StopItems(bench.alert.responses[0], end=False) in effects
    assert bench.delivered(attempt=1) is None, "an older attempt: it was played"
    (offer,) = offers(bench.reconnect(3))
    assert offer.attempt == 3, "not acknowledged yet"
    bench.generate(bench.alert.responses[2], "words again")
    again = [bench.cursor("words again")]
    assert bench.delivered(attempt=3, items=again, connection=3) is None
    assert bench.alert.repeats == 1 and bench.alert.evidence == [bench.cursor()]
    assert bench.acknowledged(attempt=3) is None
    assert offers(bench.reconnect(4)) == []


def test_the_life_of_an_alert_is_counted_from_its_first_offer() -> None:
    bench = AlertBench(life=10_000)
    (offer,) = offers(bench.reconnect(2, now_ns=4_000_000_000))
    assert offer.expires_in_ms == 6_000
    assert offers(bench.reconnect(3, now_ns=10_000_000_000)) == []
    assert bench.undelivered("expired", attempt=2) is None


def test_what_a_session_s_end_left_is_owed_in_the_next() -> None:
    bench = AlertBench()
    bench.owner.handle(2, hello(2), 0)
    assert bench.owner.session is not bench.session
    assert bench.undelivered("session_end") is None
    (offer,) = offers(bench.owner.offer_again(0))
    assert offer.attempt == 2 and bench.alert.state == "offered"
    assert bench.alert.responses[1] in bench.owner.session.responses  # type: ignore[union-attr]


def test_withdrawn_is_said_again_and_not_offered() -> None:
    bench = AlertBench()
    assert Bench.sent(bench.owner.withdraw("A", 0)) == [m.AlertWithdraw(alert_id="A")]
    effects = bench.reconnect(2)
    assert offers(effects) == [] and m.AlertWithdraw(alert_id="A") in Bench.sent(effects)
    assert bench.delivered() is None, "it was played before the handset heard of it"


def test_an_alert_is_in_the_view_once_it_was_played_and_by_no_take_of_it() -> None:
    bench = AlertBench()
    assert bench.texts() == ["one two"]
    receipt, cut = m.PlayoutReceipt, {"content_index": 0, "exact": True, "cleared": "c"}
    assert bench.says(m.Truncate, item_id="words", audio_end_ms=400, played=400, **cut) is None
    assert bench.says(receipt, state="cleared", cursor=bench.cursor(played=400)) is None
    second = bench.cursor("words~2", played=300)
    assert bench.says(m.Truncate, item_id="words~2", audio_end_ms=300, played=300, **cut) is None
    assert bench.says(receipt, state="cleared", cursor=second) is None
    assert bench.texts() == ["one two"]
    third = bench.cursor("words~3")
    assert bench.says(receipt, state="played", cursor=third) is None
    assert bench.delivered(items=[third], plays=3) is None
    assert bench.texts() == ["one two", "it is done"]


def test_a_take_is_held_to_the_same_rules() -> None:
    bench = AlertBench()
    receipt, cut = m.PlayoutReceipt, {"content_index": 0, "exact": True, "cleared": "c"}
    for name in ("item~2", "never~2", "words~1", "words~0", "words~x", "words~2~3"):
        assert bench.says(receipt, state="played", cursor=bench.cursor(name)) == "unknown_item"
        code = bench.says(m.Truncate, item_id=name, audio_end_ms=1, played=1, **cut)
        assert code == "unknown_item"
    beyond = {"item_id": "words~2", "audio_end_ms": 1001, "played": 1001} | cut
    assert bench.says(m.Truncate, **beyond) == "beyond_end"
    assert bench.says(receipt, state="played", cursor=bench.cursor("words~2")) is None
    assert bench.says(receipt, state="played", cursor=bench.cursor("words~2")) == "second_final"
    code = bench.says(m.Truncate, item_id="words~2", audio_end_ms=5, played=5, **cut)
    assert code == "played_to_end"


def test_half_an_alert_never_ends_as_if_it_were_all() -> None:
    for stop in (
        lambda bench: bench.owner.end("over", 0),
        lambda bench: bench.owner.handle(
            1, m.ResponseCancel(response_id=bench.alert.responses[0]), 0
        ),
    ):
        bench = AlertBench()
        assert StopItems(bench.alert.responses[0], end=False) in stop(bench)


@pytest.mark.parametrize(
    ("delivery", "clips", "life"),
    [
        ("silent", ("yes-five",), None),
        ("interrupt", (), None),
        ("soon", (), None),
        ("silent", (), 0),
    ],
)
def test_an_alert_that_makes_no_sense(delivery: Any, clips: tuple[str, ...], life: Any) -> None:
    with pytest.raises(ValueError, match=r"alert A|delivery "):
        OpenAlert("A", clips, delivery, False, life, SOURCE)


# ---- consent and policy ------------------------------------------------------------------------


def commit(bench: AlertBench, turn: int, source: str, kind: str = "spoken") -> str | None:
    by = m.CommitBy(source)  # type: ignore[arg-type]
    if kind == "spoken":
        return bench.says(m.Commit, **{**COMMITTED, "turn": turn, "commit": by})
    item = m.UserMessage("t", [m.InputText(kind)])
    return bench.says(m.TypedTurn, turn=turn, item=item, commit=by)


def consent(bench: AlertBench, wearer: str, capture: bool) -> None:
    told: dict[str, Any] = {"disclosed": True, "disclosure": "shipped", "by": "acknowledge"}
    says = bench.says(m.WearerConsent, wearer=wearer, capture=capture, recording=False, **told)
    assert says is None


def test_consent_is_one_wearer_s_and_no_other_s() -> None:
    bench = AlertBench()
    bench.session.require_consent = True
    assert commit(bench, 2, "ptt") == "no_consent"
    consent(bench, "w1", True)
    assert commit(bench, 3, "ptt") is None
    consent(bench, "w2", False)
    assert commit(bench, 4, "ptt") == "no_consent"
    assert commit(bench, 5, "typed", "nothing was captured") is None
    assert [each.wearer for each in bench.session.consents] == ["w1", "w2"]


def test_policy_for_the_next_turn_holds_until_one_is_committed() -> None:
    bench = AlertBench()
    assert commit(bench, 2, "vad") is None
    (sent,) = Bench.sent(bench.owner.policy(True, next_turn=True))
    assert sent == m.Policy(require_manual=True, scope="next_turn")
    assert commit(bench, 3, "vad") == commit(bench, 4, "vad") == "manual_required"
    assert commit(bench, 5, "typed", "by hand") is None
    assert commit(bench, 6, "vad") is None
    bench.owner.policy(True, next_turn=False)
    assert commit(bench, 7, "toggle") is None
    assert commit(bench, 8, "vad") == "manual_required"
    assert bench.session.turns.keys() == {1, 2, 5, 6, 7}


def test_policy_is_said_again_on_the_next_connection() -> None:
    bench = AlertBench()
    bench.owner.policy(True, next_turn=True)
    said = [s for s in Bench.sent(bench.reconnect(2)) if isinstance(s, m.Policy)]
    assert said == [
        m.Policy(require_manual=False, scope="session"),
        m.Policy(require_manual=True, scope="next_turn"),
    ]


def test_typed_is_typed_and_spoken_is_spoken() -> None:
    bench = AlertBench()
    assert commit(bench, 2, "typed") == "malformed"
    assert commit(bench, 3, "vad", "words") == "malformed"
    assert commit(bench, 4, "typed", "  ") == "malformed"
    assert bench.says(m.TurnStarted, **{**STARTED, "turn": 5}) is None
    assert commit(bench, 5, "typed", "after all, typed") is None
    assert bench.session.turns[5].state is Turn.ADMITTED
    assert commit(bench, 5, "typed", "twice") == commit(bench, 5, "ptt") == "turn_state"
    assert bench.session.order == [1, 5]


def test_a_held_turn_is_on_record_and_commits_nothing() -> None:
    bench = AlertBench()
    bench.says(m.TurnStarted, **{**STARTED, "turn": 2})
    held = m.TurnHeld(turn=2, capture=m.Span(0, 5))
    assert bench.owner.handle(1, held, 0) == []
    assert bench.session.held == [held]
    assert bench.session.turns[2].state is Turn.OPEN
