"""The virtual card's own tests: before it may judge anything else, its ground truth is checked
against alsa-lib driven directly (native/vcard/tests/drive.c), whose sample i is i % 32000 + 1.

The build is found through HANDSET_VCARD_DIR or beside the package."""

from __future__ import annotations

import errno
import importlib.util
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from tiers import count

from handset.fakes.virtual_card import (
    CardControl,
    CardEvent,
    Direction,
    EventKind,
    VirtualCard,
    VirtualCardError,
    find_build,
)

ROOT = Path(__file__).resolve().parents[2]
FOREVER = 10**9
PLAYBACK, CAPTURE = Direction.PLAYBACK, Direction.CAPTURE


def numbered(first: int, frames: int) -> np.ndarray:
    return ((np.arange(first, first + frames) % 32000) + 1).astype(np.int16)


@pytest.fixture(scope="session")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    try:
        built = find_build() / "kelter-vcard-drive"
    except VirtualCardError as error:
        pytest.skip(str(error))
    if built.exists():
        return built
    compiler = shutil.which("cc")
    if not compiler:
        pytest.skip("no C compiler for native/vcard/tests/drive.c")
    made = tmp_path_factory.mktemp("drive") / "drive"
    subprocess.run(
        [compiler, "-o", made, ROOT / "native/vcard/tests/drive.c", "-lasound"], check=True
    )
    return made


class Bench:
    """Starts cards and players, and ends them all."""

    def __init__(self, driver: Path) -> None:
        self.driver = driver
        self.players: list[subprocess.Popen[str]] = []
        self.cards: list[VirtualCard] = []

    def card(self, **options: object) -> VirtualCard:
        self.cards.append(VirtualCard(**options))  # type: ignore[arg-type]
        return self.cards[-1]

    def drive(
        self,
        card: CardControl,
        what: str,
        *args: object,
        rate: int = 48000,
        period: int = 480,
        buffer: int = 4800,
    ) -> subprocess.Popen[str]:
        command = [self.driver, what, card.device, rate, period, buffer, *args]
        player = subprocess.Popen(
            [str(word) for word in command],
            env=os.environ | card.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.players.append(player)
        return player

    def play(
        self, card: CardControl, frames: int, end: str, *options: str, **shape: int
    ) -> subprocess.Popen[str]:
        return self.drive(card, "play", frames, end, *options, **shape)

    def capture(
        self, card: CardControl, frames: int, path: Path, *options: str, **shape: int
    ) -> subprocess.Popen[str]:
        return self.drive(card, "capture", frames, path, *options, **shape)

    def close(self) -> None:
        for player in self.players:
            player.kill()
            player.communicate()
        for card in self.cards:
            card.close()


@pytest.fixture
def bench(driver: Path) -> Iterator[Bench]:
    bench = Bench(driver)
    yield bench
    bench.close()


def finish(player: subprocess.Popen[str]) -> list[str]:
    """What the player said, once it has ended by itself."""
    said, _ = player.communicate(timeout=30)
    return said.splitlines()


def python(code: str, card: CardControl) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-P", "-c", code, str(card.directory)],
        env=os.environ | card.environment,
        stdout=subprocess.PIPE,
        text=True,
    )


def wait_for(condition: Callable[[], list[CardEvent]], timeout: float = 10.0) -> list[CardEvent]:
    deadline = time.monotonic() + timeout
    while not (found := condition()):
        assert time.monotonic() < deadline, "condition not reached"
        time.sleep(0.0005)
    return found


def wait_started(card: CardControl, direction: Direction, number: int = 1) -> CardEvent:
    def started() -> list[CardEvent]:
        starts = card.events(EventKind.START, direction=direction)
        return starts[number - 1 :]

    return wait_for(started)[0]


def wait_died(card: CardControl, number: int = 1) -> CardEvent:
    return wait_for(lambda: card.events(EventKind.OWNER_DIED)[number - 1 :])[0]


def only(card: CardControl, kind: EventKind, direction: Direction = PLAYBACK) -> CardEvent:
    (event,) = card.events(kind, direction=direction)
    return event


