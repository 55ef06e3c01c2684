"""Signalling with WHIP (RFC 9725): one POST opens, one DELETE ends. Nothing trickles.

The answer is only used when the certificate it announces is the enrolled one. Its
``.local`` candidates are left out: looking one up by multicast costs a second each and
fails where multicast is missing.

The credential is in the request header and nowhere else: no message, log line or repr of
this module has it, and no error keeps the library's exception, which knows the header.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass, field
from typing import NoReturn

import aiohttp
from yarl import URL

from handset.errors import (
    CredentialRefused,
    EdgeRefused,
    EdgeUnreachable,
    FingerprintMismatch,
    ProtocolMismatch,
    UsageError,
)

POST_SECONDS = 8.0
DELETE_SECONDS = 2.0
MAX_ANSWER = 64 * 1024
"""Bytes of an answer that are read at most."""
MAX_REDIRECTS = 3
_FINGERPRINT = re.compile(r"a=fingerprint:(\S+)\s+(\S+)", re.IGNORECASE)
_ICE_URL = re.compile(r"(stun|turn|turns):[^/?@\s]+(\?transport=(udp|tcp))?")
_HEX_PAIRS = re.compile(r"([0-9A-F]{2}:){31}[0-9A-F]{2}")


@dataclass(frozen=True, slots=True)
class IceServer:
    """A STUN or TURN server. Its password is a secret."""

    url: str
    username: str | None = None
    password: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if not _ICE_URL.fullmatch(self.url):
            raise UsageError(
                f"the ICE server {self.url!r} has not the form stun:host:port, turn:host:port or "
                "turns:host:port, with ?transport=udp or tcp"
            )


@dataclass(frozen=True, slots=True)
class Target:
    """Where the edge is, and how it is known to be the right one.

    ``fingerprint`` is the SHA-256 of the edge's DTLS certificate, 32 hex pairs, with or
    without colons. None accepts what the signalling says, which is as good as its TLS.
    ``ice_servers`` is all there is; none are added. aioice uses one STUN and one TURN
    server, the first of each.
    """

    url: str
    credential: str = field(repr=False)
    fingerprint: str | None = None
    ice_servers: tuple[IceServer, ...] = ()
    allow_loopback: bool = False

    def __post_init__(self) -> None:
        url = _url(self.url)
        if url.user is not None or url.password is not None:
            raise UsageError(f"the edge's address {url.host} holds a credential; give it apart")
        if not self.credential.isascii() or not self.credential.isprintable():
            raise UsageError("the credential has characters that no HTTP header can carry")
        if self.fingerprint is not None:
            normal_fingerprint(self.fingerprint)


@dataclass(frozen=True, slots=True)
class Answer:
    """``resource`` is what a DELETE ends, None when the edge named none."""

    sdp: str
    resource: str | None


def _url(text: str) -> URL:
    try:
        url = URL(text)
    except ValueError:
        url = URL()
    if url.scheme not in ("http", "https") or not url.host:
        raise UsageError("the edge's address is no http:// or https:// URL with a host name")
    return url


def normal_fingerprint(text: str) -> str:
    """Upper-case hex pairs with colons. ``UsageError`` when it is no SHA-256."""
    digits = re.sub(r"^sha-256\s+", "", text.strip(), flags=re.IGNORECASE).upper()
    if ":" not in digits:
        digits = ":".join(digits[i : i + 2] for i in range(0, len(digits), 2))
    if not _HEX_PAIRS.fullmatch(digits):
        raise UsageError(f"the edge's fingerprint {text!r} is no SHA-256: 32 hex pairs are needed")
    return digits


def checked_answer(sdp: str, fingerprint: str | None) -> str:
    """The answer to use: fingerprints other than SHA-256 and ``.local`` candidates left out.

    ``FingerprintMismatch`` when it announces another certificate than ``fingerprint``,
    ``ProtocolMismatch`` when it announces none.
    """
    wanted = None if fingerprint is None else normal_fingerprint(fingerprint)
    announced = set()
    lines = []
    for line in sdp.splitlines():
        if line.lower().startswith("a=fingerprint:"):
            match = _FINGERPRINT.fullmatch(line.strip())
            if match is None or match[1].lower() != "sha-256":
                continue
            announced.add(match[2].upper())
            line = f"a=fingerprint:sha-256 {match[2].upper()}"
        elif line.startswith("a=candidate:") and _is_mdns(line):
            continue
        lines.append(line)
    if not announced:
        raise ProtocolMismatch(
            "the edge's answer has no SHA-256 fingerprint; is this the address of a WHIP endpoint?"
        )
    if wanted is not None and announced != {wanted}:
        found = ", ".join(sorted(announced))[:300]
        raise FingerprintMismatch(
            f"the edge shows the certificate {found}, enrolled is {wanted}; "
            "if its certificate was changed on purpose, enrol it again"
        )
    return "\r\n".join(lines) + "\r\n"


def _is_mdns(line: str) -> bool:
    parts = line.split()
    return len(parts) > 4 and parts[4].lower().endswith(".local")


class Whip:
    """Signalling for one connection."""

    def __init__(self, target: Target, post_seconds: float = POST_SECONDS) -> None:
        self._target = target
        self._post_seconds = post_seconds

    async def offer(self, sdp: str) -> Answer:
        """POST the offer, give the edge's answer, checked.

        ``CredentialRefused`` for 401 and 403, ``EdgeRefused`` for any other status,
        ``EdgeUnreachable`` when there is no answer in time, and as ``checked_answer``.
        """
        url = _url(self._target.url)
        for _ in range(MAX_REDIRECTS + 1):
            status, headers, body = await self._request("POST", url, sdp, self._post_seconds)
            if status not in (307, 308):
                break
            url = self._elsewhere(url, headers.get("Location", ""))
        if status != 201:
            _refuse(url, status, headers.get("Retry-After"))
        location = headers.get("Location")
        resource = None if location is None else str(self._elsewhere(url, location))
        try:
            answer = checked_answer(body, self._target.fingerprint)
        except (FingerprintMismatch, ProtocolMismatch):
            if resource is not None:
                await self.delete(resource)
            raise
        return Answer(answer, resource)

    async def delete(self, resource: str) -> bool:
        """End the session at the edge. False when it could not be told; it will notice."""
        try:
            status, _, _ = await self._request("DELETE", URL(resource), None, DELETE_SECONDS)
        except EdgeUnreachable:
            return False
        return 200 <= status < 300

    async def _request(
        self, method: str, url: URL, body: str | None, seconds: float
    ) -> tuple[int, dict[str, str], str]:
        headers = {"Authorization": f"Bearer {self._target.credential}"}
        if body is not None:
            headers["Content-Type"] = "application/sdp"
        failure = "it took longer than the time limit"
        try:
            async with (
                asyncio.timeout(seconds),
                aiohttp.ClientSession() as http,
                http.request(
                    method, url, data=body, headers=headers, allow_redirects=False
                ) as response,
            ):
                data = await response.content.read(MAX_ANSWER + 1)
                while len(data) <= MAX_ANSWER and (more := await response.content.read(MAX_ANSWER)):
                    data += more
                seen = {
                    name: response.headers[name]
                    for name in ("Location", "Retry-After")
                    if name in response.headers
                }
                if len(data) <= MAX_ANSWER:
                    return response.status, seen, data.decode("utf-8", "replace")
                failure = f"its answer is longer than {MAX_ANSWER} bytes"
        except TimeoutError:
            pass
        except aiohttp.ClientConnectorCertificateError:
            failure = "its TLS certificate is not trusted here"
        except (aiohttp.ClientError, OSError) as error:
            # The class and the system's words only: the exception may hold the request.
            reason = getattr(error, "strerror", None)
            failure = f"{type(error).__name__}{f' ({reason})' if reason else ''}"
        # Outside of `except`: an exception raised there would keep the library's as context.
        raise EdgeUnreachable(
            f"no answer from the edge at {_place(url)} within {seconds:g} s: {failure}; "
            "check its address and that it is running"
        )

    def _elsewhere(self, base: URL, location: str) -> URL:
        """Where the edge points to; only a place that may see the credential."""
        try:
            url = base.join(URL(location))
        except ValueError:
            url = URL()
        same = (url.scheme, url.host, url.port) == (base.scheme, base.host, base.port)
        if not location or not (same or (url.scheme == "https" and url.host)):
            raise ProtocolMismatch(
                f"the edge at {_place(base)} points to {_place(url)!r}, which is neither its own "
                "address nor an https one; the credential does not go there"
            )
        return url


def _place(url: URL) -> str:
    """The address without query and credentials, for messages."""
    return f"{url.scheme}://{url.host}:{url.port}{url.path}"[:200] if url.host else str(url.path)


def _refuse(url: URL, status: int, retry_after: str | None) -> NoReturn:
    place = _place(url)
    if status in (401, 403):
        raise CredentialRefused(
            f"the edge at {place} does not take this handset's credential (HTTP {status}); "
            "enrol the handset again",
            status,
        )
    if status in (404, 405, 415):
        todo = "is this the address of its WHIP endpoint?"
    elif status in (429, 503):
        wait = f"in {retry_after[:20]} s" if retry_after and retry_after.isdigit() else "later"
        todo = f"it is busy; the handset tries again {wait}"
    elif status in (307, 308):
        todo = f"it redirects more than {MAX_REDIRECTS} times; enrol the final address"
    else:
        todo = "see the log of the edge"
    raise EdgeRefused(f"the edge at {place} refused the connection (HTTP {status}); {todo}", status)
