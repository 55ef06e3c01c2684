"""History holds what was played, never more: whatever the cursor, whatever the order."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from handset.bench.edge.history import History, Word, estimate

RATE = 24_000
words_of = st.lists(
    st.tuples(st.integers(0, 4_000), st.integers(1, 9_000)), min_size=1, max_size=12
)


def placed(gaps: list[tuple[int, int]]) -> tuple[Word, ...]:
    words, at = [], 0
    for index, (gap, length) in enumerate(gaps):
        words.append(Word(f"w{index}", at + gap, at + gap + length))
        at += gap + length
    return tuple(words)


def with_item(words: tuple[Word, ...], measured: bool = True, tail: int = 500) -> History:
    history = History()
    history.user(1, "what was asked")
    text = " ".join(word.word for word in words)
    history.begin("i", "r", 1, RATE, text, words if measured else None)
    history.grow("i", words[-1].end + tail, ended=True)
    return history


def kept(history: History) -> list[str]:
    return [word for entry in history.view() if entry.role == "assistant"
            for word in entry.text.split()]  # fmt: skip


@given(words_of, st.integers(0, 200_000))
def test_no_kept_word_ends_after_the_cursor_and_none_before_it_is_missing(
    gaps: list[tuple[int, int]], at: int
) -> None:
    words = placed(gaps)
    history = with_item(words)
    item = history.find("i")
    assert item is not None
    played = at % (item.length + 1)

    assert history.truncate("i", played * 1000 // RATE, played) is None

    assert kept(history) == [word.word for word in words if word.end <= played]
    assert [entry.item_id for entry in history.view()] == [None, "i"] if played else [None]
    assert history.view()[0].text == "what was asked"


@given(words_of, st.lists(st.integers(0, 200_000), min_size=2, max_size=4), st.booleans())
def test_more_truncations_keep_less_and_the_lowest_decides(
    gaps: list[tuple[int, int]], cuts: list[int], measured: bool
) -> None:
    words = placed(gaps)
    history = with_item(words, measured)
    item = history.find("i")
    assert item is not None
    cuts = [cut % (item.length + 1) for cut in cuts]
    sizes = []
    for cut in cuts:
        assert history.truncate("i", cut * 1000 // RATE, cut) is None
        sizes.append(len(kept(history)))
    alone = with_item(words, measured)
    alone.truncate("i", min(cuts) * 1000 // RATE, min(cuts))

    assert all(after <= before for before, after in pairwise(sizes))
    assert history.view() == alone.view()


@given(st.text("ab c", min_size=1, max_size=60), st.integers(1, 500_000), st.data())
def test_without_timings_the_cut_is_estimated_says_so_and_grows_with_the_cursor(
    text: str, length: int, data: st.DataObject
) -> None:
    history = History()
    history.begin("i", "r", 1, RATE, text, None)
    history.grow("i", length, ended=True)
    low, high = sorted(data.draw(st.tuples(*[st.integers(1, length)] * 2)))
    history.truncate("i", high * 1000 // RATE, high)
    many = kept(history)
    history.truncate("i", low * 1000 // RATE, low)

    assert kept(history) == many[: len(kept(history))]
    assert all(entry.approximate and entry.interrupted for entry in history.view())
    assert all(word.end <= length for word in estimate(text, length))


def test_a_word_that_is_cut_by_one_sample_is_not_kept() -> None:
    words = (Word("one", 0, 100), Word("two", 100, 200))
    for played, left in ((199, ["one"]), (200, ["one", "two"]), (99, [])):
        history = with_item(words)
        assert history.truncate("i", played * 1000 // RATE, played) is None
        assert kept(history) == left


def test_at_zero_the_item_leaves_the_view_and_stays_in_the_record() -> None:
    history = with_item((Word("one", 0, 100),))
    assert history.truncate("i", 0, 0) is None
    assert [entry.role for entry in history.view()] == ["user"]
    assert history.find("i") is not None


def test_what_can_not_be_is_refused_and_changes_nothing() -> None:
    history = with_item((Word("one", 0, 24_000),), tail=0)
    before = history.view()
    unknown = history.truncate("other", 1, 24)
    beyond = history.truncate("i", 1001, 24_024)
    within_its_ms = history.truncate("i", 1000, 24_001)
    twisted = history.truncate("i", 500, 24_000)
    below = history.truncate("i", -1, -24)
    assert unknown is not None and unknown.code == "unknown_item"
    assert beyond is not None and (beyond.code, beyond.limit_ms) == ("beyond_end", 1000)
    assert within_its_ms is not None and within_its_ms.code == "beyond_end"
    assert twisted is not None and twisted.code == "inconsistent"
    assert below is not None and below.code == "malformed"
    assert history.view() == before


def test_the_length_is_what_was_generated_so_far() -> None:
    history = History()
    history.begin("i", "r", 1, RATE, "one two", (Word("one", 0, 900), Word("two", 1000, 2000)))
    history.grow("i", 950)
    assert kept(history) == ["one"]
    refused = history.truncate("i", 40, 960)
    assert refused is not None and refused.limit_ms == 39
    history.grow("i", 2000, ended=True)
    assert history.truncate("i", 40, 960) is None


def test_a_receipt_and_a_truncation_of_less_contradict_each_other() -> None:
    history = with_item((Word("one", 0, 24_000),), tail=0)
    history.presume_unplayed("i")
    assert kept(history) == []
    assert history.played("i") is None
    assert kept(history) == ["one"], "a fact beats the presumption"
    refused = history.truncate("i", 10, 240)
    assert refused is not None and refused.code == "played_to_end"

    history = with_item((Word("one", 0, 24_000),), tail=0)
    assert history.truncate("i", 10, 240) is None
    refused = history.played("i")
    assert refused is not None and refused.code == "truncated"


def test_a_cancelled_item_ends_with_what_was_sent() -> None:
    history = with_item((Word("one", 0, 100), Word("two", 100, 200)))
    history.shorten("i", 150)
    history.grow("i", 500, ended=True)
    assert kept(history) == ["one"] and history.view()[1].interrupted
    refused = history.truncate("i", 7, 170)
    assert refused is not None and refused.limit_ms == 6
    assert history.played("i") is None


def test_a_lower_bound_makes_the_cut_approximate() -> None:
    history = with_item((Word("one", 0, 100), Word("two", 100, 200)))
    history.truncate("i", 4, 110, exact=False)
    assert history.view()[1].approximate


def test_a_turn_is_said_once() -> None:
    history = History()
    history.user(1, "first")
    history.user(1, "again")
    assert [entry.text for entry in history.view()] == ["first"]
