"""``python -m handset.bench.edge --credential-env NAME [--script FILE]``

Prints one line of JSON when it listens: url, fingerprint, pid. Ends on SIGTERM or SIGINT,
and when the process that started it is gone.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import signal
import sys
from pathlib import Path as File

from handset.bench.impair import Path, impaired

from .provider import Script
from .rtc import allow_loopback
from .server import CONNECTIONS_MAX, Server

PARENT_S = 0.5


async def serve(args: argparse.Namespace, script: Script, credential: str) -> None:
    """Until told to stop, or left alone."""
    parent, stopped = os.getppid(), asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    server = Server(script, credential, args.connections)
    await server.start(args.host, args.port)
    started = {"url": server.url, "fingerprint": server.fingerprint, "pid": os.getpid()}
    print(json.dumps(started), flush=True)
    while not stopped.is_set() and os.getppid() == parent:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stopped.wait(), PARENT_S)
    await server.stop()


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m handset.bench.edge", description=__doc__)
    parser.add_argument("--credential-env", required=True, metavar="NAME")
    parser.add_argument("--script", type=File, metavar="FILE", help="JSON; see provider.py")
    parser.add_argument("--host", default="127.0.0.1", help="a loopback address")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--connections", type=int, default=CONNECTIONS_MAX)
    parser.add_argument("--impair", metavar="PATH", help="as loss=0.05,delay_ms=30,seed=7")
    parser.add_argument("--allow-loopback", action="store_true", help="ICE on 127.0.0.1 alone")
    args = parser.parse_args(argv)
    credential = os.environ.pop(args.credential_env, "")
    try:
        if not credential:
            raise ValueError(f"the environment has no {args.credential_env}, or it is empty")
        script = Script.parse(args.script.read_text()) if args.script else Script.conversation()
        path = Path.parse(args.impair) if args.impair else None
    except (OSError, ValueError) as error:
        print(f"bench edge: {error}", file=sys.stderr)
        return 2
    if args.allow_loopback:
        allow_loopback()
    with impaired(path) if path else contextlib.nullcontext():
        asyncio.run(serve(args, script, credential))
    return 0


if __name__ == "__main__":
    sys.exit(main())
