"""The main job, as a user runs it: ``handset bench`` on the simulated card."""

from __future__ import annotations

import json
import subprocess
import sys
import wave
from pathlib import Path

import numpy as np
import pytest

from handset.bench import speech


def _bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "handset.cli", "bench", *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize("rate", [48_000, 44_100, 16_000])
def test_an_interruption_from_the_first_word_to_the_history(tmp_path: Path, rate: int) -> None:
    result = _bench(
        "--rate", str(rate), "--json", str(tmp_path / "r.json"), "--wav", str(tmp_path / "r.wav")
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.splitlines()[0].startswith("SIMULATED sound card"), result.stdout
    assert result.stderr == ""
    found = json.loads((tmp_path / "r.json").read_text())
    assert found["passed"]
    cut, *whole = found["items"]
    for item in found["items"]:
        assert item["received"] == item["handed"] + item["dropped"] + item["queued"]
        assert item["exact"] and item["lost_max"] == 0
    # Three cursors that really differ, and a history that holds only the lowest.
    assert cut["state"] == "cleared"
    assert cut["generated"] > cut["received"] > cut["played"] > 0
    assert cut["at_press"]["lo"] <= cut["at_press"]["est"] <= cut["at_press"]["hi"]
    words = [w.word for w in speech.load(cut["clip"]).words if w.end <= cut["played"]]
    assert cut["words_played"] == " ".join(words)
    assert [item["state"] for item in whole] == ["played", "played"]
    assert all(item["played"] == item["length"] for item in whole)
    with wave.open(str(tmp_path / "r.wav")) as file:
        assert file.getframerate() == rate
        sound = np.frombuffer(file.readframes(file.getnframes()), "<i2")
    # The record's last sample is the last one of the last item: the tape agrees.
    last = found["items"][-1]
    assert last["tape"] == last["handed_frames"]
    assert sound.any()


def test_wav_of_a_real_card_is_refused() -> None:
    result = _bench("--device", "anything", "--wav", "x.wav")
    assert result.returncode == 1
    assert "simulated card" in result.stderr and "Traceback" not in result.stderr
