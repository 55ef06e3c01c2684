"""Device times that can't be true. The port's callback is called as PortAudio would."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from handset._native import ffi, lib

from handset.audio.playout import Playout, PlayoutConfig
from handset.core.facts import NOMINAL_TIME, Answer
from handset.core.ledger import Ledger
from handset.core.messages import Cause
from handset.core.segments import DeviceTiming

BLOCK = 480
LATENCY_NS = 20_000_000
TIMING = DeviceTiming(48_000, BLOCK, 1440, BLOCK)
SECOND = 1e9
CALLBACK = "int(*)(const void *, void *, unsigned long, const double *, unsigned long, void *)"


class Device:
    """What PortAudio does: a block of output with a time, in seconds, when it will sound."""

    def __init__(self) -> None:
        self.queue = Playout(PlayoutConfig(48_000, seconds=1))
        self.ledger = Ledger(TIMING)
        self.port = lib.kh_port_playout(self.queue.handle, LATENCY_NS, 0)
        self.call: Any = ffi.cast(CALLBACK, lib.kh_port_callback())
        self.out = ffi.new("int16_t[]", BLOCK)

    def block(self, dac_s: float) -> None:
        times = ffi.new("double[3]", [0.0, lib.kh_now_ns() / SECOND, dac_s])
        assert self.call(ffi.NULL, self.out, BLOCK, times, 0, self.port) == 0

    def clear(self, dac_s: float) -> Answer:
        number = self.queue.clear()
        self.ledger.clear(Cause("gesture", lib.kh_now_ns()))
        self.block(dac_s)
        seen = self.queue.look()
        assert seen is not None
        (cut,) = self.ledger.update(*seen)
        assert cut.answer.request == number
        return cut.answer

    def close(self) -> None:
        lib.kh_port_close(self.port)
        self.queue.close()


@pytest.fixture
def device() -> Iterator[Device]:
    device = Device()
    yield device
    device.close()


def test_a_believable_time_is_taken_as_it_is(device: Device) -> None:
    dac_s = lib.kh_now_ns() / SECOND + 0.02
    answer = device.clear(dac_s)
    assert answer.flags == 0
    assert abs(answer.dac_ns - dac_s * SECOND) < 1000


def test_a_time_that_has_just_passed_is_a_late_thread_not_a_lie(device: Device) -> None:
    assert device.clear(lib.kh_now_ns() / SECOND - 0.05).flags == 0


@pytest.mark.parametrize(
    "dac_s",
    [0.0, float("nan"), float("inf"), -1.0, "past", "far"],
)
def test_an_impossible_time_gives_way_to_the_nominal_latency(
    dac_s: float | str, device: Device
) -> None:
    shift = {"past": -1.0, "far": 60.0}
    if isinstance(dac_s, str):
        dac_s = lib.kh_now_ns() / SECOND + shift[dac_s]
    answer = device.clear(dac_s)
    assert answer.flags & NOMINAL_TIME
    assert answer.dac_ns == answer.now_ns + LATENCY_NS
    assert answer.anchor.blocks == 0


def test_without_any_time_the_bound_at_the_request_is_the_whole_buffer(device: Device) -> None:
    item = device.ledger.announce("item", "response", 0, 1, 48_000)
    queued = np.full(20 * BLOCK, 1000, np.int16)
    assert device.queue.write(0, queued, True) == len(queued)
    device.ledger.append("item", len(queued), len(queued))
    for _ in range(10):
        device.block(float("nan"))
    device.clear(0.0)
    estimate = item.at_request
    assert estimate is not None and item.handed == 10 * BLOCK + 240
    assert estimate.lo <= estimate.est <= estimate.hi
    assert estimate.hi - estimate.lo >= TIMING.buffer
    assert item.cursor().exact
