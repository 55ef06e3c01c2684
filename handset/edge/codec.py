"""The JSON messages of ``ctl`` and ``tick``, to and from text.

The text is ``{"type": TYPE, ...fields}`` over the dataclasses of
:mod:`handset.core.messages`, with every field present and ``type`` first.

What comes in is judged in this order: longer than ``packets.MAX_MESSAGE`` bytes, no JSON
object, or no ``type``: :class:`Malformed`. A type that this direction does not have:
:class:`Unknown`. A field missing, of the wrong type, or an integer out of range:
:class:`Malformed`. A field that the type does not have: ignored, and named in
``Decoded.unknown_fields``. Nothing else can come out, whatever went in.

An integer fits 64 bits with its sign; one that the edge sends is never negative.

``python -m handset.edge.codec --write`` writes ``schema.json``, the JSON Schema of both
directions, from the same dataclasses. Without ``--write`` it prints the schema.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Generic, TypeVar, Union, cast, get_args, get_origin, get_type_hints

import msgspec

from handset.core.messages import FROM_EDGE, FROM_HANDSET, PROTOCOL_MAX, FromEdge, FromHandset
from handset.core.packets import MAX_MESSAGE, Malformed
from handset.errors import UsageError

SCHEMA_FILE = Path(__file__).with_name("schema.json")
_NAME = 64  # characters of a peer's own words that we repeat

M = TypeVar("M", covariant=True)


@dataclass(frozen=True, slots=True)
class Unknown:
    """A message of a type that this version does not have: counted, otherwise ignored."""

    type: str


@dataclass(frozen=True, slots=True)
class Decoded(Generic[M]):
    """A message, and the fields it came with that its type does not have.

    A field of a nested object is named by its path, as in ``ranges.step``.
    """

    message: M
    unknown_fields: tuple[str, ...] = ()


def encode(message: FromHandset | FromEdge) -> str:
    """Text of one message. ``UsageError`` when it has no wire form or does not fit in one."""
    cls = type(message)
    if cls not in FROM_HANDSET and cls not in FROM_EDGE:
        raise UsageError(f"{cls.__name__} is no message of the protocol; send one that is")
    try:
        body = msgspec.json.encode(message)
    except (msgspec.MsgspecError, TypeError, ValueError, OverflowError) as error:
        raise UsageError(f"{cls.__name__} can't be written as JSON: {error}") from None
    text = b'{"type":"' + _type(cls).encode() + b'",' + body[1:]
    if len(text) > MAX_MESSAGE:
        raise UsageError(
            f"{cls.__name__} has {len(text)} bytes; {MAX_MESSAGE} fit into one message"
        )
    return str(text, "utf-8")


def decode_from_edge(text: str) -> Decoded[FromEdge | Unknown]:
    """A message that the edge sent. ``Malformed`` for anything else."""
    return cast("Decoded[FromEdge | Unknown]", _decode(text, _EDGE, lowest=0))


def decode_from_handset(text: str) -> Decoded[FromHandset | Unknown]:
    """A message that a handset sent. ``Malformed`` for anything else."""
    return cast("Decoded[FromHandset | Unknown]", _decode(text, _HANDSET, lowest=-(1 << 63)))


def _decode(text: str, types: dict[str, type], lowest: int) -> Decoded[object]:
    try:
        data = text.encode()
        if len(data) > MAX_MESSAGE:
            raise Malformed(f"{len(data)} bytes in one message; {MAX_MESSAGE} are allowed")
        body = msgspec.json.decode(data)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise Malformed(f"no JSON: {_clip(str(error))}") from None
    if not isinstance(body, dict):
        raise Malformed("JSON, but no object")
    name = body.pop("type", None)
    if not isinstance(name, str) or not name:
        raise Malformed("a message without a type")
    cls = types.get(name)
    if cls is None:
        return Decoded(Unknown(_clip(name)))
    try:
        message: object = msgspec.convert(body, cls)
    except (msgspec.MsgspecError, RecursionError, OverflowError) as error:
        raise Malformed(f"{name}: {_clip(str(error), 200)}") from None
    for path, value in _integers(message):
        if not lowest <= value < 1 << 63:
            raise Malformed(f"{name}: {path} is an integer outside {lowest}..{(1 << 63) - 1}")
    return Decoded(message, tuple(_strangers(body, cls, "")))


def _clip(text: str, length: int = _NAME) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"


def _integers(value: object, path: str = "") -> Iterator[tuple[str, int]]:
    """Every integer in a decoded message, with the path of the field it is in."""
    if isinstance(value, bool):
        return
    if isinstance(value, int):
        yield path, value
    elif isinstance(value, list):
        for each in value:
            yield from _integers(each, path)
    elif isinstance(value, dict):
        for each in value.values():
            yield from _integers(each, path)
    elif is_dataclass(value) and not isinstance(value, type):
        for name in _shape(type(value)):
            yield from _integers(getattr(value, name), f"{path}.{name}" if path else name)


def _type(cls: type) -> str:
    """The ``TYPE`` of a message class, which is no field of it."""
    return str(vars(cls)["TYPE"])


_EDGE = {_type(cls): cls for cls in FROM_EDGE}
_HANDSET = {_type(cls): cls for cls in FROM_HANDSET}


@cache
def _shape(cls: type) -> dict[str, type | None]:
    """The fields of a dataclass; for each the dataclass it holds, or holds a list of."""
    hints = get_type_hints(cls)
    return {field.name: _held(hints[field.name]) for field in fields(cls)}


def _held(hint: Any) -> type | None:
    if isinstance(hint, type) and is_dataclass(hint):
        return hint
    if get_origin(hint) in (list, Union, UnionType):
        for part in get_args(hint):
            if part is not NoneType and (held := _held(part)):
                return held
    return None


def _strangers(body: dict[str, Any], cls: type, path: str) -> Iterator[str]:
    shape = _shape(cls)
    for name, value in body.items():
        if name not in shape:
            yield path + _clip(name)
        elif held := shape[name]:
            for each in value if isinstance(value, list) else [value]:
                if isinstance(each, dict):
                    yield from _strangers(each, held, f"{path}{name}.")


def json_schema() -> dict[str, Any]:
    """JSON Schema (2020-12) of every message; ``$defs`` has one per class and one per direction."""
    classes = list(dict.fromkeys((*FROM_HANDSET, *FROM_EDGE)))
    _, defs = msgspec.json.schema_components(classes, ref_template="#/$defs/{name}")
    for cls in classes:
        schema = defs[cls.__name__]
        schema["properties"] = {"type": {"const": _type(cls)}, **schema["properties"]}
        schema["required"] = ["type", *schema.get("required", [])]
    for title, direction in (("FromHandset", FROM_HANDSET), ("FromEdge", FROM_EDGE)):
        refs = [{"$ref": f"#/$defs/{cls.__name__}"} for cls in direction]
        defs[title] = {"title": title, "oneOf": refs}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"Kelter handset protocol, version {PROTOCOL_MAX}",
        "anyOf": [{"$ref": "#/$defs/FromHandset"}, {"$ref": "#/$defs/FromEdge"}],
        "$defs": dict(sorted(defs.items())),
    }


def schema_text() -> str:
    """What ``schema.json`` has to hold."""
    return msgspec.json.format(msgspec.json.encode(json_schema()), indent=2).decode() + "\n"


if __name__ == "__main__":
    match sys.argv[1:]:
        case []:
            sys.stdout.write(schema_text())
        case ["--write"]:
            SCHEMA_FILE.write_text(schema_text(), encoding="utf-8")
        case _:
            sys.exit("usage: python -m handset.edge.codec [--write]")
