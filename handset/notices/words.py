"""Which words of a prompt the handset must not say: see `forbidden.toml`.

A check of spelling, not of meaning: it can't prove that a sentence claims nothing, it keeps the
words of such claims out. So every prompt names what it is about (your message, this headset, the
talk button), and the two that use a word of the list are allowed it as a whole sentence only.
"""

from __future__ import annotations

import re
import tomllib
import unicodedata
from functools import cache
from importlib.resources import files
from typing import Any

from handset.core.notices import Notice


def fold(text: str) -> str:
    """Words in lower case without accents, one blank between them."""
    plain = unicodedata.normalize("NFKD", text.casefold())
    return " ".join(re.findall(r"[a-z]+", re.sub(r"[\u0300-\u036f]", "", plain)))


def forbidden_in(language: str, notice: Notice, text: str) -> list[str]:
    """The words of a prompt that it must not have, folded, in their order."""
    rules = _rules()
    said = f" {fold(text)} "
    phrase = rules[language].get("allowed", {}).get(notice)
    if phrase is not None:
        said = said.replace(f" {phrase} ", " ")
    pattern = _pattern(language)
    return [word for word in said.split() if pattern.fullmatch(word)]


def forbidden_words(language: str) -> list[str]:
    """The list of a language with what holds in each; ``stem*`` for all words that begin so."""
    return [*_rules()[language]["words"], *_rules()["any"]["words"]]


def allowed_phrases(language: str) -> dict[str, str]:
    return dict(_rules()[language].get("allowed", {}))


@cache
def _rules() -> dict[str, Any]:
    text = (files("handset.notices") / "forbidden.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


@cache
def _pattern(language: str) -> re.Pattern[str]:
    return re.compile("|".join(w.replace("*", "[a-z]*") for w in forbidden_words(language)))
