"""Settings: one TOML file, checked whole before anything starts.

Every message names the field, the value and the cure; all of them are told at once.
"""

from __future__ import annotations

import difflib
import os
import shlex
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from handset.audio.card import CardSettings
from handset.audio.devices import RATES
from handset.audio.echo import CANCELLERS
from handset.audio.voice_front import VoiceSettings
from handset.controls.gpio_chip import Level, Pull
from handset.controls.gpio_wiring import Button, GpioSettings
from handset.controls.led import LampSettings, Led
from handset.controls.modem_lines import LineButton
from handset.core.events import Task
from handset.core.floor import FloorSettings
from handset.core.keys import Key, KeySettings
from handset.core.person import PersonSettings
from handset.core.session import SessionSettings
from handset.core.speech import SpeechSettings
from handset.core.turn import TurnSettings
from handset.core.wearer import WearerSettings
from handset.edge.whip import Target, normal_fingerprint
from handset.errors import UsageError
from handset.hardware import Hardware, InputSettings
from handset.notices import LANGUAGES
from handset.system.identity import runtime_directory, state_directory

CAPTURE_RATE = 48_000
MILLISECOND = 1_000_000
SECOND = 1_000_000_000
VOICE_FRAME_MS = 20


class WrongSettings(UsageError):
    """The file can't be used. One line for each thing that is wrong."""


@dataclass(frozen=True, slots=True)
class _Field:
    kind: type
    default: Any
    low: float = 0
    high: float = 0
    cure: str = ""
    choices: tuple[str, ...] = ()


def _choice(default: str, *choices: str) -> _Field:
    named = [choice for choice in choices if choice]
    return _Field(str, default, cure=f"one of {', '.join(named)}", choices=choices)


FIELDS: dict[str, dict[str, _Field]] = {
    "handset": {
        "id": _Field(str, None, cure="a name of your choice, not that of another headset"),
        "label": _Field(str, "", cure="what is written on the headset"),
    },
    "edge": {
        "url": _Field(str, None, cure="the edge's WHIP address, https://..."),
        "fingerprint": _Field(str, "", cure="the SHA-256 of the edge's DTLS certificate"),
        "credential_file": _Field(str, "", cure="a file that holds the credential, mode 0600"),
        "credential_env": _Field(str, "", cure="the environment variable with the credential"),
        "loopback": _Field(bool, False, cure="true or false"),
    },
    "audio": {
        "device": _Field(str, None, cure="a part of the card's name, or its USB id"),
        "microphone": _Field(str, "", cure="another card's name or USB id, if not the same"),
        "rate": _Field(int, 0, cure=f"one of {', '.join(map(str, RATES))}; leave out: the best"),
        "block_ms": _Field(float, 10.0, 2, 60),
        "latency_ms": _Field(float, 20.0, 2, 500),
        "channels": _Field(int, 1, 1, 8),
        "fade_ms": _Field(float, 5.0, 0, 50),
        "duck_db": _Field(float, -12.0, -20, 0),
    },
    "turn": {
        "mode": _choice("hold", "hold", "toggle", "tap_latch", "automatic"),
        "tap": _choice("", "", "stop", "resume"),
        "press_ms": _Field(int, 80, 0, 500),
        "pre_roll_ms": _Field(int, 300, 0, 1500),
        "post_roll_ms": _Field(int, 250, 0, 1500),
        "shortest_ms": _Field(int, 100, 100, 1000),
        "latch_ms": _Field(int, 400, 150, 1000),
        "require_manual": _Field(bool, False, cure="true or false"),
        "warn_s": _Field(int, 60, 5, 600),
        "no_speech_s": _Field(int, 60, 10, 600),
        "longest_s": _Field(int, 300, 30, 600),
        "keep_s": _Field(int, 120, 10, 3600),
    },
    "voice": {
        "canceller": _choice("livekit", *CANCELLERS),
        "suspect": _choice("pause", "pause", "duck"),
        "end_ms": _Field(int, 1000, 300, 5000),
    },
    "wearer": {
        "language": _choice("en", *LANGUAGES),
        "notices": _Field(bool, True, cure="true or false"),
        "require_consent": _Field(bool, False, cure="true or false"),
        "idle_h": _Field(float, 4.0, 0.1, 24),
    },
    "tasks": {
        "pair": _Field(str, "", cure="a command that pairs a headset"),
        "self_test": _Field(str, "", cure="a command that tests this machine"),
    },
    "files": {
        "state": _Field(str, "", cure="a directory on disk"),
        "runtime": _Field(str, "", cure="a directory in memory (tmpfs)"),
    },
}
_KEYS = tuple(key.value for key in Key)
TABLES: dict[str, dict[str, _Field]] = {
    "gpio": {
        "key": _choice("talk", *_KEYS),
        "line": _Field(int, None, 0, 1023, cure="the BCM number of the pin"),
        "pull": _choice("up", "up", "down", "none"),
        "active": _choice("low", "low", "high"),
    },
    "led": {
        "colour": _choice("red", "red", "green", "blue", "white"),
        "line": _Field(int, None, 0, 1023, cure="the BCM number of the pin"),
        "active": _choice("high", "high", "low"),
    },
    "wire": {
        "port": _Field(str, None, cure="a serial port, as vid:pid or a path"),
        "line": _choice("cts", "cts", "dsr", "dcd", "ri"),
        "key": _choice("talk", *_KEYS),
        "active": _Field(bool, True, cure="true or false"),
        "lamp": _choice("", "", "rts", "dtr"),
    },
    "puck": {
        "port": _Field(str, None, cure="a serial port, as vid:pid or a path"),
    },
    "input": {
        "device": _Field(str, None, cure="a part of the device's name, or vid:pid"),
        "grab": _Field(bool, True, cure="true or false"),
        "hold": _Field(bool, False, cure="true or false"),
    },
}
"""Sections that may be given several times: ``[[gpio]]``."""
EXAMPLE = """\
[handset]
id = "headset-07"

[edge]
url = "https://edge.example/whip"
credential_file = "/etc/kelter-handset/credential"

[audio]
device = "USB Audio"
"""


