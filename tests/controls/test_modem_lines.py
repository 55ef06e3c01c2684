"""A button on a modem-control line: polled, or woken and counted by the driver."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from recorder import Recorder
from tiers import count

from handset.controls.line_lamp import LineLamp
from handset.controls.modem_lines import (
    BEHIND,
    MOST,
    POLLED,
    WOKEN,
    LineButton,
    ModemLines,
    ModemPort,
)
from handset.controls.watching import Watcher
from handset.core.keys import Key
from handset.core.lamp import Pattern
from handset.errors import DeviceError, UsageError
from handset.fakes.contact import Contact
from handset.fakes.modem_port import FakeModemPort

ADAPTERS = {
    "16550, pl2303": {},
    "ftdi_sio": {"late": True},
    "cp210x": {"waits": False, "dumb": True},
    "counts, can't wait": {"waits": False},
    "waits, never counts": {"dumb": True},
    "neither": {"counts": False, "waits": False},
}


@contextmanager
def watched(
    port: FakeModemPort, *buttons: LineButton, lamp: LineLamp | None = None
) -> Iterator[Recorder]:
    told = Recorder()

    def opened() -> ModemLines:
        if port.closed:
            raise DeviceError("no serial accessory 0403:6001 is plugged in; there is none at all")
        return ModemLines("wire", port, buttons, told, lamp)

    watcher = Watcher("wire", told, opened)
    watcher.start()
    try:
        told.until(lambda: bool(told.said("how")))
        yield told
    finally:
        watcher.close()


@pytest.mark.parametrize("adapter", ADAPTERS)
@pytest.mark.parametrize("active", [False, True])
@pytest.mark.parametrize("line", ["cts", "ri"])
def test_press_and_release_with_any_adapter(adapter: str, active: bool, line: str) -> None:
    port = FakeModemPort(on="" if active else line, **ADAPTERS[adapter])
    with watched(port, LineButton(line, active=active)) as told:
        assert told.life == [("back", "")]
        for n in range(1, 41):
            port.set(line, active == bool(n % 2))
            told.until(lambda n=n: len(told.levels) == n)
            port.report()
    assert told.edges() == [True, False] * 20
    assert told.life == [("back", "")]
    if line == "ri":  # its counter has one edge of two
        assert told.said("how") == [POLLED]


@pytest.mark.parametrize(
    ("adapter", "last"),
    list(zip(ADAPTERS, [WOKEN, WOKEN, *[POLLED] * 4], strict=True)),
)
def test_only_what_a_driver_was_seen_to_do_is_relied_on(adapter: str, last: str) -> None:
    port = FakeModemPort(**ADAPTERS[adapter])
    with watched(port, LineButton("cts")) as told:
        assert told.said("how") == [POLLED]
        for n in range(1, 2 * BEHIND + 1):
            port.set("cts", bool(n % 2))
            told.until(lambda n=n: len(told.levels) == n)
            port.report()
        if last == WOKEN:
            told.until(lambda: told.said("how") == [POLLED, WOKEN])
    assert told.said("how") == ([POLLED, WOKEN] if last == WOKEN else [POLLED])
    assert told.edges() == [True, False] * BEHIND


def test_a_counter_that_stops_is_relied_on_no_more() -> None:
    port = FakeModemPort()
    with watched(port, LineButton("cts")) as told:
        port.pulse("cts")
        told.until(lambda: told.said("how") == [POLLED, WOKEN])
        port.dumb = True
        for n in range(1, BEHIND + 2):
            port.set("cts", bool(n % 2))
            told.until(lambda n=n: len(told.levels) == 2 + n)
        told.until(lambda: told.said("how") == [POLLED, WOKEN, POLLED])
    assert told.edges() == [True, False] * (BEHIND // 2 + 1) + [True]


def test_an_edge_between_the_line_and_its_counter_is_told_once() -> None:
    port = FakeModemPort(waits=False)
    with watched(port, LineButton("cts")) as told:
        for n in range(1, 21):
            port.between = lambda n=n: port.set("cts", bool(n % 2))
            told.until(lambda n=n: len(told.levels) >= n)
    assert told.edges() == [True, False] * 10


def test_a_lone_count_is_no_press() -> None:
    """A UART counts a very short pulse once, and nobody's hand is that fast."""
    port = FakeModemPort()
    with watched(port, LineButton("cts")) as told:
        port.glitch("cts")
        port.set("cts", True)
        told.until(lambda: told.edges() == [True])
        port.set("cts", False)
        told.until(lambda: len(told.levels) == 2)
    assert told.edges() == [True, False]


