"""From contacts to gestures: what the hand meant.

Rules:

1. A press acts on the first contact that closes. A release counts when the contact has
   stayed open for ``release_ns``; its time is when it opened. So bounce on either edge
   changes nothing, and a contact that closes within that time is the same press going on:
   no press that follows is lost.
2. Time is the contact's own: a consumer that is late gets the same gestures. So that a
   contact which closed again is not overtaken by the clock, a release is believed only when
   the contact was seen open by two looks that are ``release_ns`` apart, or when its control,
   or any talk key, has something later to tell.
3. The talk key is down while it is down on any control. It is down once: a second control
   adds nothing, and takes nothing away when it lets go first.
4. A key that is down when its control appears is stuck: it means nothing until it was up.
   The exception is a talk key that was down when its control went away: it is held on. A
   talk key that is still down when its turn is over means nothing either: it would keep
   every other control from talking.
5. A control that goes away says so (``LOST``) when its talk key was down, or when its last
   talk gesture was a switch (``switches``): the turn's end would have come from it.

What a gesture does is in :mod:`handset.core.gestures`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

MILLISECOND = 1_000_000


class Key(StrEnum):
    TALK = "talk"
    CANCEL = "cancel"
    ACKNOWLEDGE = "acknowledge"
    VOLUME_UP = "volume_up"
    VOLUME_DOWN = "volume_down"
    MUTE = "mute"
    PAIR = "pair"
    SELF_TEST = "self_test"
    NEW_WEARER = "new_wearer"


class Gesture(StrEnum):
    TALK = "talk"
    LET_GO = "let go"
    LATCH = "latch"
    TOGGLE = "toggle"
    CANCEL = "cancel"
    ACKNOWLEDGE = "acknowledge"
    LOUDER = "louder"
    SOFTER = "softer"
    MUTE = "mute"
    PAIR = "pair"
    SELF_TEST = "self-test"
    NEW_WEARER = "new wearer"


Mode = Literal["hold", "toggle", "tap_latch", "automatic"]

AT_ONCE: dict[Key, Gesture] = {
    Key.CANCEL: Gesture.CANCEL,
    Key.ACKNOWLEDGE: Gesture.ACKNOWLEDGE,
    Key.VOLUME_UP: Gesture.LOUDER,
    Key.VOLUME_DOWN: Gesture.SOFTER,
    Key.MUTE: Gesture.MUTE,
    Key.PAIR: Gesture.PAIR,
    Key.SELF_TEST: Gesture.SELF_TEST,
    Key.NEW_WEARER: Gesture.NEW_WEARER,
}
"""Keys that act when they go down."""

HELD: dict[Key, tuple[int, Gesture]] = {
    Key.ACKNOWLEDGE: (5_000 * MILLISECOND, Gesture.NEW_WEARER),
    Key.MUTE: (5_000 * MILLISECOND, Gesture.PAIR),
    Key.CANCEL: (3_000 * MILLISECOND, Gesture.SELF_TEST),
}
"""What a key means as well when it is held for so long: few headsets have nine keys."""

REPEATS = frozenset({Key.VOLUME_UP, Key.VOLUME_DOWN})
REPEAT_AFTER_NS = 500 * MILLISECOND
REPEAT_NS = 250 * MILLISECOND


@dataclass(frozen=True, slots=True)
class KeySettings:
    mode: Mode = "hold"
    release_ns: int = 25 * MILLISECOND
    """Contacts of small switches bounce for up to 10 ms; nobody lets go and presses again
    within 25 ms."""
    latch_ns: int = 400 * MILLISECOND
    """In ``tap_latch`` a shorter press latches; a longer one is hold to talk."""
    switches: frozenset[str] = frozenset({"keyboard", "local"})
    """Controls whose talk key can't be held (a terminal, the local socket, a media button):
    each press of it toggles, whatever the mode."""
    clean: frozenset[str] = frozenset({"keyboard", "local", "lines", "bench"})
    """Controls that are programs or protocols, and no contacts: they don't bounce."""


