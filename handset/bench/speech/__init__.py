"""Speech for the bench: a few short clips, as Opus, with the measured place of every word.

    >>> from handset.bench import speech
    >>> speech.names(speaker="operator")
    ('ask-readings', 'correct-fan', 'ask-due', 'stop')
    >>> reply = speech.load("readings-four")
    >>> reply.packets[0]                    # what an edge would put on the wire
    >>> reply.pcm()                         # int16, exactly reply.samples of them
    >>> reply.words[4].word, reply.words[4].start
    ('ten', 31991)

An operator asks for readings (`ask-readings`), interrupts the reply to correct the request
(`correct-fan`), asks further (`ask-due`, answered by one response of two items), and says `stop`.
`Clip.answers` ties a reply to what it answers; several replies to one utterance are the items of
one response, in the order of `names()`.

The voices are synthetic (espeak-ng), so no person is recorded here. `clip.py` has the file format,
`script.py` the texts; `make.py` makes the files again.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Literal

from .clip import Clip, Made, Word
from .script import SCRIPT

__all__ = ["Clip", "Made", "Word", "load", "names"]


def names(speaker: Literal["operator", "assistant"] | None = None) -> tuple[str, ...]:
    """The clips that ship, in the order of the conversation: utterances first, then replies."""
    return tuple(line.name for line in SCRIPT if speaker in (None, line.speaker))


@cache
def load(name: str) -> Clip:
    """Read one clip, without decoding it. Raises ValueError for a name that does not ship."""
    if name not in names():
        raise ValueError(f"no speech clip is named {name!r}; there are {', '.join(names())}")
    return Clip.from_bytes((files(__name__) / "clips" / f"{name}.opusp").read_bytes())
