"""A push button's contact: it bounces when it closes, and when it opens.

Small switches bounce for up to 10 ms: the contact closes and opens again, at times that
nobody controls, before it stays. A press is a list of levels with their times.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

MILLISECOND = 1_000_000
LONGEST_BOUNCE_NS = 10 * MILLISECOND


@dataclass(slots=True)
class Contact:
    """``most``: extra contacts on an edge, at most."""

    seed: int = 1
    most: int = 6
    _random: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)

    def edge(self, down: bool, at_ns: int) -> list[tuple[bool, int]]:
        """Levels as a kernel would see them, the first at ``at_ns``; the last one stays."""
        extra = self._random.randint(0, self.most)
        times = sorted(self._random.randrange(1, LONGEST_BOUNCE_NS) for _ in range(2 * extra))
        levels = [(down, at_ns)]
        for n, time in enumerate(times):
            levels.append((down if n % 2 else not down, at_ns + time))
        return levels
