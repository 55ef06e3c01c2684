"""Settings: one TOML file, checked whole before anything starts.

Every message names the field, the value and the cure; all of them are told at once.
"""

from __future__ import annotations

import difflib
import os
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from handset.audio.card import CardSettings
from handset.audio.devices import RATES
from handset.core.session import SessionSettings
from handset.core.turn import TurnSettings
from handset.edge.whip import Target, normal_fingerprint
from handset.errors import UsageError
from handset.system.identity import runtime_directory, state_directory

CAPTURE_RATE = 48_000


class WrongSettings(UsageError):
    """The file can't be used. One line for each thing that is wrong."""


@dataclass(frozen=True, slots=True)
class _Field:
    kind: type
    default: Any
    low: float = 0
    high: float = 0
    cure: str = ""


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
        "pre_roll_ms": _Field(int, 300, 0, 1500),
        "post_roll_ms": _Field(int, 250, 0, 1500),
        "shortest_ms": _Field(int, 100, 100, 1000),
    },
    "files": {
        "state": _Field(str, "", cure="a directory on disk"),
        "runtime": _Field(str, "", cure="a directory in memory (tmpfs)"),
    },
}
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
    for section in data.keys() - FIELDS.keys():
        problems.append(f"[{section}]: no such section{_near(section, FIELDS)}")
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
    if problems:
        raise WrongSettings("\n".join(f"{where}: {problem}" for problem in sorted(problems)))
    return _settings(values)


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
    if spec.low < spec.high and not spec.low <= value <= spec.high:
        problems.append(f"{section}.{name} = {value}: must be {spec.low:g} to {spec.high:g}")
    return value


def _settings(values: dict[str, dict[str, Any]]) -> Settings:
    handset, edge, audio = values["handset"], values["edge"], values["audio"]
    turn, files = values["turn"], values["files"]
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
        ),
        SessionSettings(),
        Path(files["state"]) if files["state"] else state_directory(),
        Path(files["runtime"]) if files["runtime"] else runtime_directory(),
    )
