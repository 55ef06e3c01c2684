"""What the lamp is told: the facts that it needs, out of the machines that know them."""

from __future__ import annotations

from handset.core.events import Task
from handset.core.lamp import LampFacts, LinkLight, Phase, PlaybackLight, TaskLight, TurnLight
from handset.core.person import Person
from handset.core.playback import Playback
from handset.core.session import SessionState
from handset.core.turn import TurnState

TURNS: dict[TurnState, TurnLight] = {
    TurnState.IDLE: TurnLight.NONE,
    TurnState.HOLDING: TurnLight.TALKING,
    TurnState.LATCHED: TurnLight.LATCHED,
    TurnState.TAILING: TurnLight.TAIL,
    TurnState.LOST: TurnLight.TALKING,
    TurnState.LATCHED_LOST: TurnLight.LATCHED,
    TurnState.STUCK: TurnLight.STUCK,
    TurnState.KEPT: TurnLight.WAITING,
    TurnState.SPEAKING: TurnLight.TALKING,
    TurnState.HELD_BACK: TurnLight.WAITING,
}
LINKS: dict[SessionState, LinkLight] = {
    SessionState.WAITING: LinkLight.DOWN,
    SessionState.CONNECTING: LinkLight.CONNECTING,
    SessionState.GREETING: LinkLight.CONNECTING,
    SessionState.OPEN: LinkLight.UP,
    SessionState.ENDED: LinkLight.DOWN,
}

TASKS: dict[Task | None, TaskLight] = {
    None: TaskLight.NONE,
    "pair": TaskLight.PAIRING,
    "self_test": TaskLight.SELF_TEST,
}


def facts(person: Person, playback: Playback, link: SessionState, stopping: bool) -> LampFacts:
    if person.alerts.playing:
        played = PlaybackLight.ALERT
    elif playback.silent:
        played = PlaybackLight.SILENT
    else:
        played = PlaybackLight.PAUSED if playback.paused else PlaybackLight.PLAYING
    state = person.turn.state
    return LampFacts(
        phase=Phase.STOPPING if stopping else Phase.RUNNING,
        turn=TURNS[state],
        playback=played,
        link=LINKS[link],
        task=TASKS[person.task],
        muted=person.deaf,
        card=playback.ready,
        control=state not in (TurnState.LOST, TurnState.LATCHED_LOST),
        alert_waiting=person.alerts.to_acknowledge,
        low_power=bool({"low_battery", "undervoltage"} & person.conditions),
        too_hot="too_hot" in person.conditions,
    )
