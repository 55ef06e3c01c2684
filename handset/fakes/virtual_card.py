"""A virtual ALSA sound card that the real sounddevice, PortAudio and ALSA run through.

    with VirtualCard() as card:
        card.activate()
        import sounddevice
        ...play to card.device...
        heard = card.record(0, card.sync())

A keeper process is the card's hardware. It writes each sample to a tape when the sample leaves the
converter, not when it is handed over, and it outlives the program that plays: what that program
drops, or takes with it when it is killed, is never on the tape.

With `speed` above 1 the card's clock runs faster than real time. Callbacks come that much more
often, while PortAudio's time stamps and latencies stay what they would be at speed 1 (time stamps
count real seconds, latencies count frames at the nominal rate).

Needs Linux, libasound2, and the two programs built from native/vcard: beside this module, or in the
directory named by HANDSET_VCARD_DIR.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import socket
import struct
import subprocess
import tempfile
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from handset.fakes.card_tape import CardEvent, CardRecord, CardTape, Direction, EventKind

__all__ = [
    "CardControl",
    "CardEvent",
    "CardRecord",
    "Direction",
    "EventKind",
    "VirtualCard",
    "VirtualCardError",
]

PLUGIN = "libasound_module_pcm_kelter.so"
KEEPER = "kelter-vcard-keeper"

_REQUEST = struct.Struct("=IIqqqq")
_REPLY = struct.Struct("=iIqqqq")
_UNITY_GAIN = 1 << 16
_UNITY_SCALE = 1 << 32
_REPLY_TIMEOUT_S = 5.0
_END_TIMEOUT_S = 10.0

# enum kelter_op
_SYNC, _SCALE, _LOOP, _LATENCY, _QUANTUM, _REFUSE, _INJECT, _PLUG, _RESERVE, _SPEAK = range(64, 74)

_CONFIG = """\
pcm_type.kelter {{ lib "{plugin}" }}
pcm.{name} {{
    type kelter
    directory "{directory}"
    hint {{ show on description "Kelter virtual card" }}
}}
# PortAudio aborts in Pa_Initialize when there are devices but no default one.
pcm.!default {{ type plug slave.pcm "{name}" }}
"""


class VirtualCardError(RuntimeError):
    """The card is not built, did not start, or refused a request."""


def _scale(speed: float, drift_ppm: float) -> int:
    return round(speed * (1 + drift_ppm * 1e-6) * _UNITY_SCALE)


def find_build() -> Path:
    """The directory that holds plugin and keeper."""
    named = os.environ.get("HANDSET_VCARD_DIR")
    directory = Path(named) if named else Path(__file__).parent
    missing = [name for name in (PLUGIN, KEEPER) if not (directory / name).is_file()]
    if missing:
        raise VirtualCardError(
            f"virtual card: no {' and no '.join(missing)} in {directory}. Install ALSA's headers "
            "(Debian: libasound2-dev) and reinstall the package, or build native/vcard with CMake "
            "and name its build directory in HANDSET_VCARD_DIR"
        )
    return directory.resolve()


class CardControl:
    """A running card: its clock, its tape, and its faults. Usable from any process and thread."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._before: dict[str, str | None] = {}
        self._lock = threading.Lock()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.settimeout(_REPLY_TIMEOUT_S)
        try:
            self._connect()
            self._tape = CardTape(directory)
        except BaseException:
            self._socket.close()
            raise

    @classmethod
    def attach(cls, directory: Path | str) -> CardControl:
        """Control of a card that another process started; `close` leaves the card running."""
        return CardControl(Path(directory))

    def _connect(self) -> None:
        # Through the open directory: a socket's path is limited to 107 bytes, a directory's is not.
        fd = os.open(self.directory, os.O_PATH | os.O_DIRECTORY)
        try:
            self._socket.connect(f"/proc/self/fd/{fd}/socket")
        finally:
            os.close(fd)

    def _request(self, op: int, *args: int, direction: int = 0) -> tuple[int, ...]:
        padded = (*args, 0, 0, 0, 0)[:4]
        with self._lock:
            self._socket.send(_REQUEST.pack(op, direction, *padded))
            answer = self._socket.recv(_REPLY.size)
        if len(answer) != _REPLY.size:
            raise VirtualCardError(f"virtual card {self.directory}: the keeper is gone")
        error, _, *values = _REPLY.unpack(answer)
        if error:
            raise VirtualCardError(
                f"virtual card: request {op}{args} refused: {errno.errorcode[error]}"
            )
        return tuple(values)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Lets go of the card. Idempotent."""
        self._deactivate()
        self._socket.close()
        self._tape.close()

    # --- how to reach it ----------------------------------------------------------------------

    @property
    def device(self) -> str:
        """The card's name, as PortAudio and `aplay -D` know it."""
        return (self.asound_root / "card0/id").read_text().strip()

    @property
    def environment(self) -> dict[str, str]:
        """What a program needs in its environment to see this card, and only this card."""
        return {
            "ALSA_CONFIG_PATH": str(self.directory / "asound.conf"),
            "JACK_NO_START_SERVER": "1",
        }

    def activate(self) -> None:
        """Sets this process's environment. Call it before PortAudio initialises (sounddevice does
        so when imported); to switch cards later, activate another one and initialise PortAudio
        again. Closing the card takes it back."""
        for name, value in self.environment.items():
            self._before.setdefault(name, os.environ.get(name))
            os.environ[name] = value

    def _deactivate(self) -> None:
        for name, value in self._before.items():
            if os.environ.get(name) != self.environment[name]:
                continue  # another card is active by now
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
        self._before.clear()

    @property
    def asound_root(self) -> Path:
        """Stands in for /proc/asound: who holds which direction."""
        return self.directory / "asound"

    # --- clock and tape -----------------------------------------------------------------------

    def frame_at(self, mono_ns: int) -> int:
        """The frame leaving the converter at that time."""
        return self._tape.piece_at_time(mono_ns).frame_at(mono_ns)

    def now_frame(self) -> int:
        """The frame leaving the converter now."""
        return self.frame_at(time.monotonic_ns())

    def time_ns(self, frame: int) -> int:
        """When that frame leaves the converter; for one to come, if the clock keeps its present
        speed."""
        return self._tape.piece_at_frame(frame).time_ns(frame)

    @property
    def rate(self) -> int:
        """Nominal frames per second in force."""
        return self._tape.clock()[-1].rate

    @property
    def committed(self) -> int:
        """The tape is final below this frame. Lags behind the clock while nothing runs; see
        `sync`."""
        return self._tape.committed

    def sync(self) -> int:
        """Brings the tape up to the present; returns `committed`."""
        return self._request(_SYNC)[0]

    def wait_committed(self, frame: int, timeout: float = 10.0) -> int:
        """Waits until the tape is final below `frame`; returns `committed`. TimeoutError
        (seconds)."""
        deadline = time.monotonic() + timeout
        while (committed := self.sync()) < frame:
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError(
                    f"virtual card: frame {frame} not reached in {timeout} s; it is at {committed}"
                )
            due = (self.time_ns(frame) - time.monotonic_ns()) * 1e-9
            time.sleep(min(left, max(due, 0.0002)))
        return committed

    def record(self, start: int, stop: int) -> CardRecord:
        """What left the converter in [start, stop). ValueError when that is not, or no longer, on
        tape."""
        return self._tape.read(start, stop, self.sync())

    def runs(self, start: int, stop: int) -> list[tuple[int, int]]:
        """The stretches of [start, stop) in which the converter was driven: (first, last + 1)."""
        driven = np.concatenate(([False], self.record(start, stop).driven, [False])).astype(np.int8)
        edges = np.flatnonzero(np.diff(driven)) + start
        return [(int(first), int(end)) for first, end in edges.reshape(-1, 2)]

    def events(self, *kinds: EventKind, direction: Direction | None = None) -> list[CardEvent]:
        """The log, oldest first, or its entries of some kinds, or of one direction. Raises when
        it overflowed."""
        _, count, lost, _ = self._request(_SYNC)
        if lost:
            raise VirtualCardError(f"virtual card: the event log is full, {lost} events were lost")
        return [
            event
            for event in self._tape.events(0, count)
            if (not kinds or event.kind in kinds) and direction in (None, event.direction)
        ]

    # --- microphone ---------------------------------------------------------------------------

    def speak(self, samples: ArrayLike, at_frame: int | None = None) -> int:
        """Sounds int16 samples in front of the microphone, over whatever else is heard there.
        Returns their first frame: `at_frame`, or about 20 ms from now. ValueError when that is
        past."""
        clip = np.ascontiguousarray(samples, np.int16)
        if clip.ndim != 1 or len(clip) == 0:
            raise ValueError(f"samples of shape {clip.shape}: one channel, at least one sample")
        if at_frame is not None and at_frame < self.now_frame():
            raise ValueError(f"frame {at_frame} is past, the card is at {self.now_frame()}")
        (position, *_) = self._request(_RESERVE, len(clip))
        self._tape.write_arena(position, clip)
        return self._request(_SPEAK, position, len(clip), -1 if at_frame is None else at_frame)[0]

    def mic_idle_after(self) -> int:
        """The frame from which on nothing more has been spoken; 0 when nothing was."""
        return self._request(_SYNC)[3]

    def set_loop(self, gain: float, delay: int) -> None:
        """The microphone hears what was played `delay` frames ago. A gain of 1 is bit exact, 0 is
        no loop."""
        if delay < 0:
            raise ValueError(f"loop delay {delay}: a number of frames, not negative")
        self._request(_LOOP, round(gain * _UNITY_GAIN), delay)

    # --- faults -------------------------------------------------------------------------------

    def inject_playback_xrun(self) -> bool:
        """Ends the running playback stream in an underrun; what it had pending is void. False if
        none ran."""
        return bool(self._request(_INJECT, direction=Direction.PLAYBACK)[0])

    def inject_capture_xrun(self) -> bool:
        """Ends the running capture stream in an overrun. False if none ran."""
        return bool(self._request(_INJECT, direction=Direction.CAPTURE)[0])

    def set_clock(self, *, speed: float = 1.0, drift_ppm: float = 0.0) -> None:
        """Changes the clock's speed from now on, without a jump."""
        self._request(_SCALE, _scale(speed, drift_ppm))

    def set_latency(self, frames: int) -> None:
        """Frames between the position that the card reports and the converter, from the next
        start on."""
        self._request(_LATENCY, frames)

    def set_quantum(self, on: bool) -> None:
        """Whether the reported position moves in whole periods only."""
        self._request(_QUANTUM, int(on))

    def refuse(self, direction: Direction, error: int | None) -> None:
        """Lets opens fail with this errno (EBUSY, EACCES, ...); None allows them again."""
        self._request(_REFUSE, error or 0, direction=direction)

    def unplug(self) -> None:
        """Pulls the card out: streams freeze without an error, what was pending is void, opens
        fail (ENODEV)."""
        self._request(_PLUG, 0)

    def replug(self) -> None:
        """Puts it back. Streams that were open stay dead; new ones can be opened."""
        self._request(_PLUG, 1)


