"""A puck on a serial port: its keys in, its lamp out. The lines are those of
:mod:`handset.core.puck_lines`, where the firmware's side is written down too.
"""

from __future__ import annotations

import select
import threading
import time

import serial

from handset.core.keys import Key
from handset.core.lamp import Pattern
from handset.core.puck_lines import Battery, KeyEdge, Puck, There, lamp_line, line
from handset.errors import DeviceError
from handset.ports import Controls

from .serial_ports import open_port
from .watching import Watcher

HELLO_S = 2.0
"""How long a puck may take for its first words."""
ASK_S = 0.2
LOOK_S = 0.1


class PuckLamp:
    """A :class:`handset.ports.Lamp`. It is said again to a puck that comes back."""

    def __init__(self) -> None:
        self.pattern: Pattern | None = None
        self.shown: Pattern | None = None

    def show(self, pattern: Pattern) -> None:
        self.pattern = pattern


class SerialPuck:
    """One puck, from its hello on; read by :class:`Watcher`'s thread. ``DeviceError`` when
    nothing on the port says hello."""

    def __init__(self, name: str, port: serial.Serial, controls: Controls, lamp: PuckLamp) -> None:
        self._name = name
        self._port = port
        self._controls = controls
        self._lamp = lamp
        self._puck = Puck()
        self._down: frozenset[Key] = frozenset()
        self._wrong = 0
        lamp.shown = None
        self._greet()

    def keys_down(self) -> frozenset[Key]:
        return self._down

    def _greet(self) -> None:
        deadline = time.monotonic() + HELLO_S
        while time.monotonic() < deadline:
            self._port.write(line("?"))
            for fact in self._facts(ASK_S):
                if isinstance(fact, There):
                    self._down = fact.down
                    return
        self._port.close()
        raise DeviceError(
            f"nothing on {self._port.port} says that it is a puck (in {HELLO_S:g} s); "
            "check its firmware and its speed, 115200 baud"
        )

    def _facts(self, timeout: float) -> list[KeyEdge | There | Battery]:
        ready, _, _ = select.select([self._port.fileno()], [], [], timeout)
        if not ready:
            return []
        data = self._port.read(4096)
        if not data:
            raise DeviceError(f"{self._port.port}: unplugged")
        return self._puck.feed(data, time.monotonic_ns())

    def read(self, stop: threading.Event) -> None:
        self._controls.fact(self._name, "puck", self._puck.name)
        while not stop.is_set():
            for fact in self._facts(LOOK_S):
                match fact:
                    case KeyEdge(key, down, at_ns):
                        self._controls.level(self._name, key, down, at_ns)
                    case Battery(percent):
                        self._controls.fact(self._name, "battery", percent)
                    case There(down):  # it was started anew, with other keys
                        self._controls.lost(self._name, time.monotonic_ns(), "started anew")
                        self._controls.back(self._name, time.monotonic_ns(), down)
            if self._puck.dead(time.monotonic_ns()):
                raise DeviceError("no heartbeat")
            if self._puck.wrong != self._wrong:
                self._wrong = self._puck.wrong
                self._controls.fact(self._name, "wrong_lines", self._wrong)
            if self._lamp.pattern is not None and self._lamp.pattern is not self._lamp.shown:
                self._lamp.shown = self._lamp.pattern
                self._port.write(lamp_line(self._lamp.pattern))

    def close(self) -> None:
        self._port.close()


def watch(name: str, port: str, controls: Controls) -> tuple[Watcher, PuckLamp]:
    """The puck on ``port`` (a USB id or a path), for as long as it is there."""
    lamp = PuckLamp()
    return (
        Watcher(name, controls, lambda: SerialPuck(name, open_port(port), controls, lamp)),
        lamp,
    )
