"""How the machine under the headset is, from the kernel's own files.

=============  =======================================================================
too_hot        any thermal zone at 80 °C or more, where a Raspberry Pi begins to slow
               down; over again below 75 °C
undervoltage   the firmware's alarm (``rpi_volt``: ``in0_lcrit_alarm``)
low_battery    any battery at 15 % or less that is not being charged
docked         any battery is being charged, or full on its charger; None without one
=============  =======================================================================

What is not there, or can't be read, is well: a machine without a battery has none that is
low.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SYS = Path("/sys/class")
HOT_C, COOL_C = 80.0, 75.0
LOW_PERCENT = 15


@dataclass(frozen=True, slots=True)
class Health:
    too_hot: bool = False
    undervoltage: bool = False
    low_battery: bool = False
    docked: bool | None = None


def read_health(before: Health | None = None, root: Path = SYS) -> Health:
    """``before``: the last one, for what needs to be over by more than it came by."""
    hottest = max((n / 1000 for n in _numbers(root / "thermal", "thermal_zone*/temp")), default=0)
    limit = COOL_C if before is not None and before.too_hot else HOT_C
    alarms = [
        alarm
        for chip in sorted(root.glob("hwmon/hwmon*"))
        if _text(chip / "name") == "rpi_volt"
        for alarm in _numbers(chip, "in0_lcrit_alarm")
    ]
    low, docked = False, None
    for supply in sorted(root.glob("power_supply/*")):
        if _text(supply / "type") != "Battery":
            continue
        charging = _text(supply / "status") in ("Charging", "Full")
        docked = charging or bool(docked)
        percent = next(_numbers(supply, "capacity"), 100)
        low = low or (percent <= LOW_PERCENT and not charging)
    return Health(hottest >= limit, any(alarms), low, docked)


def _text(file: Path) -> str:
    try:
        return file.read_text().strip()
    except (OSError, ValueError):
        return ""


def _numbers(folder: Path, pattern: str) -> Iterator[int]:
    for file in sorted(folder.glob(pattern)):
        text = _text(file)
        if text.lstrip("-").isdigit():
            yield int(text)