def assert_sounded(card: CardControl, start: CardEvent, end: CardEvent, first: int = 0) -> None:
    """The stream's tape: its samples from `first` on, whole, from start to end and not a frame
    more."""
    assert end.frame == start.frame + end.sounded
    until = card.wait_committed(start.frame + end.handed + 480)
    record = card.record(start.frame, end.frame)
    assert record.driven.all()
    assert np.array_equal(record.samples, numbered(first, end.sounded))
    assert not card.record(end.frame, until).driven.any()


# --- the tape ------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [(), ("mmap",), ("s32",)], ids=["write", "mmap", "s32"])
@pytest.mark.parametrize("rate", [16000, 44100, 48000])
def test_every_sample_is_on_the_tape_at_its_frame(
    bench: Bench, rate: int, options: tuple[str, ...]
) -> None:
    card = bench.card(rate=rate)
    frames = rate // 2 + 7
    assert finish(bench.play(card, frames, "drain", *options, rate=rate)) == [
        "started 4800",
        f"handed {frames}",
    ]
    start, end = only(card, EventKind.START), only(card, EventKind.DRAINED)
    assert (start.handed, start.period, start.buffer, start.rate) == (4800, 480, 4800, rate)
    assert (end.handed, end.voided) == (frames, 0)
    assert card.runs(0, card.sync()) == [(start.frame, start.frame + frames)]
    assert_sounded(card, start, end)


def test_no_sample_is_on_the_tape_before_its_time(bench: Bench) -> None:
    card = bench.card()
    player = bench.play(card, FOREVER, "drop", buffer=24000)
    start = wait_started(card, PLAYBACK)
    tape = np.memmap(card.directory / "tape", np.int32, "r")
    looks, committed = 0, 0
    while committed < start.frame + 24000:
        committed = card.committed
        assert committed <= card.now_frame()
        written = tape[start.frame : start.frame + 72000].copy()
        now = card.now_frame()
        assert np.flatnonzero(written)[-1:] + start.frame < now
        assert written[: max(0, committed - start.frame)].all()
        looks += 1
    assert looks > 20
    player.kill()
    player.wait()
    end = wait_died(card)
    assert end.voided > 20000, "the player must have been far ahead, or nothing was tested"


def test_stop_voids_what_was_pending(bench: Bench) -> None:
    card = bench.card()
    finish(bench.play(card, 30000, "drop", buffer=14400))
    start, end = only(card, EventKind.START), only(card, EventKind.STOP)
    assert end.handed == 30000
    assert 12000 < end.voided <= 14400
    assert_sounded(card, start, end)


def test_kill_voids_what_was_pending_and_keeps_what_sounded(bench: Bench) -> None:
    card = bench.card()
    chance = random.Random(5)
    for round_ in range(1, count(8, 50, 300) + 1):
        player = bench.play(card, FOREVER, "drop", buffer=2400)
        start = wait_started(card, PLAYBACK, round_)
        card.wait_committed(start.frame + chance.randrange(9600))
        asked = card.now_frame()
        player.kill()
        player.wait()
        end = wait_died(card, round_)
        assert end.pid == player.pid
        assert end.frame >= min(asked, start.frame + end.handed)
        assert 0 < end.voided <= 2400
        assert_sounded(card, start, end)


def test_hidden_latency_delays_the_converter_and_survives_a_stop(bench: Bench) -> None:
    card = bench.card(latency=3000)
    finish(bench.play(card, 9600, "drop"))
    start, end = only(card, EventKind.START), only(card, EventKind.STOP)
    assert start.frame - card.frame_at(start.time_ns) == 3000
    assert end.frame - card.frame_at(end.time_ns) == 3000
    assert_sounded(card, start, end)


def test_an_old_lap_of_the_tape_is_overwritten(bench: Bench) -> None:
    card = bench.card(tape_frames=1 << 14, speed=4.0)
    finish(bench.play(card, 40000, "drain", buffer=19200))
    start, end = only(card, EventKind.START), only(card, EventKind.DRAINED)
    committed = card.wait_committed(end.frame + 4000)
    with pytest.raises(ValueError, match="the tape holds"):
        card.record(start.frame, end.frame)
    first = committed - 8000
    record = card.record(first, committed)
    sounding = end.frame - first
    assert np.array_equal(record.samples[:sounding], numbered(first - start.frame, sounding))
    assert np.array_equal(record.driven, np.arange(8000) < sounding)


