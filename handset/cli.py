"""The command ``handset``."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence

from handset import __version__
from handset.errors import HandsetError

# Command words -> (module with add_arguments and run, one line of help). Loaded when asked
# for: the service must not pay for the bench.
COMMANDS: dict[tuple[str, ...], tuple[str, str]] = {
    ("run",): ("handset.run", "the headset, against a configured edge"),
    ("type",): ("handset.type_turn", "a turn in writing, to the handset that runs"),
    ("bench", "talk"): ("handset.bench.talk", "a conversation with an interruption (default)"),
    ("bench", "loopback"): ("handset.bench.loopback", "prove the playout cursor, clear by clear"),
    ("bench", "voice"): ("handset.bench.voice", "barge-in by voice: false, missed, late"),
    ("bench", "instructions"): (
        "handset.bench.instructions",
        "what a block and a clear cost, beside others",
    ),
}


def _parser(words: tuple[str, ...]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=" ".join(("handset", *words)))
    module, text = COMMANDS[words]
    parser.description = text
    importlib.import_module(module).add_arguments(parser)
    return parser


def _overview() -> str:
    lines = ["usage: handset COMMAND [options]", ""]
    for words, (_, text) in COMMANDS.items():
        lines.append(f"  handset {' '.join(words):<20} {text}")
    lines += ["", "  handset COMMAND --help", "  handset --version"]
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments[:1] in (["--version"], ["-V"]):
        print(f"handset {__version__}")
        return 0
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(_overview())
        return 0 if arguments else 2
    words = tuple(arguments[:2])
    if words not in COMMANDS:
        words = tuple(arguments[:1])
    if words == ("bench",):
        words, arguments = ("bench", "talk"), ["bench", "talk", *arguments[1:]]
    if words not in COMMANDS:
        print(f"handset: no command {' '.join(words)!r}\n\n{_overview()}", file=sys.stderr)
        return 2
    parser = _parser(words)
    args = parser.parse_args(arguments[len(words) :])
    module = importlib.import_module(COMMANDS[words][0])
    try:
        return int(module.run(args))
    except HandsetError as error:
        print(f"handset: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
