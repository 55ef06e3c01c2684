"""What a microcontroller puck and the handset say to each other, one ASCII line each.

Every line is ``BODY*CCCC``: four hexadecimal digits of CRC-16 (CCITT: polynomial 0x1021, from
0xFFFF) over the body. Whoever reads ignores a line that is wrong, and an empty one.
115,200 baud where that means anything. From the puck:

    H 1 NAME KEYS       at its start and when asked: protocol 1, its name, and its keys, by
                        name with commas, each once, in the order in which ``K`` counts them
    K MS C0 C1 ...      after that ``H``, at every edge, and every 500 ms: its clock in ms
                        (32 bits, from 0 at its start), and for each key how often it has
                        changed since its start (modulo 256). Odd: it is down
    B PERCENT           its battery

To the puck:

    ?                   say hello
    L COLOUR LIT:MS ... the lamp: steps to be repeated for ever, 1:500 0:500; one step of 0 ms
                        is steady. It is said again every 2 s: the same lamp goes on
                        undisturbed

A ``K`` that was lost is repaired by the next one: the counters say what happened in
between. A clock that went back, or a counter that ran further than a hand can press
between two lines, is a puck that was started anew: what is down is then told, and no press
is made of the difference. A puck that says nothing for 1.5 s is dead. The puck debounces its
keys.

Times. The puck's clock is tied to ours by the least delay seen lately: a line can only be
late. A garbled or foreign line never makes a press.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from handset.core.keys import Key
from handset.core.lamp import Pattern

PROTOCOL = "1"
LONGEST = 128
"""Bytes of a line."""
DEAD_NS = 1_500_000_000
MILLISECOND = 1_000_000
_DELAYS = 32
_CLOCK = 1 << 32
_FORWARD_MS = 600_000
"""A clock that is further on than this went back."""
_COUNTED = 100
"""Changes of one key between two lines: more than a hand makes in the 1.5 s after which a
silent puck is dead, and less than half of the counter."""


def crc16(data: bytes) -> int:
    """CRC-16/CCITT-FALSE."""
    crc = 0xFFFF
    for byte in data:
        crc ^= byte << 8
        for _ in range(8):
            crc = (crc << 1) ^ 0x1021 if crc & 0x8000 else crc << 1
        crc &= 0xFFFF
    return crc


def line(body: str) -> bytes:
    """A line as it is sent."""
    return f"{body}*{crc16(body.encode()):04X}\n".encode()


def lamp_line(pattern: Pattern) -> bytes:
    steps = " ".join(f"{int(lit)}:{ms}" for lit, ms in pattern.steps)
    return line(f"L {pattern.colour} {steps}")


@dataclass(frozen=True, slots=True)
class KeyEdge:
    key: Key
    down: bool
    at_ns: int


@dataclass(frozen=True, slots=True)
class There:
    """The puck has said what it has, and what is down now: at first, or started anew."""

    down: frozenset[Key]


@dataclass(frozen=True, slots=True)
class Battery:
    percent: int


PuckFact = KeyEdge | There | Battery


@dataclass(slots=True)
class Puck:
    """``feed(bytes, now)`` -> facts. ``wrong``: lines that were ignored."""

    wrong: int = 0
    name: str = ""
    protocol: str = PROTOCOL
    """What its last hello said. None but ours is understood."""
    heard_ns: int | None = None
    """When a line was right, newest."""
    _keys: tuple[Key | None, ...] = ()
    _counts: tuple[int, ...] | None = None
    _rest: bytes = b""
    _overlong: bool = False
    _offsets: deque[int] = field(default_factory=lambda: deque(maxlen=_DELAYS))
    _clock: int = 0
    """The puck's own, as last said."""
    _ms: int = 0
    """The same without an end."""
    _told_ns: int = 0

    @property
    def greeted(self) -> bool:
        return bool(self._keys)

    def feed(self, data: bytes, now_ns: int) -> list[PuckFact]:
        *lines, self._rest = (self._rest + data).split(b"\n")
        facts: list[PuckFact] = []
        for each in lines:
            if self._overlong:
                self._overlong = False  # the end of one that was too long
            else:
                facts += self._line(each.rstrip(b"\r"), now_ns)
        if len(self._rest) > LONGEST:
            self.wrong += not self._overlong  # one line, in however many pieces
            self._rest, self._overlong = b"", True
        return facts

    def dead(self, now_ns: int) -> bool:
        return self.heard_ns is not None and now_ns - self.heard_ns > DEAD_NS

    def _line(self, raw: bytes, now_ns: int) -> list[PuckFact]:
        if not raw:
            return []
        body, star, check = raw.rpartition(b"*")
        if star and len(raw) <= LONGEST and check == f"{crc16(body):04X}".encode():
            text = body.decode("latin-1")
            readable = text.isascii() and text.isprintable()
            facts = self._words(text.split(" "), now_ns) if readable else None
            if facts is not None:
                self.heard_ns = now_ns
                return facts
        self.wrong += 1
        return []

    def _words(self, words: list[str], now_ns: int) -> list[PuckFact] | None:
        """None: it makes no sense."""
        match words:
            case ["H", protocol, *rest]:
                self.protocol = protocol
                return self._hello(*rest) if protocol == PROTOCOL and len(rest) == 2 else None
            case ["K", *_] if not self._keys:
                return []  # it goes on from before we listened
            case ["K", ms, *counts] if len(counts) == len(self._keys):
                if not all(word.isascii() and word.isdigit() for word in (ms, *counts)):
                    return None
                numbers = tuple(int(word) for word in counts)
                if int(ms) >= _CLOCK or any(number > 255 for number in numbers):
                    return None
                return self._counted(int(ms), numbers, now_ns)
            case ["B", percent] if percent.isascii() and percent.isdigit() and len(percent) < 4:
                return [Battery(int(percent))] if int(percent) <= 100 else None
        return None

    def _hello(self, name: str, keys: str) -> list[PuckFact] | None:
        names = keys.split(",")
        if not name or "" in names or len(set(names)) < len(names):
            return None
        known = {key.value: key for key in Key}
        self.name = name
        said = tuple(known.get(each) for each in names)
        if said != self._keys:
            self._keys, self._counts = said, None
        return []

    def _counted(self, ms: int, counts: tuple[int, ...], now_ns: int) -> list[PuckFact]:
        before, forward = self._counts, (ms - self._clock) % _CLOCK
        if before is None or not self._goes_on(before, counts, forward):
            self._counts, self._clock, self._ms = counts, ms, ms
            self._offsets.clear()
            self._time(now_ns)
            down = frozenset(k for k, n in zip(self._keys, counts, strict=True) if k and n % 2)
            return [There(down)]
        self._counts, self._clock = counts, ms
        self._ms += forward
        at_ns = self._time(now_ns)
        facts: list[PuckFact] = []
        for key, old, new in zip(self._keys, before, counts, strict=True):
            for n in range(1, (new - old) % 256 + 1):
                if key is not None:
                    facts.append(KeyEdge(key, (old + n) % 2 == 1, at_ns))
        return facts

    @staticmethod
    def _goes_on(before: tuple[int, ...], counts: tuple[int, ...], forward: int) -> bool:
        """The same life of the puck, and not one that was started anew."""
        steps = ((new - old) % 256 for old, new in zip(before, counts, strict=True))
        return forward <= _FORWARD_MS and all(step <= _COUNTED for step in steps)

    def _time(self, now_ns: int) -> int:
        """When it happened on our clock: never later than it was told, and in order."""
        self._offsets.append(now_ns - self._ms * MILLISECOND)
        at_ns = min(self._offsets) + self._ms * MILLISECOND
        self._told_ns = max(self._told_ns, at_ns)
        return self._told_ns
