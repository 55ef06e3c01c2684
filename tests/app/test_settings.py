"""The settings file: everything that is wrong is told, with its cure, and no secret ever is."""

from __future__ import annotations

import math
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handset.errors import UsageError
from handset.settings import EXAMPLE, FIELDS, Settings, WrongSettings, load, parse

SECRET = "s3cr3t-of-the-edge"


def example(**sections: dict[str, Any]) -> dict[str, Any]:
    """The example, with fields of some sections set; None takes a field away."""
    data = tomllib.loads(EXAMPLE)
    for section, fields in sections.items():
        merged = {**data.get(section, {}), **fields}
        data[section] = {name: value for name, value in merged.items() if value is not None}
    return data


def problems(data: dict[str, Any]) -> list[str]:
    with pytest.raises(WrongSettings) as caught:
        parse(data, "file")
    return str(caught.value).splitlines()


def test_the_example_is_a_file_that_works() -> None:
    made = parse(tomllib.loads(EXAMPLE))
    assert made.handset_id == "headset-07"
    assert made.card.playback == "USB Audio"
    assert (made.card.block_ms, made.card.latency) == (10.0, 0.02)
    assert (made.turn.pre_roll, made.turn.post_roll, made.turn.shortest) == (14_400, 12_000, 4_800)


WRONG: list[tuple[str, str, Any, str]] = [
    ("handset", "id", None, "is missing"),
    ("handset", "id", 7, "= 7: must be a name of your choice"),
    ("handset", "id", "  ", "is empty"),
    ("handset", "label", True, "= True: must be what is written on the headset"),
    ("edge", "url", None, "is missing"),
    ("edge", "url", "", "is empty"),
    ("edge", "url", 1, "= 1: must be the edge's WHIP address"),
    ("edge", "url", "ftp://edge/whip", "no http:// or https:// URL"),
    ("edge", "url", "http://[", "no http:// or https:// URL"),
    ("edge", "fingerprint", "zz", "'zz' is no SHA-256"),
    ("edge", "fingerprint", 5, "= 5: must be the SHA-256"),
    ("edge", "credential_file", [], "= []: must be a file that holds the credential"),
    ("edge", "credential_env", 1.5, "= 1.5: must be the environment variable"),
    ("edge", "loopback", 1, "= 1: must be true or false"),
    ("audio", "device", None, "is missing"),
    ("audio", "device", "", "is empty"),
    ("audio", "device", {}, "= {}: must be a part of the card's name"),
    ("audio", "microphone", 3, "= 3: must be another card's name"),
    ("audio", "rate", 22_050, "= 22050: one of 48000, 44100, 16000"),
    ("audio", "rate", True, "= True: must be one of 48000"),
    ("audio", "rate", "48k", "= '48k': must be one of 48000"),
    ("audio", "block_ms", 1.9, "= 1.9: must be 2 to 60"),
    ("audio", "block_ms", math.nan, "= nan: must be 2 to 60"),
    ("audio", "block_ms", False, "= False: must be a number"),
    ("audio", "latency_ms", 501, "= 501: must be 2 to 500"),
    ("audio", "latency_ms", math.inf, "= inf: must be 2 to 500"),
    ("audio", "channels", 0, "= 0: must be 1 to 8"),
    ("audio", "channels", 1.0, "= 1.0: must be a whole number"),
    ("audio", "fade_ms", -1, "= -1: must be 0 to 50"),
    ("audio", "duck_db", 3, "= 3: must be -20 to 0"),
    ("audio", "duck_db", -21, "= -21: must be -20 to 0"),
    ("turn", "pre_roll_ms", -1, "= -1: must be 0 to 1500"),
    ("turn", "pre_roll_ms", True, "= True: must be a whole number"),
    ("turn", "post_roll_ms", 2_000, "= 2000: must be 0 to 1500"),
    ("turn", "shortest_ms", 99, "= 99: must be 100 to 1000"),
    ("turn", "mode", "push", "= 'push': must be one of hold, toggle, tap_latch, automatic"),
    ("turn", "tap", "clear", "= 'clear': must be one of stop, resume"),
    ("turn", "press_ms", 501, "= 501: must be 0 to 500"),
    ("turn", "latch_ms", 100, "= 100: must be 150 to 1000"),
    ("turn", "require_manual", "no", "= 'no': must be true or false"),
    ("turn", "warn_s", 1, "= 1: must be 5 to 600"),
    ("turn", "no_speech_s", 5, "= 5: must be 10 to 600"),
    ("turn", "longest_s", 700, "= 700: must be 30 to 600"),
    ("turn", "keep_s", 0, "= 0: must be 10 to 3600"),
    ("voice", "canceller", "webrtc", "= 'webrtc': must be one of livekit, speexdsp, none"),
    ("voice", "suspect", "stop", "= 'stop': must be one of pause, duck"),
    ("voice", "end_ms", 100, "= 100: must be 300 to 5000"),
    ("wearer", "language", "it", "= 'it': must be one of en, de, fr, es"),
    ("wearer", "notices", 1, "= 1: must be true or false"),
    ("wearer", "require_consent", "yes", "= 'yes': must be true or false"),
    ("wearer", "idle_h", 25, "= 25: must be 0.1 to 24"),
    ("tasks", "pair", 1, "= 1: must be a command that pairs a headset"),
    ("tasks", "self_test", [], "= []: must be a command that tests this machine"),
    ("files", "state", 0, "= 0: must be a directory on disk"),
    ("files", "runtime", False, "= False: must be a directory in memory"),
]


