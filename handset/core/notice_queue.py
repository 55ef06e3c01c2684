"""Which notice sounds now, which waits, and which is dropped.

Rules:

1. One part (a tone, or words) is in the notice lane at a time. The next follows when the lane
   has run dry (``done``).
2. Words wait while the person has the floor, and, unless the table says otherwise, while a
   reply plays. A tone waits for nobody's floor if the table says so. Without an output
   everything waits.
3. Of what may sound, the most urgent goes first; of equals, the oldest.
4. Words that sound are cut by a press, by something strictly more urgent, and by newer words of
   their topic. In the first two cases they wait, to be said again from their beginning. A tone
   is cut by the answer to a press (urgency ``TALK``), or by a press if it may not sound in a
   turn; a tone that was cut is not sounded again.
5. A notice that waits already is not queued twice: one saying is for both. One that began less
   than its gap ago is dropped. One that is too old to be news is dropped instead of begun.
6. At most ``MOST_WAITING`` wait. Beyond that the least urgent is dropped, of equals the newest.

Who wins. Cutting comes before choosing: a press that is itself answered by a tone first ends
the words, then sounds the tone.

Every ``ask`` ends in exactly one ``Said`` or ``Dropped``, unless it is waiting or in the lane.
``Said``: all its parts left the lane. As with replies, that is played, not perceived.

Times: ns of CLOCK_MONOTONIC, never falling. Freshness is looked at when something happens; no
timer is needed.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from handset.core.notices import RULES, Notice, Part, Rule, Urgency

MOST_WAITING = 8
_MS = 1_000_000


class Why(StrEnum):
    """Why a notice was not said, or not to its end."""

    REPEATED = "repeated"
    MERGED = "merged"
    REPLACED = "replaced"
    STALE = "stale"
    CUT = "cut"
    FULL = "full"


@dataclass(frozen=True, slots=True)
class Play:
    """Into the notice lane, which is dry."""

    notice: Notice
    part: Part


@dataclass(frozen=True, slots=True)
class Flush:
    """Empty the notice lane now."""


@dataclass(frozen=True, slots=True)
class Said:
    notice: Notice


@dataclass(frozen=True, slots=True)
class Dropped:
    notice: Notice
    why: Why


NoticeEffect = Play | Flush | Said | Dropped


@dataclass(slots=True)
class _Wanted:
    """A notice that was asked for, with the parts of it that did not sound yet."""

    notice: Notice
    asked_ns: int
    order: int
    parts: tuple[Part, ...]
    untrue: bool = False
    """Its tone is let out, its words are not to come."""

    @property
    def rule(self) -> Rule:
        return RULES[self.notice]


class NoticeQueue:
    """``ask``, ``floor``, ``reply``, ``output`` and ``done`` -> effects, to be done in order."""

    def __init__(self) -> None:
        self._waiting: list[_Wanted] = []
        self._playing: _Wanted | None = None
        self._order = 0
        self._began: dict[Notice, int] = {}
        self._floor = self._reply = False
        self._output = True

    @property
    def waiting(self) -> tuple[Notice, ...]:
        """What waits, the next one first."""
        return tuple(wanted.notice for wanted in sorted(self._waiting, key=_rank))

    @property
    def playing(self) -> tuple[Notice, Part] | None:
        """What is in the lane."""
        return (self._playing.notice, self._playing.parts[0]) if self._playing else None

    def ask(self, notice: Notice, now_ns: int) -> list[NoticeEffect]:
        """The handset has something to say."""
        rule = RULES[notice]
        began = self._began.get(notice)
        if began is not None and now_ns - began < rule.gap_ms * _MS:
            return [Dropped(notice, Why.REPEATED)]
        effects = self._replace(notice, rule)
        to_come = [wanted for wanted in self._waiting if wanted.notice is notice]
        if self._playing is not None and self._playing.notice is notice:
            to_come += [self._playing] * (len(self._playing.parts) > 1)
        if to_come:
            to_come[0].asked_ns = now_ns
            effects.append(Dropped(notice, Why.MERGED))
        else:
            self._order += 1
            self._waiting.append(_Wanted(notice, now_ns, self._order, rule.parts))
        return effects + self._go_on(now_ns)

    def floor(self, taken: bool, now_ns: int) -> list[NoticeEffect]:
        """The person took the floor, or gave it back: false only when the turn's last sample is
        captured, so that no words are in it."""
        self._floor = taken
        return self._go_on(now_ns)

    def reply(self, playing: bool, now_ns: int) -> list[NoticeEffect]:
        """A reply or an alert began to play, or nothing of it is left to play. Words that have
        begun go on."""
        self._reply = playing
        return self._go_on(now_ns)

    def output(self, there: bool, now_ns: int) -> list[NoticeEffect]:
        """The card is gone with what was in the lane, or there is one."""
        self._output = there
        effects = [] if there else self._cut()
        return effects + self._go_on(now_ns)

    def done(self, now_ns: int) -> list[NoticeEffect]:
        """The lane ran dry: all that was written to it since the last ``Play`` was handed to the
        device. Not to be said of a lane that a ``Flush`` emptied."""
        wanted, self._playing = self._playing, None
        effects: list[NoticeEffect] = []
        if wanted is not None:
            wanted.parts = wanted.parts[1:]
            if wanted.untrue:
                effects.append(Dropped(wanted.notice, Why.REPLACED))
            elif wanted.parts:
                self._waiting.append(wanted)
            else:
                effects.append(Said(wanted.notice))
        return effects + self._go_on(now_ns)

    # ---- the rules --------------------------------------------------------------------------

    def _replace(self, notice: Notice, rule: Rule) -> list[NoticeEffect]:
        """Takes back what a newer notice of the topic has made untrue (rules 4 and 5)."""
        if not rule.topic:
            return []

        def is_older(wanted: _Wanted) -> bool:
            return wanted.rule.topic == rule.topic and wanted.notice is not notice

        effects: list[NoticeEffect] = []
        playing = self._playing
        if playing is not None and is_older(playing):
            if playing.parts[0] is Part.PROMPT:
                self._playing = None
                effects += [Flush(), Dropped(playing.notice, Why.REPLACED)]
            elif len(playing.parts) > 1:
                playing.untrue, playing.parts = True, playing.parts[:1]
        effects += [Dropped(w.notice, Why.REPLACED) for w in self._waiting if is_older(w)]
        self._waiting = [wanted for wanted in self._waiting if not is_older(wanted)]
        return effects

    def _go_on(self, now_ns: int) -> list[NoticeEffect]:
        effects: list[NoticeEffect] = []
        if self._playing is not None and self._must_stop(self._playing):
            effects += [Flush(), *self._cut()]
        effects += self._drop_stale(now_ns)
        following = min(filter(self._may_sound, self._waiting), key=_rank, default=None)
        if following is not None:
            if self._playing is not None and _gives_way(self._playing, following):
                effects += [Flush(), *self._cut()]
            if self._playing is None:
                effects.append(self._begin(following, now_ns))
        return effects + self._drop_surplus()

    def _must_stop(self, wanted: _Wanted) -> bool:
        """A press ends it (rule 4). A reply does not: words that have begun go on."""
        return self._floor and not (wanted.parts[0] is Part.TONE and wanted.rule.while_talking)

    def _may_sound(self, wanted: _Wanted) -> bool:
        """Rule 2."""
        if not self._output:
            return False
        if wanted.parts[0] is Part.TONE:
            return wanted.rule.while_talking or not self._floor
        return not self._floor and (wanted.rule.over_reply or not self._reply)

    def _begin(self, wanted: _Wanted, now_ns: int) -> NoticeEffect:
        self._waiting.remove(wanted)
        self._playing = wanted
        if wanted.parts == wanted.rule.parts:
            self._began[wanted.notice] = now_ns
        return Play(wanted.notice, wanted.parts[0])

    def _cut(self) -> list[NoticeEffect]:
        """What is in the lane sounds no more; words of it wait."""
        wanted, self._playing = self._playing, None
        if wanted is None:
            return []
        if wanted.parts[0] is Part.TONE:
            wanted.parts = wanted.parts[1:]
        if not wanted.parts:
            return [Dropped(wanted.notice, Why.CUT)]
        if any(other.notice is wanted.notice for other in self._waiting):
            return [Dropped(wanted.notice, Why.MERGED)]
        self._waiting.append(wanted)
        return []

    def _drop_stale(self, now_ns: int) -> list[NoticeEffect]:
        def is_stale(wanted: _Wanted) -> bool:
            fresh = wanted.rule.fresh_ms * _MS
            return bool(fresh) and now_ns - wanted.asked_ns > fresh

        stale = [wanted for wanted in self._waiting if is_stale(wanted)]
        self._waiting = [wanted for wanted in self._waiting if not is_stale(wanted)]
        return [Dropped(wanted.notice, Why.STALE) for wanted in stale]

    def _drop_surplus(self) -> list[NoticeEffect]:
        self._waiting.sort(key=_rank)
        surplus = self._waiting[MOST_WAITING:]
        del self._waiting[MOST_WAITING:]
        return [Dropped(wanted.notice, Why.FULL) for wanted in surplus]


def _rank(wanted: _Wanted) -> tuple[Urgency, int]:
    return wanted.rule.urgency, wanted.order


def _gives_way(playing: _Wanted, other: _Wanted) -> bool:
    """Rule 4, for what is more urgent."""
    if other.rule.urgency >= playing.rule.urgency:
        return False
    return playing.parts[0] is Part.PROMPT or other.rule.urgency is Urgency.TALK
