"""``handset bench --device NAME``: a card by its name, and the space bar as the button."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

from handset.bench import speech
from handset.fakes.virtual_card import VirtualCard

PATIENCE_S = 60


class Terminal:
    """The bench on a pseudo terminal, read line by line."""

    def __init__(self, card: VirtualCard, result: Path) -> None:
        self.keyboard, theirs = pty.openpty()
        bench = [sys.executable, "-P", "-m", "handset.cli", "bench", "--json", str(result)]
        self.process = subprocess.Popen(
            [*bench, "--device", card.device, "--rate", str(card.rate)],
            env={**os.environ, **card.environment, "PYTHONUNBUFFERED": "1"},
            stdin=theirs,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        os.close(theirs)
        self.lines: list[str] = []

    def until(self, text: str) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line)
            if text in line:
                return
        raise AssertionError(f"no {text!r} in:\n" + "".join(self.lines))

    def key(self, key: str) -> None:
        os.write(self.keyboard, key.encode())

    def end(self) -> int:
        assert self.process.stdout is not None
        self.lines += self.process.stdout.readlines()
        code = self.process.wait(PATIENCE_S)
        os.close(self.keyboard)
        return code


def test_a_person_talks_interrupts_and_quits(tmp_path: Path) -> None:
    with VirtualCard() as card:
        terminal = Terminal(card, tmp_path / "r.json")
        try:
            terminal.until("connected")
            for turn in (1, 2):
                clip = speech.load("stop")
                spoken = card.speak(clip.pcm(card.rate), card.now_frame() + card.rate // 4)
                terminal.key(" ")
                terminal.until(f"turn {turn} begins")
                card.wait_committed(spoken + card.rate, PATIENCE_S)
                terminal.key(" ")
                terminal.until(f"turn {turn} committed by toggle")
                terminal.until("a reply begins to arrive")
                card.wait_committed(card.now_frame() + card.rate, PATIENCE_S)
            terminal.key("q")
        except BaseException:
            terminal.process.kill()
            raise
        assert terminal.end() == 0, "".join(terminal.lines)
    text = "".join(terminal.lines)
    # The card is named, and not called simulated: it was asked for by its name.
    assert text.startswith("sound card 'kelter-virtual'")
    assert "clear 1 answered" in text
    assert "checks passed" in text
