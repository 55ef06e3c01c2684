"""``handset type``: a turn in writing, by the running handset, with a spoken one's authority.

Exit status: 0 when the turn was committed, delivered or kept; 1 when it was not, or when
that is not known; 2 when there is nothing that could be sent.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from handset.errors import HandsetError, UsageError
from handset.system.identity import runtime_directory
from handset.system.local_client import NoAnswer, ask
from handset.system.local_requests import LONGEST_TEXT, Answer, typed_text
from handset.system.local_socket import NAME

ANSWER_S = 5.0
_MOST_BYTES = 16 * LONGEST_TEXT
"""Read of standard input; more is too long whatever it is."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--runtime",
        type=Path,
        metavar="DIR",
        help="the handset's runtime directory (default: this user's)",
    )
    where.add_argument(
        "--settings", type=Path, metavar="FILE", help="the settings file that names it"
    )
    parser.add_argument(
        "text",
        nargs="*",
        metavar="TEXT",
        help="what you would say; -, or nothing, reads standard input to its end",
    )


def run(args: argparse.Namespace) -> int:
    try:
        text = typed_text(_given(args.text))
    except UsageError as error:
        print(f"handset type: {error}", file=sys.stderr)
        return 2
    answer = ask(_runtime(args) / NAME, {"do": "type", "text": text}, ANSWER_S)
    print(_told(answer))
    return 0


def _given(words: list[str]) -> str:
    if words and words != ["-"]:
        return " ".join(words)
    if not words and sys.stdin.isatty():
        raise UsageError("no text: give it after the command, or - to read standard input")
    data = sys.stdin.buffer.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise UsageError(
            f"standard input holds more than {_MOST_BYTES} bytes, a typed turn at most "
            f"{LONGEST_TEXT} characters"
        )
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"standard input is not UTF-8 at byte {error.start}") from None


def _runtime(args: argparse.Namespace) -> Path:
    if args.runtime is not None:
        return Path(args.runtime)
    if args.settings is None:
        return runtime_directory()
    from handset.settings import load  # knows the sound card's settings, so it loads much

    return load(args.settings).runtime


def _told(answer: Answer) -> str:
    if not answer["ok"]:
        raise HandsetError(f"no turn was made: {answer.get('error', 'no reason was given')}")
    if answer.get("waits"):
        return "typed; it is committed when the spoken turn that is open has ended"
    turn = answer.get("turn")
    if not isinstance(turn, int):
        raise NoAnswer(f"the handset named no turn in {answer}")
    kept = "; kept until the connection is back" if answer.get("kept") else ""
    return f"turn {turn}: committed (typed){kept}"
