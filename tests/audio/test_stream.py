"""The life of a stream: started once, never stopped to clear, watched by its callbacks."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable

import sounddevice as sd
from voice import Voice

from handset.audio.stream import StreamSettings
from handset.bench.clears import Trials
from handset.bench.rig import Rig
from handset.fakes.virtual_card import Direction, EventKind


def test_the_private_class_that_takes_a_c_callback_is_as_we_know_it() -> None:
    assert list(inspect.signature(sd._StreamBase.__init__).parameters) == [
        "self", "kind", "samplerate", "blocksize", "device", "channels", "dtype", "latency",
        "extra_settings", "callback", "finished_callback", "clip_off", "dither_off",
        "never_drop_input", "prime_output_buffers_using_stream_callback", "userdata",
        "wrap_callback",
    ]  # fmt: skip


def test_clears_never_stop_the_stream(make_rig: Callable[..., Rig]) -> None:
    rig = make_rig(speed=10.0)
    clears = list(Trials(rig, seed=3, speed=10.0).run(20))
    assert sum(clear.requests for clear in clears) >= 20
    ours = {EventKind.START: 0, EventKind.STOP: 0, EventKind.XRUN: 0}
    for event in rig.card.events(*ours, direction=Direction.PLAYBACK):
        ours[event.kind] += 1
    assert ours[EventKind.START] - ours[EventKind.XRUN] == 1
    assert ours[EventKind.STOP] == 0
    rig.stream.close()
    assert len(rig.card.events(EventKind.STOP, direction=Direction.PLAYBACK)) == 1


def test_an_unplugged_card_shows_in_the_callbacks_alone(voice: Voice) -> None:
    stream = voice.rig.stream
    before = stream.callbacks
    voice.until(lambda: stream.callbacks > before + 2)
    voice.rig.card.unplug()
    frozen = stream.callbacks
    due = voice.rig.card.now_frame() + 9600
    voice.until(lambda: voice.rig.card.now_frame() > due)
    assert stream.callbacks - frozen <= 1  # one may have been under way
    assert stream._stream.active
    started = time.monotonic()
    stream.close()
    assert time.monotonic() - started < 5


def test_two_streams_one_after_the_other(make_rig: Callable[..., Rig]) -> None:
    for _ in range(2):
        voice = Voice(make_rig(StreamSettings()))
        item = voice.say(1, 4800)
        voice.until_silent()
        assert voice.reading().heard[0].upto == item.handed == 4800
        voice.rig.close()
