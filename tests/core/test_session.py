"""Connections: when to try, when to give up, what is ignored."""

from __future__ import annotations

from itertools import product

import pytest

from handset.core.session import TABLE, Session, SessionInput, SessionSettings, SessionState

SECOND = 1_000_000_000
SETTINGS = SessionSettings()


def session(jitter: float = 0.0) -> Session:
    return Session(SETTINGS, lambda: jitter)


def bring_to(state: SessionState) -> Session:
    it = session()
    if state is SessionState.WAITING:
        return it
    if state is SessionState.ENDED:
        it.end(0)
        return it
    assert it.due(0)
    if state is SessionState.CONNECTING:
        return it
    assert it.opened(1, 0)
    if state is SessionState.GREETING:
        return it
    assert it.welcome(1, "s", "t", 0)
    return it


def give(it: Session, what: SessionInput, epoch: int) -> bool:
    match what:
        case SessionInput.DUE:
            return it.due(0)
        case SessionInput.OPENED:
            return it.opened(epoch, 0)
        case SessionInput.WELCOME:
            return it.welcome(epoch, "s2", "t2", 0)
        case SessionInput.LOST:
            return it.lost(epoch, 0)
        case SessionInput.END:
            before = it.state
            it.end(0)
            return it.state is not before


@pytest.mark.parametrize(("state", "what"), list(product(SessionState, SessionInput)))
def test_every_input_in_every_state(state: SessionState, what: SessionInput) -> None:
    it = bring_to(state)
    following = TABLE.get((state, what))
    assert give(it, what, it.epoch) == (following is not None)
    assert it.state is (following or state)


@pytest.mark.parametrize(
    ("state", "what"),
    list(product(SessionState, [SessionInput.OPENED, SessionInput.WELCOME, SessionInput.LOST])),
)
def test_another_link_changes_nothing(state: SessionState, what: SessionInput) -> None:
    it = bring_to(state)
    before = (it.state, it.session, it.epoch)
    assert not give(it, what, it.epoch + 1)
    assert (it.state, it.session, it.epoch) == before


def test_what_comes_from_an_old_link_is_not_heard() -> None:
    it = bring_to(SessionState.OPEN)
    assert it.heard(1, SECOND)
    assert not it.heard(0, SECOND)
    it.lost(1, SECOND)
    assert not it.heard(1, SECOND)


def waits(jitter: float, permanent: bool = False) -> list[int]:
    """Time between a loss and the next try, over seven failures."""
    it, now, found = session(jitter), 0, []
    assert it.due(now)
    for epoch in range(1, 8):
        it.lost(epoch, now, permanent)
        lost = now
        while not it.due(now):
            now += SECOND // 100
        assert it.epoch == epoch + 1
        found.append(now - lost)
    return found


def test_back_off_grows_and_stays() -> None:
    steps = [step / SECOND for step in waits(0.0)]
    assert steps == [0.25, 1, 2, 4, 10, 10, 10]


def test_jitter_adds_up_to_half_a_step() -> None:
    assert [round(step / SECOND, 2) for step in waits(0.9999)] == [0.38, 1.5, 3, 6, 15, 15, 15]


def test_what_can_not_be_helped_waits_longest() -> None:
    assert waits(0.0, permanent=True) == [10 * SECOND] * 7


def test_a_welcome_starts_the_back_off_anew() -> None:
    it = session()
    for epoch in (1, 2, 3):
        assert it.due(epoch * 100 * SECOND)
        it.lost(epoch, epoch * 100 * SECOND)
    assert it.due(400 * SECOND)
    it.opened(4, 400 * SECOND)
    it.welcome(4, "s", "t", 400 * SECOND)
    it.lost(4, 400 * SECOND)
    assert not it.due(400 * SECOND + SECOND // 4 - 1)
    assert it.due(400 * SECOND + SECOND // 4)


@pytest.mark.parametrize(
    ("state", "limit", "words"),
    [
        (SessionState.CONNECTING, SETTINGS.connect_ns, "not connected"),
        (SessionState.GREETING, SETTINGS.greeting_ns, "no welcome"),
        (SessionState.OPEN, SETTINGS.silence_ns, "nothing heard"),
    ],
)
def test_a_link_is_dead_after_its_time(state: SessionState, limit: int, words: str) -> None:
    it = bring_to(state)
    assert it.dead(limit) is None
    assert words in str(it.dead(limit + 1))


def test_what_is_heard_keeps_a_link_alive() -> None:
    it = bring_to(SessionState.OPEN)
    for second in range(1, 20):
        it.heard(1, second * SECOND)
        assert it.dead(second * SECOND + 2 * SECOND) is None
    assert it.dead(23 * SECOND)


@pytest.mark.parametrize("state", [SessionState.WAITING, SessionState.ENDED])
def test_no_link_can_not_be_dead(state: SessionState) -> None:
    assert bring_to(state).dead(1 << 60) is None
