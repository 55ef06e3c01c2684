"""The conversation as the model will see it.

Rules.

1. A user turn is the person's word. Once it is in, it stays as it is, also when the reply
   to it was cut.
2. An assistant item grows as it is generated. A truncation keeps the words whose *end* is
   at or before the cursor: a word that ends after it was not played.
3. The lowest truncation of an item wins, in whatever order they come.
4. At 0 nothing of the item is left: it stays in the record and leaves the view.
5. A truncation never invents: one for an unknown item, or beyond the length the item has,
   is refused, and changes nothing.
6. Without word timings the places of the words are estimated from the item's length, and
   the result says so (``approximate``). So it does when the cursor is a lower bound.
7. An item that was never reported although its response was stopped is *presumed* not
   played. A receipt that it was played to its end is a fact and beats the presumption.

Positions are samples at the item's own rate.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from .outboxes import Refusal


@dataclass(frozen=True, slots=True)
class Word:
    """A word with its punctuation, sounding in samples ``start <= i < end`` of its item."""

    word: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Entry:
    """One item of the view: what the model is given."""

    role: Literal["user", "assistant"]
    text: str
    interrupted: bool = False
    approximate: bool = False
    turn: int | None = None
    item_id: str | None = None


@dataclass(slots=True)
class UserTurn:
    turn: int
    text: str


@dataclass(slots=True)
class AssistantItem:
    """``length``: samples generated so far. ``cursor``: null until it was truncated."""

    item_id: str
    response_id: str
    turn: int
    rate: int
    text: str
    words: tuple[Word, ...] | None
    length: int = 0
    ended: bool = False
    shortened: bool = False
    cursor: int | None = None
    exact: bool = True
    played_to_end: bool = False
    presumed_unplayed: bool = False

    @property
    def removed(self) -> bool:
        return self.cursor == 0 or (self.presumed_unplayed and not self.played_to_end)

    def kept(self) -> list[Word]:
        """The words in the model's view: generated so far, and played as far as is known."""
        words = self.words if self.words is not None else estimate(self.text, self.length)
        if self.cursor is not None:
            return [word for word in words if word.end <= self.cursor]
        if self.shortened:
            return [word for word in words if word.end <= self.length]
        return [word for word in words if self.ended or word.start < self.length]

    def truncate(
        self, audio_end_ms: int, played: int | None = None, exact: bool = True
    ) -> Refusal | None:
        """Hold no more of the item than was played: ``played`` samples where that is known,
        else ``audio_end_ms``. Null, or why it was refused."""
        cursor = audio_end_ms * self.rate // 1000 if played is None else played
        limit_ms = self.length * 1000 // self.rate
        if cursor < 0 or audio_end_ms < 0:
            return Refusal("malformed", f"a position of {min(cursor, audio_end_ms)}")
        if cursor > self.length or audio_end_ms > limit_ms:
            return Refusal(
                "beyond_end",
                f"{audio_end_ms} ms, {cursor} samples; item {self.item_id} has {self.length}",
                limit_ms,
            )
        if played is not None and audio_end_ms != played * 1000 // self.rate:
            return Refusal(
                "inconsistent",
                f"{played} samples at {self.rate} Hz are {played * 1000 // self.rate} ms, "
                f"not {audio_end_ms}",
            )
        if self.played_to_end and cursor < self.length:
            return Refusal("played_to_end", f"a receipt says that item {self.item_id} was played")
        if self.cursor is None or cursor < self.cursor:
            self.cursor, self.exact = cursor, exact
        return None

    def played(self) -> Refusal | None:
        """The item was played to its end."""
        if self.cursor is not None and self.cursor < self.length:
            return Refusal("truncated", f"item {self.item_id} was truncated at {self.cursor}")
        self.played_to_end = True
        return None


def unknown(item_id: str) -> Refusal:
    return Refusal("unknown_item", f"there is no item {item_id}")


def estimate(text: str, length: int) -> tuple[Word, ...]:
    """Places of the words of a text in ``length`` samples, every character as long as any
    other. Ends are rounded up, so that a cut by them errs towards fewer words."""
    words: list[Word] = []
    total = max(1, len(text))
    at = 0
    for word in text.split():
        begin = text.index(word, at)
        at = begin + len(word)
        words.append(Word(word, begin * length // total, -(-at * length // total)))
    return tuple(words)


@dataclass(slots=True)
class History:
    """Items in the order in which they came in; ``view`` is what is left of them."""

    items: list[UserTurn | AssistantItem] = field(default_factory=list)
    _turns: dict[int, UserTurn] = field(default_factory=dict)
    _items: dict[str, AssistantItem] = field(default_factory=dict)

    def user(self, turn: int, text: str) -> None:
        """A committed turn. A second text for the same turn changes nothing."""
        if turn not in self._turns:
            self._turns[turn] = UserTurn(turn, text)
            self.items.append(self._turns[turn])

    def begin(
        self,
        item_id: str,
        response_id: str,
        turn: int,
        rate: int,
        text: str,
        words: tuple[Word, ...] | None,
    ) -> None:
        """An assistant item of which nothing has been generated yet; ``text`` is all it will
        say, ``words`` the same with places, or null when nobody measured them."""
        if item_id in self._items:
            raise ValueError(f"item {item_id} is in the history already")
        item = AssistantItem(item_id, response_id, turn, rate, text, words)
        self._items[item_id] = item
        self.items.append(item)

    def grow(self, item_id: str, length: int, ended: bool = False) -> None:
        """``length`` samples of the item have been generated, ``ended``: that is all of it."""
        item = self._items[item_id]
        if item.shortened:
            return
        item.length = max(item.length, length)
        item.ended = item.ended or ended

    def shorten(self, item_id: str, length: int) -> None:
        """Generation was cancelled: the item ends with what was sent of it, and what is
        generated after that does not belong to it."""
        item = self._items[item_id]
        item.length, item.ended, item.shortened = min(item.length, length), True, True

    def find(self, item_id: str) -> AssistantItem | None:
        return self._items.get(item_id)

    def of_response(self, response_id: str) -> list[AssistantItem]:
        return [item for item in self._items.values() if item.response_id == response_id]

    def truncate(
        self,
        item_id: str,
        audio_end_ms: int,
        played: int | None = None,
        exact: bool = True,
    ) -> Refusal | None:
        """:meth:`AssistantItem.truncate` of one item."""
        item = self._items.get(item_id)
        if item is None:
            return unknown(item_id)
        return item.truncate(audio_end_ms, played, exact)

    def played(self, item_id: str) -> Refusal | None:
        """The item was played to its end."""
        item = self._items.get(item_id)
        return unknown(item_id) if item is None else item.played()

    def heard(self, item_id: str) -> None:
        """All of the item was played after all, when it was played again."""
        item = self._items.get(item_id)
        if item is not None and item.ended:
            item.cursor, item.exact, item.played_to_end = None, True, True

    def presume_unplayed(self, item_id: str) -> None:
        """The item's response was stopped, and the report of that does not name the item."""
        self._items[item_id].presumed_unplayed = True

    def view(self) -> list[Entry]:
        """What the model sees, oldest first."""
        entries: list[Entry] = []
        for item in self.items:
            if isinstance(item, UserTurn):
                entries.append(Entry("user", item.text, turn=item.turn))
            elif not item.removed:
                cut = item.cursor is not None or item.shortened
                entries.append(
                    Entry(
                        "assistant",
                        " ".join(word.word for word in item.kept()),
                        interrupted=cut,
                        approximate=cut and (item.words is None or not item.exact),
                        turn=item.turn,
                        item_id=item.item_id,
                    )
                )
        return entries