# --- the microphone ------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [(), ("mmap",), ("s32", "mmap")], ids=["read", "mmap", "s32"])
@pytest.mark.parametrize("rate", [16000, 44100, 48000])
def test_loopback_is_bit_exact(
    bench: Bench, tmp_path: Path, rate: int, options: tuple[str, ...]
) -> None:
    card = bench.card(rate=rate, loop_gain=1.0, loop_delay=10)
    frames = rate // 2
    recorder = bench.capture(card, frames, tmp_path / "heard", *options, rate=rate)
    heard_from = wait_started(card, CAPTURE).frame
    finish(bench.play(card, frames // 3, "drain", rate=rate))
    assert finish(recorder) == [f"recorded {frames}"]
    heard = np.fromfile(tmp_path / "heard", np.int16)
    card.wait_committed(heard_from + frames)
    before = min(heard_from, 10)
    played = card.record(heard_from - before, heard_from - 10 + frames)
    assert np.count_nonzero(played.samples) == frames // 3
    assert np.array_equal(heard[10 - before :], played.samples)
    assert not heard[: 10 - before].any()


def test_a_late_mapped_reader_gets_all_that_is_behind_the_end_of_the_buffer(
    bench: Bench, tmp_path: Path
) -> None:
    card = bench.card()
    speech = np.random.default_rng(2).integers(-32768, 32767, 48000).astype(np.int16)
    recorder = bench.capture(card, 24000, tmp_path / "heard", "mmap", buffer=9600)
    heard_from = wait_started(card, CAPTURE).frame
    spoken = card.speak(speech)
    card.wait_committed(heard_from + 9600 - 3000)
    recorder.send_signal(signal.SIGSTOP)
    card.wait_committed(heard_from + 9600 + 3000)
    recorder.send_signal(signal.SIGCONT)
    assert finish(recorder) == ["recorded 24000"]
    heard = np.fromfile(tmp_path / "heard", np.int16)[spoken - heard_from :]
    assert np.array_equal(heard, speech[: len(heard)])


def test_speech_arrives_whole_and_mixes_with_the_loop(bench: Bench, tmp_path: Path) -> None:
    card = bench.card(loop_gain=0.5, loop_delay=480)
    recorder = bench.capture(card, 48000, tmp_path / "heard")
    heard_from = wait_started(card, CAPTURE).frame
    speech = np.random.default_rng(1).integers(-32768, 32767, 9000).astype(np.int16)
    soon = card.speak(speech)
    later = card.speak(speech, at_frame=soon + 24000)
    assert later == soon + 24000
    assert card.mic_idle_after() == later + 9000
    bench.play(card, 12000, "drain").wait(10)
    finish(recorder)
    card.wait_committed(heard_from + 48000)
    expected = np.zeros(48000 + heard_from + 60000, np.int32)
    expected[480 : 480 + heard_from + 48000] = card.record(0, heard_from + 48000).samples // 2
    expected[soon : soon + 9000] += speech
    expected[later : later + 9000] += speech
    heard = np.fromfile(tmp_path / "heard", np.int16)
    assert np.array_equal(heard, np.clip(expected, -32768, 32767)[heard_from : heard_from + 48000])
    with pytest.raises(ValueError, match="is past"):
        card.speak(speech, at_frame=soon)


# --- faults --------------------------------------------------------------------------------------


def test_injected_underrun_voids_and_is_reported_once(bench: Bench) -> None:
    card = bench.card()
    assert not card.inject_playback_xrun()
    player = bench.play(card, 24000, "drain")
    card.wait_committed(wait_started(card, PLAYBACK).frame + 5000)
    assert card.inject_playback_xrun()
    said = finish(player)
    first, second = card.events(EventKind.START)
    xrun, end = only(card, EventKind.XRUN), only(card, EventKind.DRAINED)
    assert said == ["started 4800", f"xrun {xrun.handed}", "handed 24000"]
    assert 0 < xrun.voided <= 4800
    assert card.runs(0, card.sync()) == [(first.frame, xrun.frame), (second.frame, end.frame)]
    assert np.array_equal(card.record(first.frame, xrun.frame).samples, numbered(0, xrun.sounded))
    assert_sounded(card, second, end, first=xrun.handed)


def test_a_stopped_player_underruns_after_its_last_sample(bench: Bench) -> None:
    card = bench.card()
    player = bench.play(card, FOREVER, "drop")
    start = wait_started(card, PLAYBACK)
    player.send_signal(signal.SIGSTOP)
    (xrun,) = wait_for(lambda: card.events(EventKind.XRUN))
    assert xrun.voided == 0
    assert_sounded(card, start, xrun)
    player.send_signal(signal.SIGCONT)
    assert wait_started(card, PLAYBACK, 2).frame > xrun.frame


def test_capture_overrun_makes_no_hole_in_playback(bench: Bench, tmp_path: Path) -> None:
    card = bench.card()
    recorder = bench.capture(card, 96000, tmp_path / "heard")
    player = bench.play(card, 48000, "drain")
    start = wait_started(card, PLAYBACK)
    for number in range(1, 11):
        wait_started(card, CAPTURE, number)
        card.wait_committed(start.frame + 4000 * number)
        assert card.inject_capture_xrun()
    assert finish(player) == ["started 4800", "handed 48000"]
    said = finish(recorder)
    assert [line.split()[0] for line in said] == ["xrun"] * 10 + ["recorded"]
    assert len(card.events(EventKind.XRUN, direction=CAPTURE)) == 10
    assert not card.events(EventKind.XRUN, direction=PLAYBACK)
    assert_sounded(card, start, only(card, EventKind.DRAINED))


def test_unplug_freezes_without_an_error_until_replug(bench: Bench, tmp_path: Path) -> None:
    card = bench.card()
    player = bench.play(card, FOREVER, "drop", buffer=4800)
    recorder = bench.capture(card, FOREVER // 1000, tmp_path / "heard")
    start = wait_started(card, PLAYBACK)
    wait_started(card, CAPTURE)
    card.wait_committed(start.frame + 9600)
    card.unplug()
    end = only(card, EventKind.UNPLUG)
    assert 0 < end.voided <= 4800
    assert_sounded(card, start, end)
    assert finish(bench.play(card, 4800, "drop")) == [
        f"failed open: No such device ({errno.ENODEV})"
    ]
    assert (player.poll(), recorder.poll()) == (None, None)

    card.replug()
    finish(bench.play(card, 4800, "drain"))
    assert (player.poll(), recorder.poll()) == (None, None), (
        "an old stream stays dead, and silent about it"
    )
    assert_sounded(
        card, card.events(EventKind.START, direction=PLAYBACK)[-1], only(card, EventKind.DRAINED)
    )
    player.kill()
    recorder.kill()
    player.wait()
    recorder.wait()
    finish(bench.play(card, 4800, "drain"))
    assert not card.events(EventKind.OWNER_DIED)


def status(card: CardControl, half: str) -> str:
    return (card.asound_root / f"card0/{half}/sub0/status").read_text()


def test_each_direction_has_one_holder(bench: Bench) -> None:
    card = bench.card()
    assert status(card, "pcm0p") == "closed\n"
    holder = bench.play(card, FOREVER, "drop")
    wait_started(card, PLAYBACK)
    assert finish(bench.play(card, 100, "drop")) == [
        f"failed open: Device or resource busy ({errno.EBUSY})"
    ]
    assert status(card, "pcm0p").splitlines()[:2] == [
        "state: RUNNING",
        f"owner_pid   : {holder.pid}",
    ]
    assert status(card, "pcm0c") == "closed\n"
    holder.kill()
    holder.wait()
    wait_died(card)
    assert status(card, "pcm0p") == "closed\n"
    assert finish(bench.play(card, 4800, "drain"))[-1] == "handed 4800"


@pytest.mark.parametrize("error", [errno.EBUSY, errno.EACCES])
def test_open_refused_in_one_direction(bench: Bench, tmp_path: Path, error: int) -> None:
    card = bench.card()
    card.refuse(PLAYBACK, error)
    assert finish(bench.play(card, 100, "drop")) == [f"failed open: {os.strerror(error)} ({error})"]
    assert finish(bench.capture(card, 4800, tmp_path / "heard")) == ["recorded 4800"]
    card.refuse(PLAYBACK, None)
    assert finish(bench.play(card, 4800, "drain"))[-1] == "handed 4800"


def test_only_offered_rates_open(bench: Bench, tmp_path: Path) -> None:
    card = bench.card(rates=(48000, 16000))
    assert finish(bench.play(card, 100, "drop", rate=44100)) == [
        f"failed rate: Invalid argument ({errno.EINVAL})"
    ]
    finish(bench.play(card, 8000, "drain", rate=16000))
    assert card.rate == 16000
    assert_sounded(card, only(card, EventKind.START), only(card, EventKind.DRAINED))
    bench.play(card, FOREVER, "drop", rate=16000)
    wait_started(card, PLAYBACK, 2)
    refused = finish(bench.capture(card, 4800, tmp_path / "heard", rate=48000))
    assert refused == [f"failed hw_params: Device or resource busy ({errno.EBUSY})"]


@pytest.mark.parametrize("quantum", [False, True])
def test_pointer_moves_in_periods_when_quantised(bench: Bench, quantum: bool) -> None:
    card = bench.card(quantum=quantum)
    said = finish(bench.play(card, 9600, "watch"))
    pointers = [int(line.split()[1]) for line in said if line.startswith("pointer")]
    assert pointers == sorted(pointers)
    assert len(pointers) > (2 if quantum else 20)
    assert all(pointer % 480 == 0 for pointer in pointers) == quantum
    assert_sounded(card, only(card, EventKind.START), only(card, EventKind.XRUN))


# --- the clock -----------------------------------------------------------------------------------


@pytest.mark.parametrize("ppm", [-200.0, 0.0, 35.5])
def test_drift_changes_the_clock_by_that_much_without_a_jump(bench: Bench, ppm: float) -> None:
    card = bench.card()
    player = bench.play(card, FOREVER, "drop")
    start = wait_started(card, PLAYBACK)
    card.set_clock(drift_ppm=ppm)
    change = card.events(EventKind.CLOCK)[-1]
    assert card.frame_at(change.time_ns) == change.frame
    assert 0 <= change.frame - card.frame_at(change.time_ns - 1) <= 1
    a, b = change.frame + 10, change.frame + 48_000_010
    assert card.time_ns(b) - card.time_ns(a) == pytest.approx(1000e9 / (1 + ppm * 1e-6), abs=500)
    assert card.frame_at(card.time_ns(b)) == b
    assert card.frame_at(card.time_ns(b) - 1) == b - 1
    earliest = card.now_frame()
    committed = card.sync()
    assert earliest <= committed <= card.now_frame(), "the keeper's arithmetic is this module's"
    player.kill()
    player.wait()
    end = wait_died(card)
    assert end.frame == card.frame_at(end.time_ns)
    assert_sounded(card, start, end)


def test_accelerated_clock(bench: Bench) -> None:
    card = bench.card(speed=8.0)
    finish(bench.play(card, 96000, "drain", buffer=38400))
    start, end = only(card, EventKind.START), only(card, EventKind.DRAINED)
    assert_sounded(card, start, end)
    assert 0.25 <= (end.time_ns - start.time_ns) * 1e-9 < 1.0


def test_clock_changes_are_limited_loudly(bench: Bench) -> None:
    card = bench.card()
    with pytest.raises(VirtualCardError, match="ENOSPC"):
        for _ in range(2000):
            card.set_clock(drift_ppm=1.0)


# --- through PortAudio ---------------------------------------------------------------------------

PORTAUDIO = """
import sys, threading
import numpy as np
from handset.fakes.virtual_card import VirtualCard
card = VirtualCard.attach(sys.argv[1])
import sounddevice
blocks, enough = [], threading.Event()
def callback(out, frames, time, status):
    samples = np.arange(len(blocks) * 480, len(blocks) * 480 + 480) % 32000 + 1
    out[:] = samples.astype(np.int16).tobytes()
    blocks.append(bool(status))
    if len(blocks) == 50:
        enough.set()
stream = sounddevice.RawOutputStream(
    samplerate=card.rate, blocksize=480, device=card.device, channels=1, dtype="int16",
    latency=0.02, callback=callback)
stream.start()
assert enough.wait(10)
"""


def portaudio(card: CardControl, code: str) -> str:
    if not importlib.util.find_spec("sounddevice"):  # importing it here would initialise PortAudio
        pytest.skip("sounddevice is not installed")
    return finish(python(PORTAUDIO + code, card))[-1]


def test_portaudio_plays_exactly_and_is_told_the_truth_about_time(bench: Bench) -> None:
    card = bench.card()
    handed = 480 * int(portaudio(card, "stream.abort(); stream.close(); print(len(blocks))"))
    start, end = only(card, EventKind.START), only(card, EventKind.STOP)
    assert (start.handed, start.period, start.buffer) == (1440, 480, 1440), "primed with silence"
    assert end.handed == 1440 + handed
    record = card.record(start.frame, end.frame)
    assert record.driven.all()
    assert not record.samples[:1440].any()
    assert np.array_equal(record.samples[1440:], numbered(0, end.sounded - 1440))


def test_portaudio_stream_stays_active_after_unplug(bench: Bench) -> None:
    card = bench.card()
    code = """
card.unplug()
gone = len(blocks)
card.wait_committed(card.now_frame() + 24000)
print(stream.active, len(blocks) - gone <= 1)
"""
    assert portaudio(card, code) == "True True"
    assert only(card, EventKind.UNPLUG).voided > 0


def test_activating_another_card_switches_portaudio(bench: Bench) -> None:
    card = bench.card(name="first")
    code = """
stream.abort(); stream.close()
with VirtualCard(name="second", rate=16000) as other:
    other.activate()
    sounddevice._terminate(); sounddevice._initialize()
    names = [device["name"] for device in sounddevice.query_devices()]
    refused = ""
    try:
        sounddevice.check_output_settings(device="second", samplerate=48000, dtype="int16")
    except sounddevice.PortAudioError as error:
        refused = str(error)
print(names, refused)
"""
    assert portaudio(card, code) == "['second'] Invalid sample rate [PaErrorCode -9997]"


# --- life ----------------------------------------------------------------------------------------


def test_attach_from_another_process(bench: Bench) -> None:
    card = bench.card(name="other-name")
    code = (
        "import sys; from handset.fakes.virtual_card import VirtualCard\n"
        "with VirtualCard.attach(sys.argv[1]) as card: print(card.device, card.sync())"
    )
    before = card.now_frame()
    (said,) = finish(python(code, card))
    device, frame = said.split()
    assert device == card.device == "other-name"
    assert before <= int(frame) <= card.now_frame()
    assert card.sync() >= int(frame), "the card outlives who attached"


def test_keeper_ends_with_the_one_who_started_it(bench: Bench) -> None:
    code = (
        "import os, signal; from handset.fakes.virtual_card import VirtualCard\n"
        "card = VirtualCard(); print(card.keeper_pid, card.directory, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    (said,) = finish(python(code, bench.card()))
    pid, directory = said.split()
    deadline = time.monotonic() + 10
    while (Path(directory) / "tape").exists() or (Path(directory) / "card").exists():
        assert time.monotonic() < deadline, f"keeper {pid} is still there"
        time.sleep(0.001)
    shutil.rmtree(directory)


def test_close_removes_everything(driver: Path) -> None:
    card = VirtualCard()
    assert (card.directory / "asound.conf").exists()
    card.close()
    card.close()
    assert not card.directory.exists()
    with pytest.raises(ProcessLookupError):
        os.kill(card.keeper_pid, 0)


def test_missing_build_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HANDSET_VCARD_DIR", str(tmp_path))
    with pytest.raises(VirtualCardError, match=r"libasound2-dev.*HANDSET_VCARD_DIR"):
        VirtualCard()
