from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import aioice.ice
import pytest
from aiohttp import web
from whip_edge import Air, Edge, Events

from handset.edge.aiortc_private import allow_loopback


@pytest.fixture
def air(monkeypatch: pytest.MonkeyPatch) -> Iterator[Air]:
    air = Air()
    patched = air.patched(aioice.ice.Connection.sendto)
    monkeypatch.setattr(aioice.ice.Connection, "sendto", patched)
    yield air


@pytest.fixture
async def edge() -> AsyncIterator[Edge]:
    allow_loopback()
    edge = Edge()
    app = web.Application()
    app.add_routes([web.post("/whip", edge.post), web.delete("/whip/{index}", edge.delete)])
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    edge.port = runner.addresses[0][1]
    yield edge
    await edge.close()
    await runner.cleanup()


@pytest.fixture
def events() -> Events:
    return Events()
