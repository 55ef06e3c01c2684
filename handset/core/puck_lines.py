"""What a microcontroller puck and the handset say to each other, one ASCII line each.

Every line is ``BODY*CC``: two hexadecimal digits of CRC-8 (polynomial 0x07, from 0) over
the body. Whoever reads ignores a line that is wrong. From the puck:

    H 1 NAME KEYS       at its start and when asked: protocol 1, its name, and its keys, by
                        name with commas, in the order in which ``K`` counts them
    K MS C0 C1 ...      at every edge, and every 500 ms: its clock in ms (32 bits), and for
                        each key how often it has changed (modulo 256). Odd: it is down
    B PERCENT           its battery

To the puck:

    ?                   say hello
    L COLOUR LIT:MS ... the lamp: steps to be repeated for ever, 1:500 0:500; one step of 0 ms
                        is steady

A ``K`` that was lost is repaired by the next one: the counters say what happened in
between. A puck that says nothing for 1.5 s is dead. The puck debounces its keys.

Times. The puck's clock is tied to ours by the least delay seen lately: a line can only be
late. A garbled or foreign line never makes a press.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from handset.core.keys import Key
from handset.core.lamp import Pattern

LONGEST = 128
"""Bytes of a line."""
DEAD_NS = 1_500_000_000
MILLISECOND = 1_000_000
_DELAYS = 32
_CLOCK = 1 << 32


def crc8(data: bytes) -> int:
    crc = 0
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc << 1) ^ 0x07 if crc & 0x80 else crc << 1
            crc &= 0xFF
    return crc


def line(body: str) -> bytes:
    """A line as it is sent."""
    return f"{body}*{crc8(body.encode()):02X}\n".encode()


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
    """The puck has said what it has, and what is down now."""

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
    heard_ns: int | None = None
    """When a line was right, newest."""
    _keys: tuple[Key | None, ...] = ()
    _counts: tuple[int, ...] | None = None
    _rest: bytes = b""
    _overlong: bool = False
    _offsets: deque[int] = field(default_factory=lambda: deque(maxlen=_DELAYS))
    _clock: int = 0

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
            self._rest, self._overlong = b"", True
            self.wrong += 1
        return facts

    def dead(self, now_ns: int) -> bool:
        return self.heard_ns is not None and now_ns - self.heard_ns > DEAD_NS

    def _line(self, raw: bytes, now_ns: int) -> list[PuckFact]:
        if not raw:
            return []
        body, star, check = raw.rpartition(b"*")
        if star and len(raw) <= LONGEST and check == f"{crc8(body):02X}".encode():
            words = body.decode("ascii", "replace").split()
            facts = self._words(words, now_ns) if words else None
            if facts is not None:
                self.heard_ns = now_ns
                return facts
        self.wrong += 1
        return []

    def _words(self, words: list[str], now_ns: int) -> list[PuckFact] | None:
        """None: it makes no sense."""
        match words:
            case ["H", "1", name, keys]:
                return self._hello(name, keys)
            case ["K", ms, *counts] if self._keys and len(counts) == len(self._keys):
                if not all(word.isascii() and word.isdigit() for word in (ms, *counts)):
                    return None
                numbers = tuple(int(word) for word in counts)
                if int(ms) >= _CLOCK or any(number > 255 for number in numbers):
                    return None
                return self._counted(int(ms), numbers, now_ns)
            case ["B", percent] if percent.isascii() and percent.isdigit() and len(percent) < 4:
                return [Battery(int(percent))] if int(percent) <= 100 else None
        return None

    def _hello(self, name: str, keys: str) -> list[PuckFact]:
        known = {key.value: key for key in Key}
        self.name = name
        said = tuple(known.get(each) for each in keys.split(","))
        if said != self._keys:
            self._keys, self._counts = said, None
        return []

    def _counted(self, ms: int, counts: tuple[int, ...], now_ns: int) -> list[PuckFact]:
        at_ns = self._time(ms, now_ns)
        before, self._counts = self._counts, counts
        if before is None:
            down = frozenset(k for k, n in zip(self._keys, counts, strict=True) if k and n % 2)
            return [There(down)]
        facts: list[PuckFact] = []
        for key, old, new in zip(self._keys, before, counts, strict=True):
            for n in range(1, (new - old) % 256 + 1):
                if key is not None:
                    facts.append(KeyEdge(key, (old + n) % 2 == 1, at_ns))
        return facts

    def _time(self, ms: int, now_ns: int) -> int:
        """When it happened on our clock: never later than it was told."""
        if ms < self._clock and self._clock - ms < _CLOCK // 2:
            self._offsets.clear()  # it was started anew
        self._clock = ms
        self._offsets.append(now_ns - ms * MILLISECOND)
        return min(min(self._offsets) + ms * MILLISECOND, now_ns)
