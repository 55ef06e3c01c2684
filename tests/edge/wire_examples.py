"""One full example of every message, for the golden files; and Hypothesis strategies."""

from __future__ import annotations

from dataclasses import MISSING, fields, is_dataclass, replace
from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from hypothesis import strategies as st

from handset.core import messages as m
from handset.core import packets as p

AT = m.Instant(mono_ns=81_234_567_890, boot_id="b-7", edge_ns=91_234_567_890, bound_ns=1_500_000)
CURSOR = m.ItemCursor(
    item_id="item_2",
    response_id="resp_1",
    content_index=0,
    rate=24_000,
    state="cleared",
    received=48_000,
    handed=20_160,
    dropped=27_840,
    queued=0,
    played=20_160,
    exact=True,
    faded=120,
    audio_end_ms=840,
    at_request=m.Estimate(19_000, 18_880, 19_120),
    silent_at_ns=m.Estimate(81_260_000_000, 81_259_000_000, 81_261_000_000),
    output=m.Output(gain=0.5, muted=False, route="usb", changed=False),
)
PLAYED = replace(
    CURSOR,
    item_id="item_3~3",
    response_id="resp_3~3",
    state="played",
    handed=48_000,
    dropped=0,
    played=48_000,
    faded=0,
    audio_end_ms=2000,
    at_request=None,
)
SOURCE = m.AlertSource("ledger", receipt="r-81", commitment="c-3", command="cmd-9")


def envelope(event_id: str, seq: int, domain: m.Domain) -> dict[str, Any]:
    return {
        "event_id": event_id,
        "session": "sess_1",
        "origin_epoch": 3,
        "at": AT,
        "domain": domain,
        "turn": 4,
        "response_id": "resp_1",
        "item_id": "item_2",
        "outbox_id": "o-1",
        "seq": seq,
    }


MESSAGES: tuple[Any, ...] = (
    m.TurnStarted(
        **envelope("e-1", 1, "turn"),
        source="ptt",
        capture_start=96_000,
        pre_roll=9_600,
        gesture=m.Estimate(105_600, 105_120, 106_080),
    ),
    m.Commit(
        **envelope("e-2", 2, "turn"),
        commit=m.CommitBy("ptt", {"held_ms": 1_840, "bounces": 2, "clean": True, "key": "ptt"}),
        capture=m.Span(96_000, 184_320),
        cursor="pending",
        notices=[m.NoticeMark("talk_permit", m.Span(105_700, 112_000))],
    ),
    m.TurnAbandoned(
        **envelope("e-3", 3, "turn"), reason="too_short", stopped=["resp_1"], live=["resp_2"]
    ),
    m.PlayoutCleared(
        **envelope("e-4", 4, "playout"),
        request=7,
        causes=[m.Cause("gesture", 81_234_000_000)],
        responses=["resp_1"],
        items=[CURSOR],
        cut_ns=81_255_000_000,
        repeats="e-0",
    ),
    m.Truncate(
        **envelope("e-5", 5, "playout"),
        content_index=0,
        audio_end_ms=840,
        played=20_160,
        exact=True,
        cleared="e-4",
        supersedes="e-0",
    ),
    m.PlayoutReceipt(
        **envelope("e-6", 6, "playout"),
        state="cleared",
        cursor=CURSOR,
        cleared="e-4",
        reason="gesture",
    ),
    m.CaptureLost(**envelope("e-7", 7, "turn"), ranges=[m.Span(97_920, 98_880)]),
    m.Shutdown(**envelope("e-8", 8, "session"), cause="the service was stopped"),
    m.TypedTurn(
        **envelope("e-9", 9, "turn"),
        item=m.UserMessage("typed_4", [m.InputText("Fan fünf, not fan four.")]),
        commit=m.CommitBy("typed", {"characters": 23}),
        cursor="pending",
    ),
    m.WearerConsent(
        **envelope("e-10", 10, "session"),
        wearer="b-7/2",
        capture=True,
        recording=False,
        disclosed=True,
        disclosure="site-7",
        by="acknowledge",
    ),
    m.AlertDelivered(
        **envelope("e-11", 11, "alert"),
        alert_id="alert_1",
        attempt=2,
        source=SOURCE,
        how="played",
        plays=3,
        items=[PLAYED],
        output=PLAYED.output,
    ),
    m.AlertAcknowledged(
        **envelope("e-12", 12, "alert"),
        alert_id="alert_1",
        attempt=2,
        source=SOURCE,
        by="acknowledge",
        at_ns=81_299_000_000,
    ),
    m.AlertUndelivered(
        **envelope("e-13", 13, "alert"),
        alert_id="alert_1",
        attempt=2,
        source=SOURCE,
        reason="expired",
        plays=1,
        delivered=False,
    ),
    m.Hello(
        handset_id="h-12",
        label="Bay 4 ünïcode",
        software="0.1.0",
        protocol=m.Versions(1, 1),
        boot_id="b-7",
        epoch=3,
        outbox_id="o-1",
        unacknowledged=2,
        capabilities=["truncate", "backfill"],
        output_route="usb",
        output_rate=48_000,
        resume=m.Resume("sess_1", "tok", [m.ResumeItem("item_2", 57)]),
    ),
    m.ResponseCancel(response_id="resp_1"),
    m.TurnHeld(turn=4, capture=m.Span(96_000, 184_320)),
    m.CaptureMap(
        epoch=3, ssrc=4_000_000_001, rtp_ts=4_294_967_000, capture_sample=0, lookahead=312
    ),
    m.PlayoutProgress(item_id="item_2", handed=12_000, queued_ms=800, room_ms=9_200),
    m.ClockPing(id=5, sent_ns=81_234_567_890),
    m.AudioWanted(item_id="item_2", next_packet=57),
    m.Fault(code="malformed", message="no JSON"),
    m.Welcome(
        session="sess_1",
        epoch=3,
        protocol=1,
        resume_token="tok",
        resumed=True,
        connection_ms_left=600_000,
        session_ms_left=3_600_000,
        resume_valid_ms=30_000,
        turn_detection="none",
        require_manual=True,
        require_consent=True,
        disclosure=m.Disclosure("site-7", "You talk to an AI system.", "resp_0"),
    ),
    m.Policy(require_manual=True, scope="next_turn"),
    m.Refused(code="protocol", reason="too old", protocol=m.Versions(2, 3)),
    m.GoAway(time_left_ms=50_000, reason="restart"),
    m.Ended(reason="time"),
    m.ResponseCreated(response_id="resp_1", turn=4, speculative=True),
    m.ResponseDone(response_id="resp_1", status="cancelled"),
    m.OutputClear(response_id="resp_1"),
    m.Alert(
        alert_id="alert_1",
        attempt=2,
        delivery="when_idle",
        source=SOURCE,
        response_id="resp_3",
        acknowledge=True,
        expires_in_ms=600_000,
    ),
    m.AlertWithdraw(alert_id="alert_1"),
    m.EventAck(outbox_id="o-1", seq=6, applied=["e-8"]),
    m.EventRejected(
        outbox_id="o-1", seq=5, event_id="e-5", code="too_long", message="810 ms", limit_ms=810
    ),
    m.CaptureMissing(turn=4, ranges=[m.Span(97_920, 98_880)]),
    m.CaptureReceived(turn=4, samples=88_320),
    m.ClockPong(
        id=5, sent_ns=81_234_567_890, edge_received_ns=91_264_567_890, edge_sent_ns=91_264_600_000
    ),
)

