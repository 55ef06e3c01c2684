"""One running PortAudio stream with a C callback: playback or capture, never both.

Two streams, because a duplex one restarts playback on a capture overrun and loses what
was handed over. A stream is never stopped to clear: PortAudio's stop is an abort on ALSA.

The C callback goes in through ``sounddevice._StreamBase``, which is documented for
library authors; the public classes accept a C pointer and then fail silently.
"""

from __future__ import annotations

import os
import re
import time
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import sounddevice as sd
from cffi import FFI

from handset._native import ffi, lib
from handset.audio import devices
from handset.audio.capture import Capture
from handset.audio.devices import ASOUND, Device, Direction
from handset.audio.playout import Playout
from handset.core.messages import Estimate
from handset.core.segments import NO_DELAY, DeviceTiming
from handset.errors import DeviceError, UsageError

SECOND = 1_000_000_000
PRIORITY = 70
"""Of the callback's thread: above everything of ours, below the kernel's USB interrupt
threads where those are threads."""


@dataclass(frozen=True, slots=True)
class StreamSettings:
    """What to ask of the card. ``block`` in ms; ``latency`` in s, PortAudio's meaning.

    10 ms with a latency of 20 ms gives host periods of one block and three of them;
    more latency makes PortAudio pair the callbacks."""

    rate: int = 48_000
    channels: int = 1
    block_ms: float = 10.0
    latency: float = 0.02
    k: Estimate = NO_DELAY
    k_quality: str = "nominal"


@dataclass(frozen=True, slots=True)
class Grant:
    """What the card gave. Frames. ``measured``: period and buffer were read from ALSA,
    not derived from the reported latency."""

    rate: int
    channels: int
    block: int
    period: int
    buffer: int
    latency_s: float
    measured: bool
    realtime: bool
    problem: str = ""

    def timing(self, settings: StreamSettings) -> DeviceTiming:
        return DeviceTiming(
            self.rate, self.period, self.buffer, self.block, settings.k, settings.k_quality
        )


@cache
def _portaudio() -> tuple[Any, Any]:
    """The one PortAudio function that sounddevice does not wrap."""
    own = FFI()
    own.cdef("void PaAlsa_EnableRealtimeScheduling(void *stream, int enable);")
    return own, own.dlopen(sd._libname)


def _ask_realtime(stream: Any) -> None:
    """Lets PortAudio make the callback's thread real-time, as far as the system allows;
    whether it did is read from the thread itself. Before the start of the stream."""
    own, library = _portaudio()
    address = int(sd._ffi.cast("intptr_t", stream._ptr))
    library.PaAlsa_EnableRealtimeScheduling(own.cast("void *", address), 1)