@dataclass(frozen=True, slots=True)
class Made:
    """A gesture. ``held_ns``: how long the talk key was down, for the end of a hold."""

    gesture: Gesture
    control: str
    at_ns: int
    held_ns: int = 0


@dataclass(frozen=True, slots=True)
class Lost:
    """The control that the open turn depends on is gone."""

    control: str
    at_ns: int


@dataclass(frozen=True, slots=True)
class Back:
    """That control is there again; ``held``: with its talk key still down."""

    control: str
    at_ns: int
    held: bool


@dataclass(frozen=True, slots=True)
class StuckAtStart:
    control: str
    key: Key


KeyFact = Made | Lost | Back | StuckAtStart


@dataclass(slots=True)
class _Contact:
    control: str
    key: Key
    down: bool = False
    stuck: bool = False
    since_ns: int = 0
    opened_ns: int | None = None
    """When it opened, while that may still be a bounce."""
    seen_ns: int | None = None
    """The first look at the clock since then."""
    told_held: bool = False
    repeat_ns: int = 0


@dataclass(slots=True)
class Keys:
    settings: KeySettings = field(default_factory=KeySettings)
    _contacts: dict[tuple[str, Key], _Contact] = field(default_factory=dict)
    _talking: dict[str, None] = field(default_factory=dict)
    """Controls with their talk key down, in that order."""
    _talk_ns: int = 0
    _waiting: dict[str, bool] = field(default_factory=dict)
    """Controls that went away in a turn; whether with the talk key down."""
    _switched_by: str = ""

    # ---- what controls say --------------------------------------------------------------

    def level(self, control: str, key: Key, down: bool, at_ns: int) -> list[KeyFact]:
        contact = self._contact(control, key)
        facts = self._let_go_by(at_ns, "" if key is Key.TALK else control)
        if not down:
            if contact.down and contact.opened_ns is None:
                facts += self._held_long(contact, at_ns)
                contact.opened_ns, contact.seen_ns = at_ns, None
                facts += self._settle(contact, at_ns)
            return facts
        contact.opened_ns = None
        if not contact.down:
            contact.down, contact.since_ns, contact.told_held = True, at_ns, False
            contact.repeat_ns = at_ns + REPEAT_AFTER_NS
            facts += self._pressed(contact, at_ns)
        return facts

    def tick(self, now_ns: int) -> list[KeyFact]:
        """Time has come to ``now_ns``, and nothing older is still to be told."""
        facts: list[KeyFact] = []
        for contact in self._opened():
            if contact.seen_ns is None:
                contact.seen_ns = now_ns
            elif now_ns - contact.seen_ns >= self.settings.release_ns:
                facts += self._settle(contact, now_ns)
        for contact in self._contacts.values():
            if contact.down and contact.opened_ns is None:
                facts += self._held_long(contact, now_ns)
                facts += self._repeated(contact, now_ns)
        return facts

    def finish(self, now_ns: int) -> list[KeyFact]:
        """No more will be told: what has opened by now was let go."""
        return self._let_go_by(now_ns + self.settings.release_ns)

    def lost(self, control: str, at_ns: int) -> list[KeyFact]:
        """What it had down is down no more; that is no gesture. What had been let go before
        is one."""
        facts = self._let_go_by(at_ns, control)
        was_down = control in self._talking
        self._talking.pop(control, None)
        for contact in [c for c in self._contacts.values() if c.control == control]:
            del self._contacts[control, contact.key]
        switched = self._switched_by == control
        if self._talking or not (was_down or switched):
            return facts
        self._waiting[control] = was_down
        return [*facts, Lost(control, at_ns)]

    def back(self, control: str, at_ns: int, down: Iterable[Key]) -> list[KeyFact]:
        facts: list[KeyFact] = []
        was_down = self._waiting.pop(control, None)
        keys = set(down)
        held = bool(was_down) and Key.TALK in keys
        for key in sorted(keys):
            contact = self._contact(control, key)
            contact.down, contact.since_ns, contact.opened_ns = True, at_ns, None
            contact.told_held = True
            if key is Key.TALK and held:
                self._talking[control] = None
            else:
                contact.stuck = True
                facts.append(StuckAtStart(control, key))
        if was_down is not None:
            facts.insert(0, Back(control, at_ns, held))
        return facts

    def turn_over(self) -> None:
        """No turn depends on a control any more."""
        for control in self._talking:
            self._contacts[control, Key.TALK].stuck = True
        self._talking.clear()
        self._waiting.clear()
        self._switched_by = ""

    def talk_down_until(self, now_ns: int) -> int:
        """Up to when the talk key is known to have been down: a contact that has opened may
        yet turn out to have been let go."""
        opened = [
            contact.opened_ns
            for control in self._talking
            if (contact := self._contacts[control, Key.TALK]).opened_ns is not None
        ]
        if len(opened) < len(self._talking) or not opened:
            return now_ns
        return max(opened)

    @property
    def any_down(self) -> bool:
        return bool(self._talking)

    # ---- inside ---------------------------------------------------------------------------

    def _contact(self, control: str, key: Key) -> _Contact:
        return self._contacts.setdefault((control, key), _Contact(control, key))

    def _opened(self) -> list[_Contact]:
        """The first to open first: the last one ends a hold."""
        opened = [c for c in self._contacts.values() if c.opened_ns is not None]
        return sorted(opened, key=lambda contact: contact.opened_ns or 0)

    def _let_go_by(self, at_ns: int, control: str = "") -> list[KeyFact]:
        """What was open long enough by ``at_ns``; of one control, or of all."""
        opened = [c for c in self._opened() if control in ("", c.control)]
        return [fact for contact in opened for fact in self._settle(contact, at_ns)]

    def _settle(self, contact: _Contact, at_ns: int) -> list[KeyFact]:
        """The contact was open long enough by ``at_ns``: it was let go."""
        opened = contact.opened_ns
        bounces = contact.control not in self.settings.clean
        if opened is None or at_ns - opened < self.settings.release_ns * bounces:
            return []
        contact.down, contact.opened_ns = False, None
        if contact.stuck:
            contact.stuck = False
            return []
        if contact.key is not Key.TALK or contact.control not in self._talking:
            return []
        del self._talking[contact.control]
        if self._talking or self._is_switch(contact.control):
            return []
        held = opened - self._talk_ns
        taps = self.settings.mode == "tap_latch" and held < self.settings.latch_ns
        gesture = Gesture.LATCH if taps else Gesture.LET_GO
        if taps:
            self._switched_by = contact.control
        return [Made(gesture, contact.control, opened, held)]

    def _pressed(self, contact: _Contact, at_ns: int) -> list[KeyFact]:
        control = contact.control
        if contact.key is not Key.TALK:
            return [Made(AT_ONCE[contact.key], control, at_ns)]
        first = not self._talking
        self._talking[control] = None
        if not first:
            return []
        self._talk_ns = at_ns
        if self._is_switch(control):
            self._switched_by = control
            return [Made(Gesture.TOGGLE, control, at_ns)]
        return [Made(Gesture.TALK, control, at_ns)]

    def _is_switch(self, control: str) -> bool:
        return self.settings.mode == "toggle" or control in self.settings.switches

    def _repeated(self, contact: _Contact, now_ns: int) -> list[KeyFact]:
        if contact.stuck or contact.key not in REPEATS or now_ns < contact.repeat_ns:
            return []
        contact.repeat_ns = max(contact.repeat_ns + REPEAT_NS, now_ns)
        return [Made(AT_ONCE[contact.key], contact.control, now_ns)]

    def _held_long(self, contact: _Contact, now_ns: int) -> list[KeyFact]:
        if contact.stuck or contact.told_held or contact.key not in HELD:
            return []
        long_ns, gesture = HELD[contact.key]
        if now_ns - contact.since_ns < long_ns:
            return []
        contact.told_held = True
        return [Made(gesture, contact.control, contact.since_ns + long_ns)]
