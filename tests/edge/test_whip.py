"""Signalling: who is let in, what is refused, and where the credential never shows."""

from __future__ import annotations

import contextlib
import logging
import socket
import traceback

import pytest
from hypothesis import given
from hypothesis import strategies as st
from whip_edge import CREDENTIAL, Edge

from handset.edge.whip import IceServer, Target, Whip, checked_answer, normal_fingerprint
from handset.errors import (
    CredentialRefused,
    EdgeRefused,
    EdgeUnreachable,
    FingerprintMismatch,
    HandsetError,
    PeerError,
    ProtocolMismatch,
    UsageError,
)

PINNED = ":".join(["AB"] * 32)
OTHER = ":".join(["CD"] * 32)


def answer(*lines: str) -> str:
    return "\r\n".join(["v=0", *lines, "a=mid:0"]) + "\r\n"


def everything_said(error: BaseException | None) -> str:
    """Message, repr, trace and the same of every exception it came from."""
    said = ""
    while error is not None:
        said += "".join(traceback.format_exception(error)) + repr(error) + repr(vars(error))
        error = error.__context__ or error.__cause__
    return said


async def refusal(target: Target, seconds: float = 5.0) -> HandsetError:
    with pytest.raises(HandsetError) as caught:
        await Whip(target, seconds).offer("v=0\r\n")
    assert caught.value.__context__ is None
    assert CREDENTIAL not in everything_said(caught.value)
    return caught.value


async def test_a_wrong_credential(edge: Edge) -> None:
    error = await refusal(edge.target(credential=CREDENTIAL + "-old"))
    assert isinstance(error, CredentialRefused) and error.status == 401
    assert "enrol" in str(error) and "-old" not in everything_said(error)


@pytest.mark.parametrize(
    ("status", "kind", "says"),
    [
        (403, CredentialRefused, "enrol"),
        (404, EdgeRefused, "WHIP endpoint"),
        (503, EdgeRefused, "again in 7 s"),
        (500, EdgeRefused, "log of the edge"),
        (200, EdgeRefused, "HTTP 200"),
    ],
)
async def test_refusals(edge: Edge, status: int, kind: type, says: str) -> None:
    edge.status, edge.headers = status, {"Retry-After": "7"}
    error = await refusal(edge.target())
    assert type(error) is kind and isinstance(error, EdgeRefused) and error.status == status
    assert says in str(error)


async def test_no_answer_in_time(edge: Edge) -> None:
    edge.delay = 5.0
    error = await refusal(edge.target(), seconds=0.2)
    assert isinstance(error, EdgeUnreachable) and "within 0.2 s" in str(error)


async def test_nobody_listens() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    error = await refusal(Target(f"http://127.0.0.1:{port}/whip?key=1", CREDENTIAL))
    assert isinstance(error, EdgeUnreachable)
    assert f"127.0.0.1:{port}/whip " in str(error) and "key=1" not in str(error)


async def test_a_host_that_does_not_exist() -> None:
    error = await refusal(Target("http://edge.invalid/whip", CREDENTIAL))
    assert isinstance(error, EdgeUnreachable) and "edge.invalid" in str(error)


async def test_the_credential_goes_nowhere_else(edge: Edge) -> None:
    edge.status = 307
    for place in ("http://127.0.0.1:9/whip", "ftp://edge/", "", "http://["):
        edge.headers = {"Location": place}
        assert isinstance(await refusal(edge.target()), ProtocolMismatch)
    assert len(edge.requests) == 4
    edge.headers = {"Location": "/whip"}
    error = await refusal(edge.target())
    assert isinstance(error, EdgeRefused) and "redirects more than 3 times" in str(error)


async def test_nothing_is_logged(edge: Edge, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        await refusal(edge.target(credential=CREDENTIAL + "x"))
        edge.status = 500
        await refusal(edge.target())
    assert CREDENTIAL not in caplog.text


def test_secrets_are_in_no_repr() -> None:
    server = IceServer("turn:relay:3478", "me", "relay-password")
    said = repr(Target("https://edge/whip", CREDENTIAL, ice_servers=(server,)))
    assert CREDENTIAL not in said and "relay-password" not in said and "turn:relay" in said


@pytest.mark.parametrize(
    "url", ["", "edge/whip", "ftp://edge/", "https:///x", "http://[", "https://:9"]
)
def test_addresses_that_are_none(url: str) -> None:
    with pytest.raises(UsageError, match="no http"):
        Target(url, "c")


@pytest.mark.parametrize("url", ["", "stun:", "http://relay", "turn:a?transport=x", "turn:u@a"])
def test_ice_servers_that_are_none(url: str) -> None:
    with pytest.raises(UsageError, match="stun:host:port"):
        IceServer(url)


def test_misplaced_or_broken_credentials() -> None:
    with pytest.raises(UsageError) as caught:
        Target("https://me:hidden@edge/whip", "c")
    assert "hidden" not in str(caught.value)
    with pytest.raises(UsageError) as caught:
        Target("https://edge/whip", "hid\nden")
    assert "hid" not in str(caught.value)


def test_fingerprints_are_compared_in_one_form() -> None:
    for form in (PINNED, PINNED.lower(), "ab" * 32, f"sha-256 {PINNED}", f"SHA-256  {PINNED}"):
        assert normal_fingerprint(form) == PINNED
    for wrong in ("", "AB" * 31, "XY" * 32, f"sha-1 {PINNED}"):
        with pytest.raises(UsageError, match="32 hex pairs"):
            normal_fingerprint(wrong)


@pytest.mark.parametrize(
    "lines",
    [
        [f"a=fingerprint:sha-256 {OTHER}"],
        [f"a=fingerprint:sha-256 {PINNED}", f"a=fingerprint:sha-256 {OTHER}"],
        [f"a=fingerprint:SHA-256 {OTHER}", f"a=fingerprint:sha-256 {PINNED}"],
        [f"a=fingerprint:sha-256 {PINNED[:-3]}"],
    ],
)
def test_another_certificate(lines: list[str]) -> None:
    with pytest.raises(FingerprintMismatch, match="enrol it again"):
        checked_answer(answer(*lines), PINNED)


def test_an_answer_without_a_certificate() -> None:
    for lines in ([], ["a=fingerprint:sha-512 AB"], ["a=fingerprint:sha-256"]):
        for pinned in (PINNED, None):
            with pytest.raises(ProtocolMismatch, match="no SHA-256 fingerprint"):
                checked_answer(answer(*lines), pinned)


def test_only_what_was_checked_is_used() -> None:
    """Were another hash left in, a section that has only that one would escape the pin."""
    used = checked_answer(
        answer(
            f"a=fingerprint:Sha-256 {PINNED.lower()}",
            "a=fingerprint:sha-512 EF:EF",
            "a=candidate:1 1 udp 2130706431 10.0.0.7 5000 typ host",
            "a=candidate:2 1 udp 2130706431 2b9f-77.local 5000 typ host",
            "a=candidate:3 1 udp 2130706431 X.LOCAL 5000 typ host",
        ),
        PINNED,
    )
    assert used == answer(
        f"a=fingerprint:sha-256 {PINNED}", "a=candidate:1 1 udp 2130706431 10.0.0.7 5000 typ host"
    )


@given(
    st.text(max_size=200)
    | st.just("a=fingerprint:sha-256 ").flatmap(
        lambda head: st.text(max_size=99).map(lambda tail: head + tail)
    )
)
def test_any_answer_is_used_or_refused(text: str) -> None:
    for pinned in (PINNED, None):
        with contextlib.suppress(PeerError):
            assert isinstance(checked_answer(text, pinned), str)