class Stream:
    """Opened by :meth:`open`, running until :meth:`close`. The queue or ring must outlive
    it: close the stream first."""

    def __init__(
        self, stream: Any, port: Any, device: Device, grant: Grant, settings: StreamSettings
    ) -> None:
        self._stream = stream
        self._port = port
        self._status = ffi.new("kh_port_status *")
        self.device = device
        self.grant = grant
        self.timing = grant.timing(settings)

    @classmethod
    def open(
        cls,
        queue: Playout | Capture,
        device: Device,
        settings: StreamSettings,
        root: Path = ASOUND,
        start_timeout: float = 5.0,
        reference: Capture | None = None,
    ) -> Stream:
        """Opens, starts, and waits until callbacks arrive. ``DeviceError`` that names the
        cause otherwise; nothing stays open then. ``reference``: gets what the device of a
        playout gets, block by block; it must outlive the stream."""
        direction: Direction = "playback" if isinstance(queue, Playout) else "capture"
        block = round(settings.rate * settings.block_ms / 1000)
        nominal_ns = round(settings.latency * SECOND)
        make = lib.kh_port_playout if direction == "playback" else lib.kh_port_capture
        if reference is not None:
            _check_reference(reference, direction, settings)
        port = make(queue.handle, nominal_ns, 0)
        if reference is not None:
            lib.kh_port_reference(port, reference.handle)
        stream = None
        try:
            stream = sd._StreamBase(
                kind="output" if direction == "playback" else "input",
                samplerate=settings.rate,
                blocksize=block,
                device=device.index,
                channels=settings.channels,
                dtype="int16",
                latency=settings.latency,
                callback=lib.kh_port_callback(),
                userdata=port,
                finished_callback=sd._ffi.cast("PaStreamFinishedCallback *", _finished_address()),
            )
            _ask_realtime(stream)
            lib.kh_port_timing(port, round(stream.latency * SECOND), _clock_offset_ns(stream))
            stream.start()
        except sd.PortAudioError as error:
            explained = devices.explain(error, device, settings.rate, root)
            if stream is not None:
                stream.close(ignore_errors=True)
            lib.kh_port_close(port)
            raise explained from error
        grant = _grant(stream, device, settings, block, root)
        made = cls(stream, port, device, grant, settings)
        try:
            made._wait_for_callbacks(start_timeout)
        except DeviceError:
            made.close()
            raise
        made._raise_priority()
        return made

    # ---- while it runs ------------------------------------------------------------------------

    @property
    def callbacks(self) -> int:
        """Callbacks made so far. PortAudio keeps a stream of an unplugged card "active";
        only this tells."""
        lib.kh_port_status_get(self._port, self._status)
        return int(self._status.callbacks)

    @property
    def flagged(self) -> int:
        """Callbacks that PortAudio flagged (under- or overflow)."""
        lib.kh_port_status_get(self._port, self._status)
        return int(self._status.flagged)

    @property
    def realtime(self) -> bool:
        lib.kh_port_status_get(self._port, self._status)
        return int(self._status.sched_policy) in (os.SCHED_FIFO, os.SCHED_RR)

    def close(self) -> None:
        """Ends the callbacks; what is in the device's buffer is lost. Idempotent."""
        if self._stream is None:
            return
        self._stream.close(ignore_errors=True)
        self._stream = None
        lib.kh_port_close(self._port)

    # ---- inside -------------------------------------------------------------------------------

    def _wait_for_callbacks(self, timeout: float) -> None:
        deadline = time.monotonic() + timeout
        while self.callbacks < 2:
            if time.monotonic() > deadline:
                raise DeviceError(
                    f"{self.device.direction} on {self.device.name!r}: the stream started but the "
                    f"card asked for nothing in {timeout:g} s. Unplug it and plug it in again."
                )
            time.sleep(0.002)

    def _raise_priority(self) -> None:
        """PortAudio takes the lowest real-time priority there is."""
        problem = ""
        if self.realtime:
            try:
                os.sched_setscheduler(
                    int(self._status.thread_id), os.SCHED_FIFO, os.sched_param(PRIORITY)
                )
            except OSError as error:
                problem = f"priority stays low: {error.strerror}"
        else:
            problem = "no real-time scheduling: allow it with LimitRTPRIO= or rtprio in limits.conf"
        self.grant = replace(self.grant, realtime=self.realtime, problem=problem)


def _check_reference(reference: Capture, direction: Direction, settings: StreamSettings) -> None:
    """The callback hands it the device's own block, so its channels have to be those."""
    given, rate = reference.config.channels, reference.config.rate
    if direction != "playback" or (given, rate) != (settings.channels, settings.rate):
        raise UsageError(
            f"a reference of {given} channels at {rate} Hz on a {direction} stream of "
            f"{settings.channels} at {settings.rate}: only playback has one, and as it is itself"
        )


def _finished_address() -> Any:
    return sd._ffi.cast("void *", int(ffi.cast("intptr_t", lib.kh_port_finished())))


def _clock_offset_ns(stream: Any) -> int:
    """What to add to PortAudio's times. Under ALSA they are CLOCK_MONOTONIC, and the
    difference is the time the call takes."""
    offset = lib.kh_now_ns() - round(stream.time * SECOND)
    return 0 if stream.time == 0 or abs(offset) < SECOND // 10 else int(offset)


def _grant(stream: Any, device: Device, settings: StreamSettings, block: int, root: Path) -> Grant:
    latency = float(stream.latency)
    # PortAudio reports the buffer less one period.
    period, buffer, measured = block, round(latency * settings.rate) + block, False
    for params in devices.proc_files(device, "hw_params", root):
        text = params.read_text()
        p = re.search(r"^period_size\s*:\s*(\d+)", text, re.MULTILINE)
        b = re.search(r"^buffer_size\s*:\s*(\d+)", text, re.MULTILINE)
        if p and b:
            period, buffer, measured = int(p[1]), int(b[1]), True
            break
    return Grant(
        int(stream.samplerate),
        settings.channels,
        block,
        period,
        buffer,
        latency,
        measured,
        realtime=False,
    )
