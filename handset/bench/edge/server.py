"""The bench edge on the network: WHIP, and a control interface beside it.

WHIP (RFC 9725): ``POST /whip`` with an offer and ``Authorization: Bearer`` gives 201, the
answer and a ``Location``; ``DELETE`` on that ends the connection. 401 for a wrong
credential, 503 when there are too many connections.

Control, for the bench only, without a credential and on a loopback address only:

=====================================  ===============================================
``GET /report[?handset=ID]``           everything the edge knows (:mod:`.report`)
``GET /turn/<n>.pcm``                  a turn's sound: 48 kHz, int16, little-endian
``POST /say`` ``{"clips": [...]}``     unprompted speech; gives ``response_id``
``POST /clear/<response_id>``          ask the handset to stop playing a response
``POST /script``                       another script, for the turns to come
``POST /go_away`` ``{"ms": n}``        announce the end of the connection
``POST /end`` ``{"reason": text}``     end the session
``POST /alert``                        an alert (:class:`.alerts.OpenAlert`)
``POST /withdraw/<alert_id>``          take it back
``POST /policy``                       ``{"require_manual": true, "next_turn": false}``
=====================================  ===============================================

Raw audio stays in memory and ends with the process.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import ipaddress
import itertools
import json
import logging
import time
from typing import Any

from aiohttp import web

from handset.core.messages import AlertSource

from .alerts import OpenAlert
from .desk import Desk
from .edge import Edge
from .peer import Peer
from .provider import Script
from .report import empty, report
from .rtc import new_certificate

log = logging.getLogger(__name__)

OFFER_MAX = 64 * 1024
CONNECTIONS_MAX = 8


class Server:
    """``credential``: what a handset has to show. Its certificate lives as long as it."""

    def __init__(
        self, script: Script, credential: str, connections_max: int = CONNECTIONS_MAX
    ) -> None:
        if not credential:
            raise ValueError("the edge needs a credential that handsets have to show")
        self.edge = Edge(script)
        self.certificate, self.fingerprint = new_certificate()
        self.url = ""
        self._credential = credential.encode()
        self._max = connections_max
        self._peers: dict[str, Peer] = {}
        self._numbers = itertools.count(1)
        self._runner: web.AppRunner | None = None
        self._time: asyncio.Task[None] | None = None

    async def start(self, host: str = "127.0.0.1", port: int = 0) -> None:
        """Listen; ``url`` is the WHIP endpoint then. Port 0: any free one."""
        if not ipaddress.ip_address(host).is_loopback:
            raise ValueError(f"{host} is no loopback address; the control interface is open")
        app = web.Application(client_max_size=OFFER_MAX)
        app.add_routes(
            [
                web.post("/whip", self._offer),
                web.delete("/whip/{resource}", self._delete),
                web.get("/report", self._report),
                web.get(r"/turn/{turn:\d+}.pcm", self._pcm),
                web.post("/say", self._say),
                web.post("/clear/{response}", self._clear),
                web.post("/script", self._script),
                web.post("/go_away", self._go_away),
                web.post("/end", self._end),
                web.post("/alert", self._alert),
                web.post("/withdraw/{alert}", self._withdraw),
                web.post("/policy", self._policy),
            ]
        )
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        site = web.TCPSite(self._runner, host, port)
        await site.start()
        address = self._runner.addresses[0]
        shown = f"[{host}]" if ":" in host else host
        self.url = f"http://{shown}:{address[1]}/whip"
        self._time = asyncio.create_task(self.edge.run())

    async def stop(self) -> None:
        if self._time is not None:
            self._time.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._time
        await asyncio.gather(*(peer.close() for peer in self._peers.values()))
        self._peers.clear()
        if self._runner is not None:
            await self._runner.cleanup()

    # ---- WHIP --------------------------------------------------------------------------

    async def _offer(self, request: web.Request) -> web.Response:
        self._admit(request)
        if request.content_type != "application/sdp":
            raise web.HTTPUnsupportedMediaType(text="an offer is application/sdp")
        for resource in [name for name, peer in self._peers.items() if peer.gone]:
            del self._peers[resource]
        if len(self._peers) >= self._max:
            raise web.HTTPServiceUnavailable(
                text=f"{self._max} connections are open", headers={"Retry-After": "2"}
            )
        number = next(self._numbers)
        peer = Peer(number, self.certificate, self.edge.receive)
        resource = f"{number}"
        self._peers[resource] = peer
        try:
            answer = await peer.answer(await request.text())
        except web.HTTPException:
            await self._drop(resource)
            raise
        except Exception as error:  # whatever aiortc makes of what is no usable offer
            await self._drop(resource)
            raise web.HTTPBadRequest(text=f"{type(error).__name__}: {error}"[:400]) from None
        return web.Response(
            status=201,
            text=answer,
            content_type="application/sdp",
            headers={"Location": f"/whip/{resource}"},
        )

    async def _delete(self, request: web.Request) -> web.Response:
        self._admit(request)
        if request.match_info["resource"] not in self._peers:
            raise web.HTTPNotFound
        await self._drop(request.match_info["resource"])
        return web.Response()

    def _admit(self, request: web.Request) -> None:
        scheme, _, shown = request.headers.get("Authorization", "").partition(" ")
        right = hmac.compare_digest(shown.strip().encode(), self._credential)
        if scheme.lower() != "bearer" or not right:
            self.edge.counters["credentials_refused"] += 1
            raise web.HTTPUnauthorized(headers={"WWW-Authenticate": "Bearer"})

    async def _drop(self, resource: str) -> None:
        peer = self._peers.pop(resource, None)
        if peer is not None:
            await peer.close()

    # ---- control -----------------------------------------------------------------------

    def _desk(self, request: web.Request) -> Desk:
        name = request.query.get("handset")
        desk = self.edge.latest if name is None else self.edge.desks.get(name)
        if desk is None:
            raise web.HTTPNotFound(text="no such handset has said hello")
        return desk

    async def _report(self, request: web.Request) -> web.Response:
        quiet = self.edge.latest is None and "handset" not in request.query
        body = empty() if quiet else report(self._desk(request))
        body["edge"] = {
            "fingerprint": self.fingerprint,
            "connections": sum(not peer.gone for peer in self._peers.values()),
            "overrun": sum(peer.overrun for peer in self._peers.values()),
            "counters": dict(self.edge.counters),
        }
        return web.json_response(body)

    async def _pcm(self, request: web.Request) -> web.Response:
        desk, number = self._desk(request), int(request.match_info["turn"])
        session = desk.owner.session
        turn = None if session is None else session.turns.get(number)
        if turn is None or turn.capture is None:
            raise web.HTTPNotFound(text=f"turn {number} was not committed")
        try:
            pcm = desk.assembly.pcm(turn.capture)
        except ValueError as error:
            raise web.HTTPConflict(text=f"turn {number} does not decode: {error}") from None
        if pcm is None:
            raise web.HTTPConflict(text=f"turn {number} is not complete")
        return web.Response(
            body=pcm.astype("<i2").tobytes(), content_type="application/octet-stream"
        )

    async def _say(self, request: web.Request) -> web.Response:
        clips = (await _json(request)).get("clips", [])
        try:
            response_id = self._desk(request).say(tuple(clips), time.monotonic_ns())
        except (TypeError, ValueError) as error:
            raise web.HTTPBadRequest(text=str(error)) from None
        return web.json_response({"response_id": response_id})

    async def _clear(self, request: web.Request) -> web.Response:
        try:
            self._desk(request).clear(request.match_info["response"], time.monotonic_ns())
        except KeyError:
            raise web.HTTPNotFound(text="there is no such response") from None
        return web.json_response({})

    async def _script(self, request: web.Request) -> web.Response:
        try:
            self.edge.use(Script.parse(await request.text()))
        except (TypeError, ValueError) as error:
            raise web.HTTPBadRequest(text=str(error)) from None
        return web.json_response({})

    async def _go_away(self, request: web.Request) -> web.Response:
        left = (await _json(request)).get("ms", 5000)
        if not isinstance(left, int) or left < 0:
            raise web.HTTPBadRequest(text=f"ms is {left!r}")
        self._desk(request).go_away(left, time.monotonic_ns())
        return web.json_response({})

    async def _alert(self, request: web.Request) -> web.Response:
        body = await _json(request)
        try:
            alert = OpenAlert(
                str(body["alert_id"]),
                tuple(body.get("clips", ())),
                body.get("delivery", "when_idle"),
                bool(body.get("acknowledge", False)),
                body.get("expires_in_ms"),
                AlertSource(**body.get("source", {"plane": "bench"})),
            )
            self._desk(request).alert(alert, time.monotonic_ns())
        except (KeyError, TypeError, ValueError) as error:
            raise web.HTTPBadRequest(text=f"no alert: {error}") from None
        return web.json_response({})

    async def _withdraw(self, request: web.Request) -> web.Response:
        try:
            self._desk(request).withdraw(request.match_info["alert"], time.monotonic_ns())
        except KeyError:
            raise web.HTTPNotFound(text="there is no such alert") from None
        return web.json_response({})

    async def _policy(self, request: web.Request) -> web.Response:
        body = await _json(request)
        manual, following = body.get("require_manual"), body.get("next_turn", False)
        if not isinstance(manual, bool) or not isinstance(following, bool):
            raise web.HTTPBadRequest(text="require_manual and next_turn are true or false")
        try:
            self._desk(request).policy(manual, following, time.monotonic_ns())
        except ValueError as error:
            raise web.HTTPBadRequest(text=str(error)) from None
        return web.json_response({})

    async def _end(self, request: web.Request) -> web.Response:
        reason = str((await _json(request)).get("reason", "asked for"))
        self._desk(request).end(reason, time.monotonic_ns())
        return web.json_response({})


async def _json(request: web.Request) -> dict[str, Any]:
    text = await request.text()
    try:
        body = json.loads(text) if text else {}
    except ValueError as error:
        raise web.HTTPBadRequest(text=f"no JSON: {error}") from None
    if not isinstance(body, dict):
        raise web.HTTPBadRequest(text="JSON, but no object")
    return body
