"""Conversations as they went over the wire, for authors of edges to replay.

Made by ``handset bench --trace FILE``.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from handset.core import messages as msg
from handset.core import packets
from handset.edge import codec

TRACES = sorted((Path(__file__).parent / "traces").glob("*.jsonl"))


@pytest.fixture(params=TRACES, ids=lambda path: path.stem)
def trace(request: pytest.FixtureRequest) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in request.param.read_text().splitlines()]
    assert lines
    return lines


def _decoded(line: dict[str, Any]) -> Any:
    decode = codec.decode_from_handset if line["way"] == "sent" else codec.decode_from_edge
    found = decode(json.dumps(line["message"]))
    assert not found.unknown_fields
    return found.message


def test_there_is_a_trace() -> None:
    assert TRACES


def test_every_message_is_of_this_protocol(trace: list[dict[str, Any]]) -> None:
    for line in trace:
        if "base64" in line:
            data = base64.b64decode(line["base64"])
            assert packets.encode(packets.decode(data)) == data
        else:
            message = _decoded(line)
            assert json.loads(codec.encode(message)) == line["message"]


def test_order_on_the_wire(trace: list[dict[str, Any]]) -> None:
    ctl = [line for line in trace if line["channel"] == "ctl"]
    sent = [_decoded(line) for line in ctl if line["way"] == "sent"]
    assert isinstance(sent[0], msg.Hello)
    durable = [message for message in sent if isinstance(message, msg.Durable)]
    assert [event.seq for event in durable] == list(range(1, len(durable) + 1))
    assert len({event.event_id for event in durable}) == len(durable)
    acks = [
        message.seq
        for message in (_decoded(line) for line in ctl if line["way"] == "received")
        if isinstance(message, msg.EventAck)
    ]
    assert acks == sorted(acks) and acks[-1] == len(durable)


def test_a_cursor_goes_before_the_commit_that_follows_it(trace: list[dict[str, Any]]) -> None:
    sent = [_decoded(line) for line in trace if "message" in line and line["way"] == "sent"]
    kinds = [type(message) for message in sent if not isinstance(message, msg.PlayoutProgress)]
    cleared = kinds.index(msg.PlayoutCleared)
    assert msg.Truncate in kinds[cleared:]
    assert msg.Commit in kinds[cleared:]
