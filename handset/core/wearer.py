"""Who wears the headset: told once that the counterpart is an AI system, and asked once
whether the microphone may be used.

Rules:

1. Both belong to a wearer's session. A new one begins with a new session at the edge, after
   the headset was docked, after hours without a gesture, and by the new-wearer gesture.
2. Nothing of a reply is played before the person was told, to the end: the edge's own text
   where it has one (voiced by the edge), else the shipped prompt.
3. Consent to capture: where the edge requires it, the microphone is off (zeros) until a
   gesture, after it was asked for, agrees. Elsewhere the talk gesture itself is the consent.
4. Consent to recording is another thing, and is never assumed: it is off.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

By = Literal["talk", "acknowledge", "disclosure", "new_wearer", "policy"]
SHIPPED = "shipped"


@dataclass(frozen=True, slots=True)
class WearerSettings:
    """``disclose`` is off only where no person is (a bench that counts samples)."""

    disclose: bool = True
    require_consent: bool = False
    idle_ns: int = 4 * 3_600 * 1_000_000_000


class Wearer:
    """``prefix`` is of this run of the handset, and was never used before."""

    def __init__(self, settings: WearerSettings, prefix: str) -> None:
        self.settings = settings
        self.number = 0
        self.disclosed = False
        self.asked = False
        """Consent was asked for, to the end of the prompt."""
        self.consented = False
        self.required = settings.require_consent
        self.disclosure = SHIPPED
        self._prefix = prefix
        self._gesture_ns: int | None = None

    @property
    def name(self) -> str:
        return f"{self._prefix}/{self.number}"

    @property
    def gated(self) -> bool:
        """No reply may be played yet."""
        return self.settings.disclose and not self.disclosed

    @property
    def deaf(self) -> bool:
        """The microphone must be off."""
        return self.required and not self.consented

    def renew(self, now_ns: int, disclosure: str = SHIPPED) -> None:
        """Another wearer, or the same one for another time. ``disclosure``: whose text."""
        self.number += 1
        self.disclosure = disclosure
        self.disclosed = self.asked = self.consented = False
        self._gesture_ns = now_ns

    def policy(self, require_consent: bool) -> None:
        """What the edge wants of a session."""
        self.required = self.settings.require_consent or require_consent

    def told(self) -> bool:
        """The disclosure was played to its end; False when that is no news."""
        news, self.disclosed = not self.disclosed, True
        return news

    def agree(self) -> bool:
        """By a gesture; False when that is no news."""
        news, self.consented = not self.consented, True
        return news

    def gesture(self, now_ns: int) -> bool:
        """A hand was at a control; True when nobody's was for hours, and this is another
        wearer's session."""
        last, self._gesture_ns = self._gesture_ns, now_ns
        return last is not None and now_ns - last >= self.settings.idle_ns
