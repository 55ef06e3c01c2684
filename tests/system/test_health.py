"""How the machine is, from files as the kernel has them."""

from __future__ import annotations

from pathlib import Path

import pytest

from handset.system.health import Health, read_health


def kernel(root: Path, **files: str) -> Path:
    for name, text in files.items():
        file = root / name.replace("__", "/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n")
    return root


@pytest.mark.parametrize(("milli", "hot"), [("79999", False), ("80000", True), ("-5000", False)])
def test_too_hot(tmp_path: Path, milli: str, hot: bool) -> None:
    kernel(tmp_path, thermal__thermal_zone0__temp="41000", thermal__thermal_zone1__temp=milli)
    assert read_health(root=tmp_path) == Health(too_hot=hot)


def test_it_is_over_when_it_is_cooler_than_it_came(tmp_path: Path) -> None:
    seen = None
    states = []
    for milli in ("80000", "76000", "74999", "79000"):
        seen = read_health(seen, kernel(tmp_path, thermal__thermal_zone0__temp=milli))
        states.append(seen.too_hot)
    assert states == [True, True, False, False]


@pytest.mark.parametrize(("name", "low"), [("rpi_volt", True), ("cpu_thermal", False)])
def test_undervoltage_is_the_firmware_s_alarm(tmp_path: Path, name: str, low: bool) -> None:
    kernel(tmp_path, hwmon__hwmon2__name=name, hwmon__hwmon2__in0_lcrit_alarm="1")
    assert read_health(root=tmp_path).undervoltage is low


@pytest.mark.parametrize(
    ("percent", "status", "low", "docked"),
    [
        ("15", "Discharging", True, False),
        ("16", "Discharging", False, False),
        ("3", "Charging", False, True),
        ("100", "Full", False, True),
        ("?", "Unknown", False, False),
    ],
)
def test_a_battery(tmp_path: Path, percent: str, status: str, low: bool, docked: bool) -> None:
    kernel(
        tmp_path,
        power_supply__bat__type="Battery",
        power_supply__bat__capacity=percent,
        power_supply__bat__status=status,
        power_supply__usb__type="USB",
    )
    assert read_health(root=tmp_path) == Health(low_battery=low, docked=docked)


def test_a_machine_without_any_of_it_is_well(tmp_path: Path) -> None:
    assert read_health(root=tmp_path) == read_health(root=tmp_path / "none") == Health()
