"""The microphone, by sample count, while playout is busy beside it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from handset.audio import devices
from handset.audio.capture import Capture, CaptureConfig
from handset.audio.stream import Stream, StreamSettings
from handset.bench.clears import Trials
from handset.bench.rig import Rig
from handset.bench.signals import coded

CLEARS = 20
SPEED = 4.0


def test_nothing_of_the_microphone_is_lost_while_playout_is_cleared(
    make_rig: Callable[..., Rig],
) -> None:
    rig = make_rig(speed=SPEED)
    capture = Capture(CaptureConfig(48_000, seconds=60))
    microphone = devices.find(rig.card.device, "capture", rig.card.asound_root)
    stream = Stream.open(capture, microphone, StreamSettings(), rig.card.asound_root)
    try:
        spoken = coded(100, 0, 384_000)
        first = rig.card.speak(spoken)
        clears = list(Trials(rig, seed=5, speed=SPEED).run(CLEARS))
        rig.card.wait_committed(first + len(spoken) + 4800)
        stretches = capture.read()
        counts = capture.counts()
    finally:
        stream.close()
    gaps = capture.gaps()
    capture.close()
    assert len(clears) == CLEARS and not any(c.restarts for c in clears)
    assert gaps == []
    assert counts is not None and (counts.dropped, counts.missing, counts.overflows) == (0, 0, 0)
    ends = [position + len(samples) for position, samples in stretches]
    assert [position for position, _ in stretches] == [0, *ends[:-1]]
    heard = np.concatenate([samples for _, samples in stretches])
    assert len(heard) <= counts.position
    assert np.array_equal(heard[heard != 0], spoken)