@dataclass(frozen=True, slots=True)
class Settings:
    handset_id: str
    label: str
    card: CardSettings
    url: str
    fingerprint: str | None
    credential_file: Path | None
    credential_env: str
    loopback: bool
    turn: TurnSettings
    person: PersonSettings
    voice: VoiceSettings
    language: str
    tasks: dict[Task, tuple[str, ...]]
    hardware: Hardware
    session: SessionSettings
    state: Path
    runtime: Path

    def target(self) -> Target:
        """Where to connect. Reads the credential anew: it is never kept."""
        return Target(self.url, self._credential(), self.fingerprint, allow_loopback=self.loopback)

    def _credential(self) -> str:
        if self.credential_file is not None:
            try:
                held = self.credential_file.read_text("utf-8").strip()
            except OSError as error:
                raise UsageError(
                    f"edge.credential_file {self.credential_file}: {error.strerror}"
                ) from None
            except ValueError:
                raise UsageError(
                    f"edge.credential_file {self.credential_file}: is no text"
                ) from None
            if not held:
                raise UsageError(f"edge.credential_file {self.credential_file}: is empty")
            return held
        value = os.environ.get(self.credential_env)
        if not value:
            raise UsageError(
                f"edge.credential_env: the environment has no {self.credential_env}; set it"
            )
        return value


def load(path: Path) -> Settings:
    """Settings from a file. ``WrongSettings`` with everything that is wrong."""
    try:
        text = path.read_text("utf-8")
    except OSError as error:
        raise WrongSettings(
            f"{path}: {error.strerror}. The smallest file that works:\n\n{EXAMPLE}"
        ) from None
    except UnicodeDecodeError as error:
        raise WrongSettings(f"{path}: no text in UTF-8: {error}") from None
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise WrongSettings(f"{path}: no TOML: {error}") from None
    return parse(data, str(path))


def parse(data: dict[str, Any], where: str = "settings") -> Settings:
    problems: list[str] = []
    values = {section: _section(section, data, problems) for section in FIELDS}
    hardware = _hardware(data, problems)
    for section in data.keys() - FIELDS.keys() - TABLES.keys():
        problems.append(f"[{section}]: no such section{_near(section, FIELDS | TABLES)}")
    edge, audio = values["edge"], values["audio"]
    wrong_kind = any(problem.startswith("edge.credential_") for problem in problems)
    if not edge["credential_file"] and not edge["credential_env"] and not wrong_kind:
        problems.append("edge: name credential_file or credential_env, where the credential is")
    if edge["credential_file"] and edge["credential_env"]:
        problems.append("edge: both credential_file and credential_env; keep one")
    if audio["rate"] and audio["rate"] not in RATES:
        problems.append(
            f"audio.rate = {audio['rate']}: one of {', '.join(map(str, RATES))}, or leave it out"
        )
    problems += _edge_problems(edge["url"], edge["fingerprint"])
    problems += _conflicts(values["turn"], data.get("voice", {}), values["wearer"], data)
    if problems:
        raise WrongSettings("\n".join(f"{where}: {problem}" for problem in sorted(problems)))
    assert hardware is not None
    return _settings(values, hardware)


