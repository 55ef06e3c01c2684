"""The wire: golden bytes in both directions, and nothing but ``Malformed`` for the rest."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from wire_examples import MESSAGES, PACKET_STRATEGY, PACKETS, messages_of

from handset.core import messages as m
from handset.core import packets
from handset.core.packets import MAX_MESSAGE, Malformed
from handset.edge import codec
from handset.errors import UsageError

GOLDEN = Path(__file__).with_name("golden")
# The first text that Hypothesis draws takes it a second of preparation.
calm = settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
BOTH = tuple(dict.fromkeys((*m.FROM_HANDSET, *m.FROM_EDGE)))


def decode(message: Any, text: str) -> codec.Decoded[Any]:
    if type(message) in m.FROM_HANDSET:
        return codec.decode_from_handset(text)
    return codec.decode_from_edge(text)


def golden(name: str, made: bytes) -> bytes:
    """The file's bytes. HANDSET_WRITE_GOLDEN=1 writes a new one, never over an old one."""
    path = GOLDEN / name
    if os.environ.get("HANDSET_WRITE_GOLDEN") and not path.exists():
        path.write_bytes(made)
    return path.read_bytes()


@pytest.mark.parametrize("message", MESSAGES, ids=lambda each: type(each).TYPE)
def test_json_golden(message: Any) -> None:
    made = codec.encode(message)
    stored = golden(f"{message.TYPE}.v1.json", made.encode() + b"\n").decode().rstrip("\n")
    assert made == stored
    assert decode(message, stored) == codec.Decoded(message)


@pytest.mark.parametrize("packet", PACKETS, ids=lambda each: type(each).__name__)
def test_binary_golden(packet: packets.Packet) -> None:
    made = packets.encode(packet)
    stored = golden(f"{type(packet).__name__}.v1.bin", made)
    assert made == stored
    assert packets.decode(stored) == packet


def test_every_type_has_one_golden_file_and_no_other_is_there() -> None:
    assert sorted(type(each).__name__ for each in MESSAGES) == sorted(c.__name__ for c in BOTH)
    names = {f"{each.TYPE}.v1.json" for each in MESSAGES}
    names |= {f"{type(each).__name__}.v1.bin" for each in PACKETS}
    assert {path.name for path in GOLDEN.iterdir()} == names


def test_schema_file_is_what_the_messages_say() -> None:
    stored = codec.SCHEMA_FILE.read_text(encoding="utf-8")
    assert stored == codec.schema_text(), "run python -m handset.edge.codec --write"
    defs = json.loads(stored)["$defs"]
    for cls in BOTH:
        assert defs[cls.__name__]["properties"]["type"] == {"const": cls.TYPE}
        assert "type" in defs[cls.__name__]["required"]
    assert len(defs["FromEdge"]["oneOf"]) == len(m.FROM_EDGE)
    assert len(defs["FromHandset"]["oneOf"]) == len(m.FROM_HANDSET)


def test_unknown_type_is_unknown_also_when_the_other_direction_has_it() -> None:
    assert codec.decode_from_edge('{"type":"response.audio","x":1}').message == codec.Unknown(
        "response.audio"
    )
    assert codec.decode_from_edge('{"type":"session.hello"}').message == codec.Unknown(
        "session.hello"
    )
    assert len(codec.decode_from_edge('{"type":"%s"}' % ("x" * 9_000)).message.type) <= 64  # type: ignore[union-attr]


def test_unknown_fields_are_ignored_and_named_by_path() -> None:
    text = '{"type":"capture.missing","turn":1,"ranges":[{"start":1,"end":2,"x":0}],"y":{"z":1}}'
    decoded = codec.decode_from_edge(text)
    assert decoded.message == m.CaptureMissing(turn=1, ranges=[m.Span(1, 2)])
    assert decoded.unknown_fields == ("ranges.x", "y")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "[]",
        "{}",
        '{"type":5}',
        '{"type":""}',
        '{"type":"session.go_away"}',
        '{"type":"session.go_away","time_left_ms":"1"}',
        '{"type":"session.go_away","time_left_ms":1.5}',
        '{"type":"session.go_away","time_left_ms":true}',
        '{"type":"session.go_away","time_left_ms":-1}',
        '{"type":"session.go_away","time_left_ms":9223372036854775808}',
        '{"type":"capture.missing","turn":1,"ranges":[{"start":-1,"end":2}]}',
        '{"type":"session.refused","code":"mood","reason":""}',
        "[" * 60_000,
        '{"type":' * 7_000,
        "1" * 60_000,
        '{"type":"\ud800"}',
        '{"type":"session.ended","reason":"' + "x" * MAX_MESSAGE + '"}',
        '{"type":"session.ended","reason":"' + "ü" * (MAX_MESSAGE // 2) + '"}',
    ],
    ids=range(20),
)
def test_malformed(text: str) -> None:
    with pytest.raises(Malformed) as caught:
        codec.decode_from_edge(text)
    assert len(str(caught.value)) < 300


def test_the_longest_message_is_taken() -> None:
    empty = len(codec.encode(m.Ended(reason="")))
    longest = m.Ended(reason="x" * (MAX_MESSAGE - empty))
    assert codec.decode_from_edge(codec.encode(longest)).message == longest
    with pytest.raises(UsageError, match="65536 bytes"):
        codec.encode(m.Ended(reason="x" * (MAX_MESSAGE - empty + 1)))


def test_what_is_no_message_is_not_encoded() -> None:
    for wrong in (m.Span(1, 2), m.AudioWanted(item_id="\ud800", next_packet=1), None):
        with pytest.raises(UsageError):
            codec.encode(wrong)  # type: ignore[arg-type]


@calm
@given(st.one_of([messages_of(cls) for cls in BOTH]))
def test_round_trip(message: Any) -> None:
    assert decode(message, codec.encode(message)) == codec.Decoded(message)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=12,
)


@calm
@given(st.sampled_from(MESSAGES), st.data())
def test_a_damaged_message_is_malformed_or_a_message(message: Any, data: st.DataObject) -> None:
    body = json.loads(codec.encode(message))
    name = data.draw(st.sampled_from(sorted(body)))
    if data.draw(st.booleans()):
        body[name] = data.draw(json_values)
    else:
        del body[name]
    try:
        decoded = decode(message, json.dumps(body))
    except Malformed:
        return
    assert isinstance(decoded.message, type(message) | codec.Unknown)


@calm
@given(st.text())
def test_any_text_is_malformed_or_decoded(text: str) -> None:
    for take in (codec.decode_from_edge, codec.decode_from_handset):
        with contextlib.suppress(Malformed):
            assert isinstance(take(text), codec.Decoded)


@calm
@given(PACKET_STRATEGY)
def test_packet_round_trip(packet: packets.Packet) -> None:
    assert packets.decode(packets.encode(packet)) == packet


@calm
@given(PACKET_STRATEGY, st.data())
def test_damaged_bytes_are_malformed_or_a_packet(
    packet: packets.Packet, data: st.DataObject
) -> None:
    damaged = bytearray(packets.encode(packet))
    damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(damaged[: data.draw(st.integers(0, len(damaged)))])
    for each in (bytes(damaged), cut, data.draw(st.binary(max_size=60))):
        with contextlib.suppress(Malformed):
            assert isinstance(packets.decode(each), packets.Packet)