@pytest.mark.parametrize(("section", "name", "value", "said"), WRONG)
def test_a_wrong_field_is_told_with_its_value_and_its_cure(
    section: str, name: str, value: object, said: str
) -> None:
    mode = {"turn": {"mode": "automatic"}} if section == "voice" else {}
    (line,) = problems(example(**{section: {name: value}, **mode}))
    assert line.startswith(f"file: {section}.{name}")
    assert said in line


def test_every_field_has_a_wrong_value_here() -> None:
    known = {(section, name) for section, fields in FIELDS.items() for name in fields}
    assert {(section, name) for section, name, _, _ in WRONG} == known


def test_all_that_is_wrong_is_told_at_once() -> None:
    lines = problems(
        {
            "handset": {"id": 3},
            "edge": {"url": "nowhere", "fingerprint": "1"},
            "audio": {"device": "x", "rate": 1, "blok_ms": 10},
            "turn": {"shortest_ms": 0},
            "other": 1,
        }
    )
    assert len(lines) == 8
    assert lines == sorted(lines)


@pytest.mark.parametrize(
    ("sections", "said"),
    [
        ({"turn": {"mode": "automatic", "require_manual": True}}, "one source admits a turn"),
        ({"voice": {"end_ms": 800}}, "[voice]: nothing detects speech with turn.mode = 'hold'"),
        ({"turn": {"mode": "toggle", "tap": "resume"}}, "turn.tap = 'resume': with turn.mode"),
        ({"turn": {"mode": "tap_latch", "tap": "stop"}}, "a tap takes the floor"),
        ({"turn": {"no_speech_s": 400}}, "turn.no_speech_s = 400 is above turn.longest_s = 300"),
        ({"wearer": {"require_consent": True, "notices": False}}, "asked for in words"),
    ],
)
def test_settings_that_conflict_are_refused(sections: dict[str, Any], said: str) -> None:
    (line,) = problems(example(**sections))
    assert said in line


def test_a_section_that_is_none_is_told() -> None:
    lines = problems({**example(), "turn": 3, "audio": [{"device": "x"}]})
    assert "file: turn: must be a section, [turn]" in lines
    assert "file: audio: must be a section, [audio]" in lines


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (example(audio={"devise": "x"}), "file: audio.devise: no such setting; do you mean 'dev"),
        (example(turn={"preroll_ms": 1}), "do you mean 'pre_roll_ms'?"),
        (example(turn={"zzzz": 1}), "there are mode, tap, press_ms, pre_roll_ms"),
        (example(handsets={"id": "x"}), "file: [handsets]: no such section; do you mean 'handset'"),
        (example(qqqq={}), "there are handset, edge, audio, turn, voice, wearer"),
    ],
)
def test_a_name_that_there_is_not_suggests_the_near_one(data: dict[str, Any], said: str) -> None:
    (line,) = problems(data)
    assert said in line


@pytest.mark.parametrize("env", [None, "EDGE"])
def test_the_credential_has_one_place(env: str | None) -> None:
    path = None if env is None else "/etc/credential"
    (line,) = problems(example(edge={"credential_file": path, "credential_env": env}))
    assert "credential_file" in line and "credential_env" in line