class VirtualCard(CardControl):
    """A card of one's own, from construction to `close`.

    directory: for the card's files, made if need be, removed at `close`. Default: one in /dev/shm.
    name: the device's name.
    rate: frames per second at the start.
    rates: all that the hardware can do, up to 8; `rate` alone by default. One clock serves both
        directions; frames keep counting when an open changes its rate.
    tape_frames: a power of two, 4 bytes each, allocated as used; old frames are overwritten.
    speed, drift_ppm: see `set_clock`.
    loop_gain, loop_delay: see `set_loop`.
    latency, quantum: see `set_latency` and `set_quantum`.
    """

    def __init__(
        self,
        directory: Path | None = None,
        *,
        name: str = "kelter-virtual",
        rate: int = 48000,
        rates: tuple[int, ...] | None = None,
        tape_frames: int = 1 << 24,
        speed: float = 1.0,
        drift_ppm: float = 0.0,
        loop_gain: float = 0.0,
        loop_delay: int = 480,
        latency: int = 0,
        quantum: bool = False,
    ) -> None:
        if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]*", name):
            raise ValueError(f"card name {name!r}: a letter, then letters, digits, '_' and '-'")
        build = find_build()
        directory = directory or Path(tempfile.mkdtemp(prefix="kelter-vcard-", dir="/dev/shm"))
        directory = directory.resolve()
        _lay_out(directory, name, build / PLUGIN)
        offered = (rate, *(other for other in rates or () if other != rate))
        command = [build / KEEPER, directory, tape_frames, _scale(speed, drift_ppm), *offered]
        try:
            self._keeper = _start_keeper([str(word) for word in command])
        except BaseException:
            shutil.rmtree(directory, ignore_errors=True)
            raise
        try:
            super().__init__(directory)
            self.set_loop(loop_gain, loop_delay)
            self.set_latency(latency)
            self.set_quantum(quantum)
        except BaseException:
            self._end(directory)
            raise

    @property
    def keeper_pid(self) -> int:
        """The process that is the card's hardware."""
        return self._keeper.pid

    def close(self) -> None:
        """Ends the keeper and removes the directory. Idempotent."""
        super().close()
        self._end(self.directory)

    def _end(self, directory: Path) -> None:
        _end_keeper(self._keeper)
        shutil.rmtree(directory, ignore_errors=True)


