"""What the lamp shows: one state out of what is going on, and one pattern for each state.

Rules:

1. **A microphone that is live is seen.** While a turn is open the lamp is lit most of the time,
   and only then: in every other state it is dark half of the time or more. So it can be told
   with one colour, and without colour vision.
2. **A microphone that is muted is seen**, before everything but an open turn. What else needs the
   person is then one added flash (``muted_attention``); what it is, shows when the mute is off.
3. Of the rest, the first row of ``PRECEDENCE`` that holds is shown: what stops the headset from
   working before what plays, what plays before what waits.
4. At most three flashes in any second (WCAG 2.3.1, three flashes or below threshold).

Colours help where a lamp has them: red is live, magenta muted, green ready or playing, blue the
link, white alerts, amber trouble, cyan a task.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain, repeat


@dataclass(frozen=True, slots=True)
class Pattern:
    """``steps``: (lit, milliseconds), repeated for ever; one step of 0 ms is steady."""

    name: str
    colour: str
    steps: tuple[tuple[bool, int], ...]

    def lit(self, ms: int) -> bool:
        """Whether it is lit ``ms`` after its begin."""
        period = sum(length for _, length in self.steps)
        if not period:
            return self.steps[0][0]
        rest = ms % period
        for lit, length in self.steps:
            if rest < length:
                return lit
            rest -= length
        raise AssertionError("a period ends with its last step")


class LampState(StrEnum):
    OFF = "off"
    STARTING = "starting"
    PROVISIONING_PROBLEM = "provisioning_problem"
    NO_CARD = "no_card"
    NO_LINK = "no_link"
    CONNECTING = "connecting"
    READY = "ready"
    READY_OFFLINE = "ready_offline"
    TALKING = "talking"
    LATCHED = "latched"
    TAIL = "tail"
    WAITING_FOR_YOU = "waiting_for_you"
    STUCK_KEY = "stuck_key"
    TALKING_CONTROL_LOST = "talking_control_lost"
    TALKING_MUTED = "talking_muted"
    MUTED = "muted"
    MUTED_ATTENTION = "muted_attention"
    CONTROL_LOST = "control_lost"
    PLAYING = "playing"
    PAUSED = "paused"
    ALERT_WAITING = "alert_waiting"
    ALERT_PLAYING = "alert_playing"
    LOW_BATTERY = "low_battery"
    TOO_HOT = "too_hot"
    PAIRING = "pairing"
    UPDATING = "updating"
    SELF_TEST = "self_test"
    STOPPING = "stopping"
    FAULT = "fault"


class Phase(StrEnum):
    OFF = "off"
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    FAULT = "fault"


class TurnLight(StrEnum):
    """What the lamp needs to know of a turn. ``STUCK``: the key is down and nobody speaks."""

    NONE = "none"
    TALKING = "talking"
    LATCHED = "latched"
    TAIL = "tail"
    WAITING = "waiting"
    STUCK = "stuck"


class PlaybackLight(StrEnum):
    SILENT = "silent"
    PLAYING = "playing"
    PAUSED = "paused"
    ALERT = "alert"


class LinkLight(StrEnum):
    UP = "up"
    CONNECTING = "connecting"
    DOWN = "down"


class TaskLight(StrEnum):
    NONE = "none"
    PAIRING = "pairing"
    UPDATING = "updating"
    SELF_TEST = "self_test"


@dataclass(frozen=True, slots=True)
class LampFacts:
    """What is going on. ``keeps``: what is spoken without a link is kept. ``low_power``: the
    battery is low, or the supply too weak."""

    phase: Phase = Phase.RUNNING
    turn: TurnLight = TurnLight.NONE
    playback: PlaybackLight = PlaybackLight.SILENT
    link: LinkLight = LinkLight.UP
    task: TaskLight = TaskLight.NONE
    muted: bool = False
    keeps: bool = True
    provisioned: bool = True
    card: bool = True
    control: bool = True
    alert_waiting: bool = False
    low_power: bool = False
    too_hot: bool = False

    @property
    def linked(self) -> bool:
        return self.link is LinkLight.UP

    @property
    def needs_attention(self) -> bool:
        """Something that the person would want to know behind a mute."""
        return (
            self.phase is Phase.FAULT
            or not (self.provisioned and self.card and self.control)
            or not (self.linked or self.keeps)
            or self.alert_waiting
            or self.low_power
            or self.too_hot
        )


_HELD = (TurnLight.TALKING, TurnLight.LATCHED, TurnLight.WAITING)
"""The turn ends with a gesture, so that a control is needed."""

PRECEDENCE: tuple[tuple[LampState, Callable[[LampFacts], bool]], ...] = (
    (LampState.OFF, lambda f: f.phase is Phase.OFF),
    (LampState.TALKING_MUTED, lambda f: f.muted and f.turn is not TurnLight.NONE),
    (LampState.TALKING_CONTROL_LOST, lambda f: f.turn in _HELD and not f.control),
    (LampState.STUCK_KEY, lambda f: f.turn is TurnLight.STUCK),
    (LampState.WAITING_FOR_YOU, lambda f: f.turn is TurnLight.WAITING),
    (LampState.LATCHED, lambda f: f.turn is TurnLight.LATCHED),
    (LampState.TALKING, lambda f: f.turn is TurnLight.TALKING),
    (LampState.TAIL, lambda f: f.turn is TurnLight.TAIL),
    (LampState.MUTED_ATTENTION, lambda f: f.muted and f.needs_attention),
    (LampState.MUTED, lambda f: f.muted),
    (LampState.FAULT, lambda f: f.phase is Phase.FAULT),
    (LampState.STOPPING, lambda f: f.phase is Phase.STOPPING),
    (LampState.STARTING, lambda f: f.phase is Phase.STARTING),
    (LampState.SELF_TEST, lambda f: f.task is TaskLight.SELF_TEST),
    (LampState.UPDATING, lambda f: f.task is TaskLight.UPDATING),
    (LampState.PAIRING, lambda f: f.task is TaskLight.PAIRING),
    (LampState.PROVISIONING_PROBLEM, lambda f: not f.provisioned),
    (LampState.NO_CARD, lambda f: not f.card),
    (LampState.ALERT_PLAYING, lambda f: f.playback is PlaybackLight.ALERT),
    (LampState.ALERT_WAITING, lambda f: f.alert_waiting),
    (LampState.CONTROL_LOST, lambda f: not f.control),
    (LampState.TOO_HOT, lambda f: f.too_hot),
    (LampState.PAUSED, lambda f: f.playback is PlaybackLight.PAUSED),
    (LampState.PLAYING, lambda f: f.playback is PlaybackLight.PLAYING),
    (LampState.LOW_BATTERY, lambda f: f.low_power),
    (LampState.READY_OFFLINE, lambda f: not f.linked and f.keeps),
    (LampState.CONNECTING, lambda f: f.link is LinkLight.CONNECTING),
    (LampState.NO_LINK, lambda f: f.link is LinkLight.DOWN),
    (LampState.READY, lambda f: True),
)


def choose(facts: LampFacts) -> LampState:
    """The first state of ``PRECEDENCE`` that holds."""
    return next(state for state, holds in PRECEDENCE if holds(facts))


# ---- patterns -------------------------------------------------------------------------------

_SHORT, _LONG, _BETWEEN = 150, 600, 250
"""ms. A short flash and what follows it take 400 ms: at most three begin in a second."""


def _code(flashes: str, dark_ms: int = 1_500) -> tuple[tuple[bool, int], ...]:
    """A group of flashes, ``.`` short and ``-`` long, and the dark until the next."""
    lengths = [_SHORT if flash == "." else _LONG for flash in flashes]
    steps = list(chain.from_iterable(zip(zip(repeat(True), lengths), repeat((False, _BETWEEN)))))
    return (*steps[:-1], (False, dark_ms))


def _winks(n: int, lit_ms: int) -> tuple[tuple[bool, int], ...]:
    """Lit, with n short winks."""
    return ((True, lit_ms), *((False, _SHORT), (True, _BETWEEN)) * (n - 1), (False, _SHORT))


def _blink(lit_ms: int, dark_ms: int) -> tuple[tuple[bool, int], ...]:
    return (True, lit_ms), (False, dark_ms)


_STEPS: dict[LampState, tuple[str, tuple[tuple[bool, int], ...], str]] = {
    LampState.OFF: ("off", ((False, 0),), "not running"),
    LampState.TALKING: ("red", ((True, 0),), "the microphone is live"),
    # At the release it winks once, and is lit until the last sample is in.
    LampState.TAIL: ("red", ((False, 100), (True, 600)), "released; the last words are captured"),
    LampState.LATCHED: ("red", _winks(1, 1_350), "live without a key held: tap to end"),
    LampState.WAITING_FOR_YOU: ("red", _winks(2, 1_200), "the turn is yours until you end it"),
    LampState.TALKING_CONTROL_LOST: ("red", _winks(3, 1_200), "live, and its button is gone"),
    LampState.STUCK_KEY: ("red", _blink(1_000, 450), "the talk key is down and nobody speaks"),
    LampState.MUTED: ("magenta", _blink(1_000, 1_000), "the microphone is muted"),
    LampState.MUTED_ATTENTION: (
        "magenta",
        ((True, 1_000), (False, 600), (True, _SHORT), (False, 600)),
        "muted, and something needs you",
    ),
    LampState.TALKING_MUTED: (
        "magenta",
        ((True, 400), (False, _SHORT), (True, 400), (False, 1_050)),
        "you talk into a muted microphone",
    ),
    LampState.READY: ("green", _code(".", 3_850), "ready"),
    LampState.READY_OFFLINE: ("blue", _code("..", 3_450), "no link; what you say is kept"),
    LampState.NO_LINK: ("blue", _code("-", 2_400), "no link, and nothing can be kept"),
    LampState.CONNECTING: ("blue", _code(".-"), "connecting"),
    LampState.PLAYING: ("green", _blink(500, 1_000), "a reply plays"),
    LampState.PAUSED: ("green", _blink(200, 500), "the reply waits: did you speak?"),
    LampState.ALERT_WAITING: ("white", _blink(200, 200), "an alert waits for your button"),
    LampState.ALERT_PLAYING: ("white", _code("...-", 700), "an alert plays"),
    LampState.STARTING: ("cyan", _code("-."), "starting"),
    LampState.STOPPING: ("cyan", _code("--"), "stopping"),
    LampState.PAIRING: ("cyan", _code("..-"), "looking for a device"),
    LampState.UPDATING: ("cyan", _code(".-."), "updating: leave it on"),
    LampState.SELF_TEST: ("cyan", _code("-.-"), "testing itself"),
    LampState.LOW_BATTERY: ("amber", _code("...", 3_000), "battery low, or supply too weak"),
    LampState.TOO_HOT: ("amber", _code("....", 2_400), "too hot"),
    LampState.CONTROL_LOST: ("amber", _code(".--"), "the button is gone"),
    LampState.NO_CARD: ("amber", _code("-.."), "no sound card"),
    LampState.PROVISIONING_PROBLEM: ("amber", _code("--."), "its settings can't be used"),
    LampState.FAULT: ("amber", _code("---"), "does not run: see its log"),
}

LIVE = frozenset(
    {
        LampState.TALKING,
        LampState.TAIL,
        LampState.LATCHED,
        LampState.WAITING_FOR_YOU,
        LampState.TALKING_CONTROL_LOST,
        LampState.STUCK_KEY,
    }
)
"""A turn is open and the microphone is not muted."""

PATTERNS: dict[LampState, Pattern] = {
    state: Pattern(state.value, colour, steps) for state, (colour, steps, _) in _STEPS.items()
}


def lamp_table() -> str:
    """The patterns as a table in Markdown, in the order of precedence."""
    lines = ["| lamp | colour | on, *off*, in ms | what it means |", "|---|---|---|---|"]
    for state, _ in PRECEDENCE:
        colour, steps, meaning = _STEPS[state]
        shown = " ".join(str(ms) if lit else f"*{ms}*" for lit, ms in steps)
        if not steps[0][1]:
            shown = "on" if steps[0][0] else "off"
        lines.append(f"| `{state}` | {'-' if colour == 'off' else colour} | {shown} | {meaning} |")
    return "\n".join(lines) + "\n"
