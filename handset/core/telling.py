"""What the handset tells the person by itself, and when: the notices' queue, joined with
what there is to be told.
"""

from __future__ import annotations

from handset.core.events import Effect, FlushNotices, Observe, PlayNotice
from handset.core.notice_queue import Dropped, Flush, NoticeEffect, NoticeQueue, Play, Said
from handset.core.notices import Notice, Part
from handset.core.turn import TurnState

# What the turn's way from one state to another is told by.
STEPS: dict[tuple[TurnState, TurnState], Notice] = {
    (TurnState.HOLDING, TurnState.LATCHED): Notice.LATCH_ON,
    (TurnState.IDLE, TurnState.LATCHED): Notice.LATCH_ON,
    (TurnState.KEPT, TurnState.LATCHED): Notice.LATCH_ON,
    (TurnState.STUCK, TurnState.LATCHED): Notice.LATCH_ON,
    (TurnState.SPEAKING, TurnState.LATCHED): Notice.LATCH_ON,
    (TurnState.HELD_BACK, TurnState.LATCHED): Notice.LATCH_ON,
    (TurnState.LATCHED, TurnState.TAILING): Notice.LATCH_OFF,
    (TurnState.LATCHED_LOST, TurnState.TAILING): Notice.LATCH_OFF,
    (TurnState.IDLE, TurnState.HOLDING): Notice.TALK_PERMIT,
    (TurnState.KEPT, TurnState.HOLDING): Notice.TALK_PERMIT,
    (TurnState.STUCK, TurnState.HOLDING): Notice.TALK_PERMIT,
    (TurnState.TAILING, TurnState.HOLDING): Notice.TALK_PERMIT,
    (TurnState.SPEAKING, TurnState.HOLDING): Notice.TALK_PERMIT,
    (TurnState.HELD_BACK, TurnState.HOLDING): Notice.TALK_PERMIT,
    (TurnState.TAILING, TurnState.LATCHED): Notice.LATCH_ON,
    (TurnState.HOLDING, TurnState.LOST): Notice.CONTROL_LOST,
    (TurnState.LATCHED, TurnState.LATCHED_LOST): Notice.CONTROL_LOST,
    (TurnState.LOST, TurnState.HOLDING): Notice.CONTROL_BACK,
    (TurnState.LATCHED_LOST, TurnState.LATCHED): Notice.CONTROL_BACK,
    (TurnState.HOLDING, TurnState.STUCK): Notice.STUCK_KEY,
    (TurnState.LATCHED, TurnState.KEPT): Notice.STUCK_KEY,
    (TurnState.STUCK, TurnState.KEPT): Notice.WAITING_FOR_YOU,
    (TurnState.SPEAKING, TurnState.HELD_BACK): Notice.WAITING_FOR_YOU,
}

DISCARDED = frozenset({"cancelled", "control_lost", "stuck_key", "expired"})
"""Ends of a turn without a commit that the person is told; a tap says nothing."""


class Telling:
    """``on``: where nobody listens (a bench that counts samples) nothing is asked for."""

    def __init__(self, on: bool = True) -> None:
        self.on = on
        self.queue = NoticeQueue()
        self._said: list[Notice] = []
        self._floor = self._reply = False
        self._output = True

    def ask(self, notice: Notice, now: int) -> list[Effect]:
        if not self.on:
            return []
        return self._effects(self.queue.ask(notice, now), now)

    def step(self, before: TurnState, after: TurnState, now: int) -> list[Effect]:
        """The turn has gone from one state to another."""
        notice = STEPS.get((before, after))
        return self.ask(notice, now) if notice is not None else []

    def around(self, floor: bool, reply: bool, output: bool, now: int) -> list[Effect]:
        """What there is beside the notices: a person who has the floor, a reply that is
        being played, an output to be heard by."""
        effects: list[Effect] = []
        if floor != self._floor:
            self._floor = floor
            effects += self._effects(self.queue.floor(floor, now), now)
        if reply != self._reply:
            self._reply = reply
            effects += self._effects(self.queue.reply(reply, now), now)
        if output != self._output:
            self._output = output
            effects += self._effects(self.queue.output(output, now), now)
        return effects

    def done(self, now: int) -> list[Effect]:
        return self._effects(self.queue.done(now), now)

    def take_said(self) -> list[Notice]:
        """What was said to its end since the last call."""
        said, self._said = self._said, []
        return said

    @property
    def speaking(self) -> bool:
        """Words are in the lane."""
        playing = self.queue.playing
        return playing is not None and playing[1] is Part.PROMPT

    def is_pending(self, notice: Notice) -> bool:
        playing = self.queue.playing
        return notice in self.queue.waiting or (playing is not None and playing[0] is notice)

    def _effects(self, told: list[NoticeEffect], now: int) -> list[Effect]:
        effects: list[Effect] = []
        for each in told:
            match each:
                case Play(notice, part):
                    effects.append(PlayNotice(notice, part))
                    facts: dict[str, object] = {"notice": notice.value, "part": part.value}
                    effects.append(Observe("notice", now, facts))
                case Flush():
                    effects.append(FlushNotices())
                case Said(notice):
                    self._said.append(notice)
                case Dropped(notice, why):
                    facts = {"notice": notice.value, "why": why.value}
                    effects.append(Observe("notice.dropped", now, facts))
        return effects