def _tables(section: str, data: dict[str, Any], problems: list[str]) -> list[dict[str, Any]]:
    """The entries of a section that may be given several times, each whole."""
    given = data.get(section, [])
    if not isinstance(given, list) or not all(isinstance(each, dict) for each in given):
        problems.append(f"{section}: must be [[{section}]], with two brackets")
        return []
    fields, made = TABLES[section], []
    for n, entry in enumerate(given, 1):
        where = f"{section}[{n}]"
        for name in entry.keys() - fields.keys():
            problems.append(f"{where}.{name}: no such setting{_near(name, fields)}")
        made.append({name: _value(where, name, fields[name], entry, problems) for name in fields})
    return made


def _hardware(data: dict[str, Any], problems: list[str]) -> Hardware | None:
    before = len(problems)
    tables = {section: _tables(section, data, problems) for section in TABLES}
    if len(problems) > before:
        return None
    wires: dict[str, list[LineButton]] = {}
    outputs = {wire["port"]: wire["lamp"] for wire in tables["wire"] if wire["lamp"]}
    for wire in tables["wire"]:
        button = LineButton(wire["line"], Key(wire["key"]), wire["active"])
        wires.setdefault(wire["port"], []).append(button)
    try:
        buttons = tuple(
            Button(Key(b["key"]), b["line"], Pull(b["pull"]), Level(b["active"]))
            for b in tables["gpio"]
        )
        leds = tuple(Led(d["colour"], d["line"], Level(d["active"])) for d in tables["led"])
        shared = {b.line for b in buttons} & {d.line for d in leds}
        if shared:
            raise UsageError(f"GPIO {min(shared)} is a button and a LED; give each its own")
        return Hardware(
            GpioSettings(buttons) if buttons else None,
            LampSettings(leds) if leds else None,
            tuple((port, tuple(of_port), outputs.get(port, "")) for port, of_port in wires.items()),
            tuple(each["port"] for each in tables["puck"]),
            tuple(InputSettings(**each) for each in tables["input"]),
        )
    except UsageError as error:
        problems.append(f"gpio: {error}")
        return None


def _edge_problems(url: str, fingerprint: str) -> list[str]:
    """Without the address itself: a wrong one may hold a password."""
    problems = []
    for name, given, check in (
        ("url", url, lambda: Target(url, "")),
        ("fingerprint", fingerprint, lambda: normal_fingerprint(fingerprint)),
    ):
        try:
            if given and given.strip():
                check()
        except UsageError as error:
            problems.append(f"edge.{name}: {error}")
    return problems


def _conflicts(
    turn: dict[str, Any], voice: Any, wearer: dict[str, Any], data: dict[str, Any]
) -> list[str]:
    """Settings that are each right, and can't be meant together."""
    problems = []
    mode = turn["mode"]
    if mode == "automatic" and turn["require_manual"]:
        problems.append(
            "turn.mode = 'automatic' with turn.require_manual = true: one source admits a turn; "
            "choose hold, toggle or tap_latch, or leave require_manual to the edge"
        )
    if mode != "automatic" and voice:
        problems.append(
            f"[voice]: nothing detects speech with turn.mode = {mode!r}; leave the section out, "
            "or set turn.mode = 'automatic'"
        )
    if turn["tap"] and mode in ("toggle", "tap_latch"):
        problems.append(
            f"turn.tap = {turn['tap']!r}: with turn.mode = {mode!r} a tap takes the floor; "
            "leave it out"
        )
    if turn["no_speech_s"] > turn["longest_s"]:
        problems.append(
            f"turn.no_speech_s = {turn['no_speech_s']} is above turn.longest_s = "
            f"{turn['longest_s']}: it would never be reached"
        )
    if wearer["require_consent"] and not wearer["notices"]:
        problems.append(
            "wearer.require_consent = true with wearer.notices = false: consent is asked for in "
            "words; switch the notices on"
        )
    return problems


