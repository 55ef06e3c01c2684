"""The real adapter on the virtual card, one card a test.

PortAudio lives in this process and is initialised again for every card (``Rig`` does so):
it holds nothing between two tests once their streams are closed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from voice import MakeCard, Voice

from handset.audio.stream import StreamSettings
from handset.bench.rig import Rig
from handset.fakes.virtual_card import VirtualCard, VirtualCardError


@pytest.fixture
def make_card(monkeypatch: pytest.MonkeyPatch) -> Iterator[MakeCard]:
    """Cards, closed at the end; what they set in the environment goes with them."""
    cards: list[VirtualCard] = []

    def make(**options: object) -> VirtualCard:
        try:
            cards.append(VirtualCard(**options))  # type: ignore[arg-type]
        except VirtualCardError as error:
            if cards or "no " not in str(error):
                raise
            pytest.skip(str(error))
        for name, value in cards[-1].environment.items():
            monkeypatch.setenv(name, value)
        return cards[-1]

    yield make
    for card in cards:
        card.close()


@pytest.fixture
def make_rig(make_card: MakeCard) -> Iterator[Callable[..., Rig]]:
    rigs: list[Rig] = []

    def make(settings: StreamSettings | None = None, **options: object) -> Rig:
        settings = settings or StreamSettings()
        rigs.append(Rig(make_card(rate=settings.rate, **options), settings))
        return rigs[-1]

    yield make
    for rig in rigs:
        rig.close()


@pytest.fixture
def rig(make_rig: Callable[..., Rig]) -> Rig:
    return make_rig()


@pytest.fixture
def voice(rig: Rig) -> Voice:
    return Voice(rig)