def _lay_out(directory: Path, name: str, plugin: Path) -> None:
    if (directory / "card").exists():
        raise VirtualCardError(
            f"{directory} holds a card already: attach to it, or use another directory"
        )
    for half in ("pcm0p", "pcm0c"):
        (directory / "asound/card0" / half / "sub0").mkdir(parents=True, exist_ok=True)
    (directory / "asound/cards").write_text(f" 0 [{name:<15}]: kelter - Kelter virtual card\n")
    (directory / "asound/card0/id").write_text(f"{name}\n")
    (directory / "asound.conf").write_text(
        _CONFIG.format(plugin=plugin, name=name, directory=directory)
    )


def _start_keeper(command: list[str]) -> subprocess.Popen[bytes]:
    # A session of its own: an interrupt typed at the terminal must not stop the clock before the
    # streams.
    keeper = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    assert keeper.stdout and keeper.stderr
    if keeper.stdout.readline() != b"ready\n":
        reason = keeper.stderr.read().decode(errors="replace").strip()
        _end_keeper(keeper)
        raise VirtualCardError(f"virtual card: the keeper did not start: {reason}")
    return keeper


def _end_keeper(keeper: subprocess.Popen[bytes]) -> None:
    assert keeper.stdin and keeper.stdout and keeper.stderr
    keeper.stdin.close()
    try:
        keeper.wait(_END_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        keeper.kill()
        keeper.wait()
    keeper.stdout.close()
    keeper.stderr.close()
