"""What may be asked of a running handset on its local socket, and how it is written.

One JSON object a line, in UTF-8. Requests:

=====================================  ==================================================
request                                answer
=====================================  ==================================================
``{"do": "type", "text": TEXT}``       ``turn``: its number; ``kept``: true when there is
                                       no connection to deliver it now
``{"do": "gesture", "name": NAME}``    what the application says of it
``{"do": "status"}``                   facts
=====================================  ==================================================

Every answer has ``ok``; when that is false, ``error`` says why and what to do.
"""

from __future__ import annotations

import json
import re
import unicodedata
from typing import Any

from handset.errors import UsageError

LONGEST_LINE = 16 << 10
"""Bytes of a request, without its newline: a text of the greatest length fits in UTF-8."""
LONGEST_ANSWER = 256 << 10
"""Bytes of an answer."""
LONGEST_TEXT = 4_000
"""Characters of a typed turn."""

Request = dict[str, Any]
Answer = dict[str, Any]

_FIELDS = {"type": {"text"}, "gesture": {"name"}, "status": set[str]()}
_NAME = re.compile(r"[a-z][a-z_]{0,31}")


def typed_text(text: str) -> str:
    """The words of a typed turn: without white space around them, line ends as ``\\n``.

    ``UsageError`` when nothing is left, when it is too long, and for control characters:
    dropping one could change what was meant.
    """
    clean = text.replace("\r\n", "\n").strip()
    if not clean:
        raise UsageError("the text is empty; type what you would say")
    if len(clean) > LONGEST_TEXT:
        raise UsageError(
            f"the text has {len(clean)} characters, a typed turn at most {LONGEST_TEXT}; "
            "send it in parts"
        )
    for place, character in enumerate(clean, 1):
        kind = unicodedata.category(character)
        if kind == "Cs":
            raise UsageError(f"the text is not UTF-8 at character {place}; type it anew")
        if kind == "Cc" and character not in "\n\t":
            raise UsageError(
                f"the text has the control character U+{ord(character):04X} at character "
                f"{place}; remove it"
            )
    return clean


def checked(request: object) -> Request:
    """The request, its text cleaned. ``UsageError`` when it is none."""
    if not isinstance(request, dict):
        raise UsageError('a request is a JSON object such as {"do": "status"}')
    do = request.get("do")
    if not isinstance(do, str) or do not in _FIELDS:
        raise UsageError(f"do = {_short(do)}: one of {', '.join(sorted(_FIELDS))}")
    wanted = {"do", *_FIELDS[do]}
    for name in sorted(wanted ^ request.keys()):
        problem = "is missing" if name in wanted else "is not known"
        raise UsageError(f"{do}: the field {_short(name)} {problem}")
    for name in _FIELDS[do]:
        if not isinstance(request[name], str):
            raise UsageError(f"{do}: {name} = {_short(request[name])}: must be a text")
    if do == "type":
        return {"do": do, "text": typed_text(request["text"])}
    if do == "gesture" and not _NAME.fullmatch(request["name"]):
        raise UsageError(f"gesture: no gesture is named {_short(request['name'])}")
    return dict(request)


def read_line(line: bytes) -> object:
    """What a line holds. ``UsageError`` when it is no JSON."""
    try:
        return json.loads(line.decode("utf-8"), parse_constant=_refused)
    except UnicodeDecodeError:
        raise UsageError("the line is not UTF-8") from None
    except (ValueError, RecursionError) as error:
        raise UsageError(f"the line is not JSON: {error}") from None


def write_line(message: dict[str, Any]) -> bytes:
    """``UsageError`` for what JSON has no words for."""
    try:
        text = json.dumps(message, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        return text.encode("utf-8") + b"\n"
    except (TypeError, ValueError) as error:
        raise UsageError(f"the message can't be written as JSON: {error}") from None


def _refused(constant: str) -> object:
    raise ValueError(f"{constant} is no number")


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."
