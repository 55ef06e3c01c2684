"""Notices: what the handset itself may say, by a tone or in words. The set is closed.

Only the handset's own domain is in it: its controls, its microphone, its power, its link, and
whether a message is kept or was received by the service. Nothing in it is about what became
of a request. A tone in the place of words can't be taken for such a claim, so what a turn's
fate is told by (``turn_discarded``) has no words at all.

What the columns of the table mean:

* ``urgency``: who goes first (`notice_queue.py`).
* ``tone``, ``prompt``: what it is made of. With both, the tone comes first; while the person
  has the floor it comes alone, and the words wait.
* ``while_talking``: its tone may sound while the person has the floor, where it is in the
  capture. Words never may.
* ``over_reply``: its words may sound over a reply; others wait for the reply's end. Tones may.
* ``topic``: a newer notice of a topic takes the place of an older one that waits or is being
  said: only the newest is true. Empty: none does.
* ``gap_ms``: asked for again sooner than this after it began, it is dropped.
* ``fresh_ms``: what has not begun by then is no news any more and is dropped. 0: it waits.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, StrEnum


class Notice(StrEnum):
    TALK_PERMIT = "talk_permit"
    DENY = "deny"
    LATCH_ON = "latch_on"
    LATCH_OFF = "latch_off"
    LATCHED_REMINDER = "latched_reminder"
    LONG_HOLD_WARNING = "long_hold_warning"
    WAITING_FOR_YOU = "waiting_for_you"
    TURN_DISCARDED = "turn_discarded"
    STUCK_KEY = "stuck_key"
    CONTROL_LOST = "control_lost"
    CONTROL_BACK = "control_back"
    KEPT = "kept"
    RECEIVED = "received"
    MUTE_ON = "mute_on"
    MUTE_OFF = "mute_off"
    VOLUME_CHANGED = "volume_changed"
    VOLUME_LIMIT = "volume_limit"
    LOW_BATTERY = "low_battery"
    UNDERVOLTAGE = "undervoltage"
    TOO_HOT = "too_hot"
    LINK_UP = "link_up"
    LINK_DOWN = "link_down"
    READY = "ready"
    DISCLOSURE = "disclosure"
    CONSENT_ASKED = "consent_asked"
    CONSENT_GIVEN = "consent_given"
    NEW_WEARER = "new_wearer"
    ALERT_WAITING = "alert_waiting"
    ALERT_ACKNOWLEDGED = "alert_acknowledged"
    PAIRING = "pairing"
    PAIRED = "paired"
    SELF_TEST_OK = "self_test_ok"
    SELF_TEST_FAILED = "self_test_failed"


class Part(StrEnum):
    TONE = "tone"
    PROMPT = "prompt"


class Urgency(IntEnum):
    """The lower, the sooner."""

    TALK = 0
    """The answer to a press: people wait for it before they speak."""
    GESTURE = 1
    """The answer to any other gesture, and what is heard in the middle of a turn."""
    WARNING = 2
    ANSWER = 3
    STATUS = 4


@dataclass(frozen=True, slots=True)
class Rule:
    urgency: Urgency
    tone: bool = False
    prompt: bool = False
    while_talking: bool = False
    over_reply: bool = False
    topic: str = ""
    gap_ms: int = 0
    fresh_ms: int = 0

    @property
    def parts(self) -> tuple[Part, ...]:
        return (Part.TONE,) * self.tone + (Part.PROMPT,) * self.prompt


def _tone(urgency: Urgency, topic: str = "", gap_ms: int = 0, fresh_ms: int = 1_000) -> Rule:
    """A tone alone, which may also sound in a turn."""
    return Rule(
        urgency, tone=True, while_talking=True, topic=topic, gap_ms=gap_ms, fresh_ms=fresh_ms
    )


def _words(
    urgency: Urgency,
    topic: str = "",
    *,
    tone: bool = False,
    while_talking: bool = False,
    over_reply: bool = False,
    gap_ms: int = 0,
    fresh_ms: int = 0,
) -> Rule:
    return Rule(urgency, tone, True, while_talking, over_reply, topic, gap_ms, fresh_ms)


_T, _G, _W, _A, _S = Urgency
_MINUTE = 60_000

RULES: dict[Notice, Rule] = {
    Notice.TALK_PERMIT: _tone(_T, "talk", fresh_ms=300),
    Notice.DENY: _tone(_T, "talk", fresh_ms=500),
    Notice.LATCH_ON: _tone(_G, "latch"),
    Notice.LATCH_OFF: _tone(_G, "latch"),
    # Latched: the floor is taken, by somebody who may have forgotten it.
    Notice.LATCHED_REMINDER: _tone(_G, "latch", gap_ms=5_000),
    Notice.LONG_HOLD_WARNING: _tone(_G, gap_ms=5_000),
    Notice.WAITING_FOR_YOU: _tone(_G, gap_ms=3_000),
    Notice.TURN_DISCARDED: _tone(_G),
    Notice.MUTE_ON: _words(
        _G, "mute", tone=True, while_talking=True, over_reply=True, fresh_ms=3_000
    ),
    Notice.MUTE_OFF: _words(
        _G, "mute", tone=True, while_talking=True, over_reply=True, fresh_ms=3_000
    ),
    # Last in line, though a gesture's answer: words that are being said are not cut for a
    # tick, they get louder themselves.
    Notice.VOLUME_CHANGED: _tone(_S, "volume", fresh_ms=150),
    Notice.VOLUME_LIMIT: _tone(_S, "volume", gap_ms=500, fresh_ms=300),
    Notice.STUCK_KEY: _words(_W, "control", tone=True, over_reply=True, gap_ms=30_000),
    # A control that is lost in the middle of a turn: the turn stays open and the person has
    # to know it at once.
    Notice.CONTROL_LOST: _words(_W, "control", tone=True, while_talking=True, over_reply=True),
    Notice.CONTROL_BACK: _words(_W, "control", tone=True, while_talking=True, fresh_ms=10_000),
    Notice.LOW_BATTERY: _words(_W, tone=True, gap_ms=5 * _MINUTE),
    Notice.UNDERVOLTAGE: _words(_W, tone=True, gap_ms=5 * _MINUTE),
    Notice.TOO_HOT: _words(_W, tone=True, over_reply=True, gap_ms=5 * _MINUTE),
    Notice.ALERT_WAITING: Rule(_W, tone=True, topic="alert", gap_ms=5_000, fresh_ms=10_000),
    Notice.ALERT_ACKNOWLEDGED: _tone(_G, "alert"),
    # Not of one topic: the message that was received need not be the one that is kept.
    Notice.KEPT: _words(_A),
    Notice.RECEIVED: _words(_A),
    Notice.DISCLOSURE: _words(_A),
    Notice.CONSENT_ASKED: _words(_A, "consent", gap_ms=5_000),
    Notice.CONSENT_GIVEN: _words(_A, "consent", fresh_ms=10_000),
    Notice.NEW_WEARER: _words(_A, fresh_ms=10_000),
    Notice.PAIRING: _words(_A, "pairing", fresh_ms=10_000),
    Notice.PAIRED: _words(_A, "pairing", fresh_ms=10_000),
    Notice.SELF_TEST_OK: _words(_A, "self_test", fresh_ms=30_000),
    Notice.SELF_TEST_FAILED: _words(_A, "self_test"),
    Notice.LINK_UP: _words(_S, "link", fresh_ms=10_000),
    Notice.LINK_DOWN: _words(_S, "link", fresh_ms=10_000),
    Notice.READY: _words(_S, "link", gap_ms=10_000, fresh_ms=10_000),
}

TONES = tuple(notice for notice in Notice if RULES[notice].tone)
PROMPTS = tuple(notice for notice in Notice if RULES[notice].prompt)


def notice_table() -> str:
    """The set as a table in Markdown, for people."""

    def span(milliseconds: int) -> str:
        if not milliseconds:
            return "-"
        return (
            f"{milliseconds / 1000:g} s"
            if milliseconds < _MINUTE
            else f"{milliseconds // _MINUTE} min"
        )

    lines = [
        "| notice | made of | in a turn | over a reply | gap | no news after |",
        "|---|---|---|---|---|---|",
    ]
    for notice, rule in sorted(RULES.items(), key=lambda row: row[1].urgency):
        made = ", ".join(part.value for part in rule.parts)
        talking = "tone" if rule.while_talking else "waits"
        reply = "waits" if rule.prompt and not rule.over_reply else "yes"
        lines.append(
            f"| `{notice}` | {made} | {talking} | {reply} "
            f"| {span(rule.gap_ms)} | {span(rule.fresh_ms)} |"
        )
    return "\n".join(lines) + "\n"
