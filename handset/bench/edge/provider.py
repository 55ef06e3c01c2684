"""A scripted provider: what a model service looks like from an edge, without a model.

For the n-th admitted turn it gives the n-th reply of the script: one or more items, each a
shipped clip. Audio is generated several times faster than it plays, so that *generated*,
*sent* and *played* are three different positions, as they are with a real one. Told to
stop, it stops, but what was on its way arrives all the same.

A script is JSON: ``{"replies": [["readings-four"], ["yes-five", "readings-five"], []],
"unprompted": ["grease-five"], "speed": 8, "think_ms": 150}``. A reply without clips, and
every turn after the last reply, is answered by silence. What the edge asks of a session
(:mod:`.terms`) is in it as well.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from handset.bench import speech
from handset.core.packets import PACKET_SAMPLES

from .history import Word
from .terms import Terms, parse_terms

TERMS = ("require_manual", "require_consent", "disclosure")
PACKET_NS = 20_000_000
LATE_NS = 100_000_000
"""How much generated audio is on its way when the provider is told to stop."""


@dataclass(frozen=True, slots=True)
class Script:
    """``speed``: generated time over played time. ``think_ms``: until the first packet."""

    replies: tuple[tuple[str, ...], ...]
    unprompted: tuple[str, ...] = ()
    speed: float = 8.0
    think_ms: int = 150
    terms: Terms = field(default_factory=Terms)

    def __post_init__(self) -> None:
        told = self.terms.disclosure
        voiced = (told.clip,) if told is not None and told.clip is not None else ()
        for reply in (voiced, self.unprompted, *self.replies):
            for name in reply:
                speech.load(name)
        if not 0.1 <= self.speed <= 100 or not 0 <= self.think_ms <= 60_000:
            raise ValueError(f"speed {self.speed} or think_ms {self.think_ms} is out of range")

    def clips(self, nth: int | None) -> tuple[speech.Clip, ...]:
        """The items for the n-th admitted turn (from 0), or for unprompted speech (null)."""
        if nth is None:
            names = self.unprompted
        else:
            names = self.replies[nth] if nth < len(self.replies) else ()
        return tuple(speech.load(name) for name in names)

    @classmethod
    def parse(cls, text: str) -> Script:
        """From JSON. ``ValueError`` says what is wrong with it."""
        body = json.loads(text)
        if not isinstance(body, dict) or not isinstance(body.get("replies"), list):
            raise ValueError('a script is an object with "replies", a list of lists of clips')
        unknown = set(body) - {"replies", "unprompted", "speed", "think_ms", *TERMS}
        if unknown:
            raise ValueError(f"a script has no {', '.join(sorted(unknown))}")
        return cls(
            tuple(_names(reply) for reply in body["replies"]),
            _names(body.get("unprompted", [])),
            float(body.get("speed", 8.0)),
            int(body.get("think_ms", 150)),
            parse_terms(body),
        )

    @classmethod
    def conversation(cls) -> Script:
        """The shipped conversation: each utterance of the operator with its answers."""
        replies = tuple(
            tuple(name for name in speech.names("assistant") if speech.load(name).answers == asked)
            for asked in speech.names("operator")
        )
        return cls(replies, unprompted=("grease-five",))


def _names(reply: object) -> tuple[str, ...]:
    if not isinstance(reply, list) or not all(isinstance(name, str) for name in reply):
        raise ValueError(f"a reply is a list of names of clips, not {reply!r}")
    return tuple(reply)


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some packets of an item, in order. ``samples``: of the item, generated so far."""

    item_id: str
    packets: tuple[bytes, ...]
    samples: int
    ended: bool


@dataclass(slots=True)
class Item:
    """One item of a reply. ``generated`` in packets."""

    item_id: str
    clip: speech.Clip
    generated: int = 0

    @property
    def words(self) -> tuple[Word, ...]:
        return tuple(Word(word.word, word.start, word.end) for word in self.clip.words)

    @property
    def samples(self) -> int:
        """Samples of the item in the packets generated so far."""
        return samples_in(self.generated, self.clip.rate, self.clip.pre_skip, self.clip.samples)


def samples_in(packets: int, rate: int, pre_skip: int, total: int) -> int:
    """Samples at ``rate`` that the first ``packets`` packets of an item give."""
    return min(total, max(0, packets * PACKET_SAMPLES - pre_skip) * rate // 48_000)


@dataclass(slots=True)
class Generation:
    """One reply in the making. ``advance`` is told how much time has passed."""

    response_id: str
    items: list[Item]
    speed: float
    think_ns: int
    _spent_ns: int = 0
    _made_ns: int = 0
    _limit_ns: int | None = field(default=None)

    @property
    def finished(self) -> bool:
        return all(item.generated == len(item.clip.packets) for item in self.items)

    @property
    def over(self) -> bool:
        """Nothing more will come."""
        return self.finished or (self._limit_ns is not None and self._made_ns >= self._limit_ns)

    def stop(self) -> None:
        """What is on its way still comes; no more than that."""
        if self._limit_ns is None:
            self._limit_ns = self._made_ns + (LATE_NS if self._made_ns else 0)

    def advance(self, passed_ns: int) -> list[Chunk]:
        """What arrives from the provider in the next ``passed_ns`` nanoseconds."""
        self._spent_ns += passed_ns
        due_ns = int(max(0, self._spent_ns - self.think_ns) * self.speed)
        if self._limit_ns is not None:
            due_ns = min(due_ns, self._limit_ns)
        chunks: list[Chunk] = []
        for item in self.items:
            rest = len(item.clip.packets) - item.generated
            count = min(rest, (due_ns - self._made_ns) // PACKET_NS)
            if count > 0:
                begin = item.generated
                item.generated += count
                self._made_ns += count * PACKET_NS
                ended = item.generated == len(item.clip.packets)
                packets = item.clip.packets[begin : item.generated]
                chunks.append(Chunk(item.item_id, packets, item.samples, ended))
            if count < rest:
                break
        return chunks