def test_a_pulse_between_two_looks_is_two_edges() -> None:
    port = FakeModemPort()
    with watched(port, LineButton("dsr"), LineButton("dcd", Key.CANCEL)) as told:
        port.pulse("dsr")
        told.until(lambda: len(told.levels) == 2)
        port.set("dcd", True)
        told.until(lambda: len(told.levels) == 3)
        port.pulse("dcd")
        told.until(lambda: len(told.levels) == 5)
    assert told.edges() == [True, False]
    assert told.edges(Key.CANCEL) == [True, False, True]


@pytest.mark.grows
@pytest.mark.parametrize("adapter", ADAPTERS)
def test_a_contact_that_bounces_loses_no_press(adapter: str) -> None:
    """Raw levels alternate, end as the contact does, and where they are counted all are told."""
    port = FakeModemPort(contact=Contact(seed=11), **ADAPTERS[adapter])
    presses = count(15, 150, 500)
    with watched(port, LineButton("cts")) as told:
        for _ in range(presses):
            begun = len(told.levels)
            port.set("cts", True)
            told.until(lambda begun=begun: len(told.levels) > begun and told.edges()[-1])
            port.set("cts", False)
            port.report()
            told.until(lambda: not told.edges()[-1])
        if adapter in ("16550, pl2303", "counts, can't wait", "ftdi_sio"):
            told.until(lambda: len(told.levels) == port.edges["cts"])
    edges = told.edges()
    assert edges == [n % 2 == 0 for n in range(len(edges))]
    assert 2 * presses <= len(edges) <= port.edges["cts"]


@pytest.mark.grows
@pytest.mark.parametrize("adapter", ["16550, pl2303", "cp210x"])
def test_every_press_arrives_once_and_in_order(adapter: str) -> None:
    port = FakeModemPort(**ADAPTERS[adapter])
    presses = count(300, 10_000, 10_000)
    with watched(port, LineButton("cts")) as told:
        for n in range(1, 2 * presses + 1):
            port.set("cts", bool(n % 2))
            told.until(lambda n=n: len(told.levels) >= n)
    assert told.edges() == [True, False] * presses
    times = [at_ns for *_, at_ns in told.levels]
    assert times == sorted(times)


def test_down_at_its_start_and_unplugged() -> None:
    port = FakeModemPort(counts=False, waits=False, on="cts")
    with watched(port, LineButton("cts")) as told:
        assert told.life == [("back", "talk")]
        port.unplug()
        told.until(lambda: bool(told.said("problem")))
        assert told.life[1] == ("lost", "[Errno 19] ENODEV")
        assert told.levels == []


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_a_request_that_fails_once_is_no_lost_control(adapter: str) -> None:
    port = FakeModemPort(**ADAPTERS[adapter])
    with watched(port, LineButton("cts")) as told:
        port.fail(errno.EPROTO, errno.ETIMEDOUT)
        port.set("cts", True)
        told.until(lambda: told.edges() == [True])
    assert told.life == [("back", "")]


def test_a_request_that_goes_on_failing_is_one() -> None:
    port = FakeModemPort(counts=False, waits=False)
    with watched(port, LineButton("cts")) as told:
        port.fail(*[errno.EPROTO] * 100)
        told.until(lambda: told.life[-1] == ("lost", "[Errno 71] EPROTO"))


def test_a_line_with_nothing_on_it_is_told_and_counted_no_more() -> None:
    port = FakeModemPort()
    with watched(port, LineButton("cts")) as told:
        port.pulse("cts", MOST)
        told.until(lambda: bool(told.said("problem")))
        assert "is anything connected" in str(told.said("problem")[0])
        assert told.levels == []
        port.pulse("cts", MOST)
        port.set("cts", True)
        told.until(lambda: told.edges() == [True])
        assert told.said("how")[-1] == POLLED


def test_a_lamp_on_an_output() -> None:
    port, now = FakeModemPort(), 0
    lamp = LineLamp("dtr", clock=lambda: now)
    blink = Pattern("blink", "red", ((True, 100), (False, 100)))
    lamp.show(blink)
    assert [lamp.lit(ms * 1_000_000) for ms in (0, 99, 100, 199, 200)] == [
        True, True, False, False, True
    ]  # fmt: skip
    lamp.show(Pattern("none", "off", ((True, 0),)))
    assert not lamp.lit(0)
    assert LineLamp("rts", active=False).lit(0)  # dark is high
    with watched(port, LineButton("cts"), lamp=lamp):
        lamp.show(Pattern("on", "green", ((True, 0),)))
        port.until(lambda: ("dtr", True) in port.driven)
    assert port.driven[-1] == ("dtr", True)
    with pytest.raises(UsageError, match="rts and dtr"):
        LineLamp("cts")


def test_a_port_without_such_lines_says_so() -> None:
    ours, theirs = os.openpty()
    try:
        with pytest.raises(DeviceError, match="has no modem-control lines"):
            ModemPort(os.ttyname(theirs))
    finally:
        os.close(ours)
        os.close(theirs)