# ---- files ----------------------------------------------------------------------------------


def test_a_missing_file_shows_the_smallest_that_works(tmp_path: Path) -> None:
    with pytest.raises(WrongSettings) as caught:
        load(tmp_path / "none.toml")
    assert "No such file" in str(caught.value)
    assert EXAMPLE in str(caught.value)


@pytest.mark.parametrize("content", [b"[handset\nid=", b"id = \xff\xfe", b"a = 1\na = 2"])
def test_a_file_that_is_no_toml_is_told_with_its_name(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "settings.toml"
    file.write_bytes(content)
    with pytest.raises(WrongSettings, match=r"settings\.toml: no "):
        load(file)


def test_problems_name_the_file(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text(EXAMPLE + "rate = 8000\n")
    with pytest.raises(WrongSettings) as caught:
        load(file)
    assert str(caught.value).startswith(f"{file}: audio.rate = 8000: ")


# ---- the credential --------------------------------------------------------------------------


def test_the_credential_is_read_anew_from_its_file(tmp_path: Path) -> None:
    file = tmp_path / "credential"
    made = parse(example(edge={"credential_file": str(file)}))
    for secret in (SECRET, SECRET + "-rotated"):
        file.write_text(f"  {secret}\n")
        assert made.target().credential == secret


def test_the_credential_is_read_anew_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    made = parse(example(edge={"credential_file": None, "credential_env": "EDGE_CREDENTIAL"}))
    for secret in (SECRET, SECRET + "-rotated"):
        monkeypatch.setenv("EDGE_CREDENTIAL", secret)
        assert made.target().credential == secret
    monkeypatch.delenv("EDGE_CREDENTIAL")
    with pytest.raises(UsageError, match="no EDGE_CREDENTIAL; set it"):
        made.target()


@pytest.mark.parametrize(
    ("content", "said"),
    [(None, "No such file"), (b"", "is empty"), (b" \n", "is empty"), (b"\xff\xfe", "is no text")],
)
def test_a_credential_file_that_can_not_be_used(
    tmp_path: Path, content: bytes | None, said: str
) -> None:
    file = tmp_path / "credential"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(UsageError, match=f"edge.credential_file {file}: {said}"):
        parse(example(edge={"credential_file": str(file)})).target()


def test_no_text_of_ours_holds_the_credential(tmp_path: Path) -> None:
    file = tmp_path / "credential"
    made = parse(example(edge={"credential_file": str(file)}))
    file.write_text(SECRET)
    target = made.target()
    assert SECRET not in f"{made!r} {made} {target!r} {target}"
    file.write_text(SECRET + "\x01")
    with pytest.raises(UsageError) as caught:
        made.target()
    assert SECRET not in f"{caught.value} {caught.value!r}"


def test_a_password_in_the_address_is_not_repeated() -> None:
    (line,) = problems(example(edge={"url": f"https://me:{SECRET}@edge.example/whip"}))
    assert "edge.url" in line and "credential" in line
    assert SECRET not in line


# ---- anything at all -------------------------------------------------------------------------

SCALARS = (
    st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=12)
    | st.sampled_from(["https://edge/whip", "http://[", "0d8c:0014", 48_000, 10.0])
    | st.dates()
)
VALUES = SCALARS | st.lists(SCALARS, max_size=2) | st.dictionaries(st.text(max_size=5), SCALARS)
SECTIONS = {
    section: st.dictionaries(st.sampled_from([*fields, "other"]), VALUES, max_size=6) | VALUES
    for section, fields in FIELDS.items()
}


@given(
    st.fixed_dictionaries({}, optional=SECTIONS),
    st.dictionaries(st.text(max_size=8), VALUES, max_size=1),
    st.booleans(),
)
def test_anything_gives_settings_or_says_what_is_wrong(
    data: dict[str, Any], other: dict[str, Any], on_top: bool
) -> None:
    if on_top:  # of what works, so that single fields are reached
        data = example(**{key: value for key, value in data.items() if isinstance(value, dict)})
    try:
        made = parse({**other, **data})
    except WrongSettings as wrong:
        assert str(wrong).startswith("settings: ")
    else:
        assert isinstance(made, Settings)
        assert 2 <= made.card.block_ms <= 60
        assert made.handset_id.strip() and made.card.playback.strip()