def _near(name: str, known: dict[str, Any]) -> str:
    close = difflib.get_close_matches(name, known, 1)
    return f"; do you mean {close[0]!r}?" if close else f"; there are {', '.join(known)}"


def _section(section: str, data: dict[str, Any], problems: list[str]) -> dict[str, Any]:
    fields = FIELDS[section]
    given = data.get(section, {})
    if not isinstance(given, dict):
        problems.append(f"{section}: must be a section, [{section}]")
        given = {}
    for name in given.keys() - fields.keys():
        problems.append(f"{section}.{name}: no such setting{_near(name, fields)}")
    return {name: _value(section, name, fields[name], given, problems) for name in fields}


def _value(
    section: str, name: str, spec: _Field, given: dict[str, Any], problems: list[str]
) -> Any:
    if name not in given:
        if spec.default is None:
            problems.append(f"{section}.{name}: is missing; {spec.cure}")
        return spec.default
    value: Any = given[name]
    wanted: Any = (int, float) if spec.kind is float else spec.kind
    if not isinstance(value, wanted) or (isinstance(value, bool) and spec.kind is not bool):
        kinds = {str: "a text in quotes", int: "a whole number", float: "a number"}
        cure = spec.cure or kinds.get(spec.kind, "")
        problems.append(f"{section}.{name} = {value!r}: must be {cure}")
        return spec.default
    if spec.kind is str and spec.default is None and not value.strip():
        problems.append(f"{section}.{name} is empty; {spec.cure}")
    if spec.choices and value not in spec.choices:
        problems.append(f"{section}.{name} = {value!r}: must be {spec.cure}")
        return spec.default
    if spec.low < spec.high and not spec.low <= value <= spec.high:
        problems.append(f"{section}.{name} = {value}: must be {spec.low:g} to {spec.high:g}")
    return value


def _settings(values: dict[str, dict[str, Any]], hardware: Hardware) -> Settings:
    handset, edge, audio = values["handset"], values["edge"], values["audio"]
    turn, files = values["turn"], values["files"]
    voice, wearer = values["voice"], values["wearer"]
    named: tuple[Task, ...] = ("pair", "self_test")
    tasks = {t: tuple(shlex.split(values["tasks"][t])) for t in named if values["tasks"][t]}
    samples = CAPTURE_RATE // 1000
    return Settings(
        handset["id"],
        handset["label"],
        CardSettings(
            audio["device"],
            audio["microphone"],
            audio["rate"] or None,
            float(audio["block_ms"]),
            audio["latency_ms"] / 1000,
            audio["channels"],
            float(audio["fade_ms"]),
            float(audio["duck_db"]),
        ),
        edge["url"],
        edge["fingerprint"] or None,
        Path(edge["credential_file"]) if edge["credential_file"] else None,
        edge["credential_env"],
        edge["loopback"],
        TurnSettings(
            turn["pre_roll_ms"] * samples,
            turn["post_roll_ms"] * samples,
            turn["shortest_ms"] * samples,
            warn_after_ns=turn["warn_s"] * SECOND,
            no_speech_ns=turn["no_speech_s"] * SECOND,
            longest_ns=turn["longest_s"] * SECOND,
            keep_ns=turn["keep_s"] * SECOND,
        ),
        PersonSettings(
            KeySettings(
                turn["mode"],
                latch_ns=turn["latch_ms"] * MILLISECOND,
                switches=KeySettings().switches | hardware.switches,
                clean=KeySettings().clean | hardware.clean,
            ),
            FloorSettings(turn["press_ms"] * MILLISECOND, turn["tap"] or "stop", voice["suspect"]),
            WearerSettings(
                disclose=wearer["notices"],
                require_consent=wearer["require_consent"],
                idle_ns=int(wearer["idle_h"] * 3600 * SECOND),
            ),
            turn["require_manual"],
            wearer["notices"],
            frozenset(tasks),
        ),
        VoiceSettings(
            voice["canceller"], speech=SpeechSettings(end=voice["end_ms"] // VOICE_FRAME_MS)
        ),
        wearer["language"],
        tasks,
        hardware,
        SessionSettings(),
        Path(files["state"]) if files["state"] else state_directory(),
        Path(files["runtime"]) if files["runtime"] else runtime_directory(),
    )
