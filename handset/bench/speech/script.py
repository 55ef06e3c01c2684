"""What the clips say, and in which voices: the source that `make.py` speaks.

Rules for a text: ASCII; the everyday business of a site; no money; and none of the words the
handset itself never says of an effect. espeak-ng runs some small words together ("in the", "it is")
and then reports no place for the second one: `make.py` refuses such a text.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Line:
    """What one clip says, who says it, and which utterance it answers."""

    name: str
    speaker: Literal["operator", "assistant"]
    text: str
    answers: str | None = None


SCRIPT = (
    Line("ask-readings", "operator", "Give me last night's vibration readings for fan four."),
    Line("correct-fan", "operator", "Hang on, fan five, I meant, not fan four."),
    Line("ask-due", "operator", "And when is its bearing due for grease?"),
    Line("stop", "operator", "Stop."),
    Line(
        "readings-four",
        "assistant",
        "Fan four ran from ten last evening until six. "
        "At the drive end, vibration began at two point one millimetres per second, "
        "rose to three point four around midnight, and stayed level. "
        "The bearing reached sixty one degrees.",
        answers="ask-readings",
    ),
    Line("yes-five", "assistant", "Yes, fan five, not four.", answers="correct-fan"),
    Line(
        "readings-five",
        "assistant",
        "Fan five stood still until two, then ran for three hours, "
        "and its highest reading was one point eight millimetres per second.",
        answers="correct-fan",
    ),
    Line(
        "due-five",
        "assistant",
        "The outer bearing of fan five was last greased eleven weeks ago, "
        "so it is due within the next nine days.",
        answers="ask-due",
    ),
    Line(
        "grease-five",
        "assistant",
        "Use the blue cartridge from cabinet three, "
        "and turn the shaft slowly by hand while you fill the cup.",
        answers="ask-due",
    ),
)


@dataclass(frozen=True, slots=True)
class Voice:
    """A voice file of espeak-ng, its pace, and the rate of the clips made with it."""

    name: str
    words_per_minute: int
    rate: int


# Both without echo: several variants (f2 to f5 among them) have one, which runs on into the pauses
# and blurs the ends of the words.
VOICES = {
    "operator": Voice("gmw/en", words_per_minute=165, rate=48_000),
    "assistant": Voice("gmw/en-US+f1", words_per_minute=165, rate=24_000),
}
