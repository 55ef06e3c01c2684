"""``handset run``: the headset against a configured edge, until SIGTERM."""

from __future__ import annotations

import argparse
import asyncio
import logging
import signal
import sys
from contextlib import ExitStack
from pathlib import Path

from handset.app import Application, AppSettings
from handset.controls.keyboard import HELP, Keyboard
from handset.controls.lines import LineControl
from handset.core.events import Observe
from handset.hardware import open_hardware
from handset.settings import Settings, load
from handset.starting import Files

log = logging.getLogger("handset")

TOLD = {
    "device.ready": "sound card {route} at {rate} Hz",
    "device.lost": "sound card lost: {reason}",
    "session.open": "connected: session {session}, connection {epoch}",
    "session.refused": "the edge refuses: {reason}",
    "link.lost": "connection {epoch} lost: {reason}",
    "press.denied": "press without effect: {why}",
    "control.there": "control there: {control}",
    "control.lost": "control lost: {control} ({reason})",
    "key.stuck_at_start": "{control}: the key {key} is down as it appears; let go of it once",
    "turn.started": "turn {turn}: listening ({source})",
    "turn.typed": "turn {turn}: typed",
    "turn.held_back": "turn {turn}: waits for a gesture; silence alone does not commit it here",
    "turn.long": "turn {turn}: the talk key has been down for long",
    "microphone": "microphone muted: {muted}",
    "volume": "volume {step} of 10",
    "policy": "manual commit wanted: {require_manual} ({scope})",
    "wearer.consent": "wearer {wearer}: {by}",
    "alert.playing": "alert {alert}: playing, time {plays}",
    "alert.delivered": "alert {alert}: delivered ({how})",
    "alert.acknowledged": "alert {alert}: acknowledged by {by}",
    "alert.undelivered": "alert {alert}: not delivered ({reason})",
    "condition": "this machine: {condition}",
    "turn.committed": "turn {turn}: committed by {source}",
    "turn.abandoned": "turn {turn}: abandoned ({reason})",
    "capture.received": "turn {turn}: received by the service ({samples} samples)",
    "stopping": "stopping: {cause}",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("settings", type=Path, help="the settings file (TOML)")
    parser.add_argument(
        "--control",
        choices=("keyboard", "lines", "none"),
        help="keys beside those that the settings name: of this terminal, lines 'press' and "
        "'release' on standard input, or none (default: the keyboard on a terminal, where the "
        "settings name no control)",
    )


def run(args: argparse.Namespace) -> int:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", stream=sys.stderr)
    for noisy in ("aioice", "aiortc", "aiohttp"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    settings = load(args.settings)
    settings.target()  # a missing credential is said before anything starts
    control = args.control
    if control is None:
        wired = settings.hardware.any or not sys.stdin.isatty()
        control = "none" if wired else "keyboard"
    return asyncio.run(_run(settings, control))


def _tell(record: Observe) -> None:
    if record.kind == "control.fact" and "problem" in record.facts:
        log.warning("%s: %s", record.facts["control"], record.facts["problem"])
    text = TOLD.get(record.kind)
    if text is not None:
        log.info(text.format(**record.facts))


async def _run(settings: Settings, control: str) -> int:
    app = Application(
        AppSettings(
            settings.card,
            settings.target,
            Files(settings.state, settings.runtime),
            settings.handset_id,
            settings.label,
            settings.turn,
            settings.person,
            settings.voice,
            settings.language,
            settings.tasks,
            session=settings.session,
        ),
        _tell,
    )
    if app.recovered:
        log.warning("%d events of an earlier run are to be delivered", len(app.recovered))
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, app.stop, signal.Signals(number).name)
    tasks: list[asyncio.Task[object]] = []
    with ExitStack() as stack:
        open_hardware(settings.hardware, app.intake, app.lamps, stack)
        if control == "keyboard":
            keyboard = stack.enter_context(Keyboard(app.intake))
            log.info("%s", HELP)
            tasks.append(asyncio.ensure_future(_stop_after(keyboard.done, app)))
        elif control == "lines":
            tasks.append(asyncio.ensure_future(LineControl(app.intake).run()))
        await app.run()
    for task in tasks:
        task.cancel()
    kept = len(app.headset.outbox)
    log.info("%d events kept for the next run" if kept else "all events delivered", *[kept][:kept])
    return 0


async def _stop_after(done: asyncio.Event, app: Application) -> None:
    await done.wait()
    app.stop("quit")
