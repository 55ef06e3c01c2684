"""Output volume in steps, and whether what is played can be heard.

Step 0 is mute: the speech lane is held and nothing is handed into silence. An alert counts
as delivered only at ``AUDIBLE`` or above.
"""

from __future__ import annotations

from dataclasses import dataclass

STEPS = 10
AUDIBLE = 3
DB_A_STEP = 3.0


def gain(step: int) -> float:
    """1.0 at the top; 3 dB a step; 0.0 at step 0."""
    return 0.0 if step <= 0 else 10 ** (-DB_A_STEP * (STEPS - step) / 20)


@dataclass(slots=True)
class Volume:
    step: int = STEPS

    def change(self, by: int) -> bool:
        """False when it is at its limit already."""
        before = self.step
        self.step = min(max(before + by, 0), STEPS)
        return self.step != before

    @property
    def gain(self) -> float:
        return gain(self.step)

    @property
    def muted(self) -> bool:
        return self.step == 0

    @property
    def audible(self) -> bool:
        return self.step >= AUDIBLE
