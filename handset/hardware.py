"""The controls and lamps of a headset, as the settings name them, opened and closed.

Whatever is not there, or does not work, is told and tried again: no control of them keeps
the headset from starting.
"""

from __future__ import annotations

import logging
from contextlib import ExitStack
from dataclasses import dataclass

from handset.controls import input_buttons, modem_lines, puck
from handset.controls.gpio import GpioButtons
from handset.controls.gpio_chip import lgpio_backend
from handset.controls.gpio_wiring import GpioSettings
from handset.controls.led import GpioLamp, LampSettings
from handset.controls.line_lamp import LineLamp
from handset.controls.modem_lines import LineButton
from handset.errors import DeviceError
from handset.ports import Controls, Lamp

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class InputSettings:
    """``hold``: its talk key says when it goes up; most headset buttons don't."""

    device: str
    grab: bool = True
    hold: bool = False


@dataclass(frozen=True, slots=True)
class Hardware:
    """``wires``: by port, its buttons, and the output that is a lamp (``rts``, ``dtr``), if
    one is."""

    gpio: GpioSettings | None = None
    lamp: LampSettings | None = None
    wires: tuple[tuple[str, tuple[LineButton, ...], str], ...] = ()
    pucks: tuple[str, ...] = ()
    inputs: tuple[InputSettings, ...] = ()

    @property
    def switches(self) -> frozenset[str]:
        """Controls whose talk key can't be held."""
        return frozenset(_input(each) for each in self.inputs if not each.hold)

    @property
    def clean(self) -> frozenset[str]:
        """Controls whose keys were debounced before they came here."""
        return frozenset(map(_input, self.inputs)) | frozenset(map(_puck, self.pucks))

    @property
    def any(self) -> bool:
        return bool(self.gpio or self.wires or self.pucks or self.inputs)


def _input(settings: InputSettings) -> str:
    return f"input {settings.device}"


def _puck(port: str) -> str:
    return f"puck {port}"


def open_hardware(
    hardware: Hardware, controls: Controls, lamps: list[Lamp], stack: ExitStack
) -> None:
    """Everything that the settings name, until ``stack`` is closed."""
    for port in hardware.pucks:
        watcher, lamp = puck.watch(_puck(port), port, controls)
        lamps.append(lamp)
        watcher.start()
        stack.callback(watcher.close)
    for port, buttons, output in hardware.wires:
        wired = LineLamp(output) if output else None
        if wired is not None:
            lamps.append(wired)
        watcher = modem_lines.watch(f"wire {port}", port, buttons, controls, wired)
        watcher.start()
        stack.callback(watcher.close)
    for each in hardware.inputs:
        watcher = input_buttons.watch(_input(each), each.device, controls, grab=each.grab)
        watcher.start()
        stack.callback(watcher.close)
    if hardware.gpio is None and hardware.lamp is None:
        return
    try:
        backend = lgpio_backend()
    except DeviceError as error:
        log.error("%s", error)
        controls.fact("gpio", "problem", str(error))
        return
    if hardware.gpio is not None:
        stack.enter_context(GpioButtons(controls, hardware.gpio, backend))
    if hardware.lamp is not None:
        lamps.append(stack.enter_context(GpioLamp(hardware.lamp, backend, controls)))
