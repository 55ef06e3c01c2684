"""A puck on a serial port: its keys in, its lamp out. The lines are those of
:mod:`handset.core.puck_lines`, where the firmware's side is written down too.
"""

from __future__ import annotations

import os
import select
import threading
import time

import serial

from handset.core.keys import Key
from handset.core.lamp import Pattern
from handset.core.puck_lines import (
    PROTOCOL,
    Battery,
    KeyEdge,
    Puck,
    PuckFact,
    There,
    lamp_line,
    line,
)
from handset.errors import DeviceError
from handset.ports import Controls

from .serial_ports import close_port, open_port
from .watching import Watcher

HELLO_S = 4.0
"""How long a puck may take for its first words: boards that are reset when their port is
opened spend up to 2 s in their boot loader."""
ASK_S = 0.2
LOOK_S = 0.1
LAMP_S = 2.0
"""The lamp is said again, so that a line which was lost or garbled is made good."""
TELL_S = 1.0
"""Between two facts about wrong lines: a noisy cable has thousands."""


class PuckLamp:
    """A :class:`handset.ports.Lamp`. It is said again to a puck that comes back."""

    def __init__(self) -> None:
        self.pattern: Pattern | None = None

    def show(self, pattern: Pattern) -> None:
        self.pattern = pattern


class SerialPuck:
    """One puck, from its hello on; read by :class:`Watcher`'s thread. ``DeviceError`` when
    nothing on the port says hello; then the port is closed."""

    def __init__(
        self,
        name: str,
        port: serial.Serial,
        controls: Controls,
        lamp: PuckLamp,
        stop: threading.Event,
        hello_s: float = HELLO_S,
    ) -> None:
        self._name = name
        self._port = port
        self._controls = controls
        self._lamp = lamp
        self._shown: Pattern | None = None
        self._lamp_at = 0.0
        self._puck = Puck()
        self._down: frozenset[Key] = frozenset()
        self._early: list[PuckFact] = []
        """What came in one piece with its hello."""
        self._wrong, self._wrong_at = 0, 0.0
        self._unsent = b""
        try:
            self._greet(stop, hello_s)
        except BaseException:
            self.close()
            raise

    def keys_down(self) -> frozenset[Key]:
        return self._down

    def _greet(self, stop: threading.Event, hello_s: float) -> None:
        deadline = time.monotonic() + hello_s
        while time.monotonic() < deadline and not stop.is_set():
            self._send(line("?"))
            facts = self._facts(ASK_S)
            for n, fact in enumerate(facts):
                if isinstance(fact, There):
                    self._down, self._early = fact.down, facts[n + 1 :]
                    return
        if self._puck.protocol != PROTOCOL:
            raise DeviceError(
                f"the puck on {self._port.port} speaks protocol {self._puck.protocol}, this "
                f"handset {PROTOCOL}; update the older of the two"
            )
        raise DeviceError(
            f"nothing on {self._port.port} says that it is a puck (in {hello_s:g} s); "
            "check its firmware and its speed, 115200 baud"
        )

    def _facts(self, timeout: float) -> list[PuckFact]:
        ready, _, _ = select.select([self._port.fileno()], [], [], timeout)
        if not ready:
            return []
        data = self._port.read(4096)
        if not data:
            raise DeviceError(f"{self._port.port}: unplugged")
        return self._puck.feed(data, time.monotonic_ns())

    def read(self, stop: threading.Event) -> None:
        self._controls.fact(self._name, "puck", self._puck.name)
        facts = self._early
        while not stop.is_set():
            for fact in facts:
                self._tell(fact)
            if self._puck.dead(time.monotonic_ns()):
                raise DeviceError("no heartbeat")
            self._tell_wrong()
            self._light()
            facts = self._facts(LOOK_S)

    def _tell(self, fact: PuckFact) -> None:
        match fact:
            case KeyEdge(key, down, at_ns):
                self._controls.level(self._name, key, down, at_ns)
            case Battery(percent):
                self._controls.fact(self._name, "battery", percent)
            case There(down):
                self._controls.lost(self._name, time.monotonic_ns(), "started anew")
                self._controls.back(self._name, time.monotonic_ns(), down)
                self._shown = None  # its lamp has forgotten too

    def _tell_wrong(self) -> None:
        now = time.monotonic()
        if self._puck.wrong != self._wrong and now >= self._wrong_at:
            self._wrong, self._wrong_at = self._puck.wrong, now + TELL_S
            self._controls.fact(self._name, "wrong_lines", self._wrong)

    def _light(self) -> None:
        pattern, now = self._lamp.pattern, time.monotonic()
        if pattern is None or (pattern == self._shown and now < self._lamp_at):
            return
        if self._send(lamp_line(pattern)):
            self._shown, self._lamp_at = pattern, now + LAMP_S

    def _send(self, data: bytes) -> bool:
        """False: it does not take it now. A puck that does not read is not waited for, or
        its keys would not be read either."""
        if not self._flush():
            return False
        self._unsent = data
        self._flush()
        return True

    def _flush(self) -> bool:
        if self._unsent:
            try:
                # Not the library's: it spins while the line's buffer is full.
                sent = os.write(self._port.fileno(), self._unsent)
            except BlockingIOError:
                return False
            self._unsent = self._unsent[sent:]
        return not self._unsent

    def close(self) -> None:
        close_port(self._port)


def watch(
    name: str, port: str, controls: Controls, hello_s: float = HELLO_S
) -> tuple[Watcher, PuckLamp]:
    """The puck on ``port`` (a USB id or a path), for as long as it is there."""
    lamp = PuckLamp()

    def opened() -> SerialPuck:
        return SerialPuck(name, open_port(port), controls, lamp, watcher.stop, hello_s)

    watcher = Watcher(name, controls, opened)
    return watcher, lamp