PACKETS: tuple[p.Packet, ...] = (
    p.ItemStart(9, "item_2", 0, "resp_1", 4, 24_000, 312),
    p.ItemAudio(9, 57, (b"\x48\x01\x02", b"\x48", bytes(range(200)))),
    p.ItemEnd(9, 60, 28_437),
    p.CaptureData(4, 97_920, (b"\x48\x0b\xe4", b"\x48\xff")),
)

words = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
_LEAVES: dict[Any, st.SearchStrategy[Any]] = {
    int: st.integers(0, (1 << 63) - 1),
    str: words,
    bool: st.booleans(),
    float: st.floats(allow_nan=False, allow_infinity=False),
    NoneType: st.none(),
}


def _values(hint: Any) -> st.SearchStrategy[Any]:
    if hint in _LEAVES:
        return _LEAVES[hint]
    parts = get_args(hint)
    if is_dataclass(hint):
        return messages_of(hint)  # type: ignore[arg-type]
    if get_origin(hint) is list:
        return st.lists(_values(parts[0]), max_size=4)
    if get_origin(hint) is dict:
        return st.dictionaries(_values(parts[0]), _values(parts[1]), max_size=4)
    if get_origin(hint) is Literal:
        return st.sampled_from(parts)
    return st.one_of([_values(part) for part in parts])


def messages_of(cls: type) -> st.SearchStrategy[Any]:
    """Any message of this class, also with its defaults left out."""
    hints = get_type_hints(cls)
    required, optional = {}, {}
    for each in fields(cls):
        has_default = each.default is not MISSING or each.default_factory is not MISSING
        (optional if has_default else required)[each.name] = _values(hints[each.name])
    return st.fixed_dictionaries(required, optional=optional).map(lambda kw: cls(**kw))


opus = st.binary(min_size=1, max_size=40)
PACKET_STRATEGY: st.SearchStrategy[p.Packet] = st.one_of(
    st.builds(
        p.ItemStart,
        st.integers(0, (1 << 32) - 1),
        words.filter(bool),
        st.integers(0, 255),
        words.filter(bool),
        st.integers(0, 1 << 62),
        st.integers(8_000, 48_000),
        st.integers(0, 47_999),
    ),
    st.builds(
        p.ItemAudio,
        st.integers(0, (1 << 32) - 1),
        st.integers(0, (1 << 32) - 1),
        st.lists(opus, min_size=1, max_size=12).map(tuple),
    ),
    st.builds(
        p.ItemEnd,
        st.integers(0, (1 << 32) - 1),
        st.integers(0, (1 << 32) - 1),
        st.integers(0, (1 << 64) - 1),
    ),
    st.builds(
        p.CaptureData,
        st.integers(0, (1 << 64) - 1),
        st.integers(0, (1 << 64) - 1),
        st.lists(opus, min_size=1, max_size=12).map(tuple),
    ),
)
