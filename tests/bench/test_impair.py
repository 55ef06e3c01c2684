"""The lossy path: the loss it was asked for, the same every time, and all back in its place."""

from __future__ import annotations

import aioice.ice
import pytest

from handset.bench.impair import Fate, Path, impaired


def fates(path: Path, count: int = 40_000) -> list[bool]:
    fate = Fate(path, "out")
    return [fate.lost() for _ in range(count)]


@pytest.mark.parametrize(("loss", "burst"), [(0.05, 1), (0.05, 4), (0.2, 8), (0.0, 3)])
def test_loss_and_bursts_are_as_long_as_asked(loss: float, burst: float) -> None:
    lost = fates(Path(loss=loss, burst=burst, seed=2))
    assert sum(lost) / len(lost) == pytest.approx(loss, rel=0.15)
    runs = "".join("x" if each else " " for each in lost).split()
    if runs:
        wanted = burst if burst > 1 else 1 / (1 - loss)
        assert sum(map(len, runs)) / len(runs) == pytest.approx(wanted, rel=0.15)


def test_a_seed_gives_the_same_fate_each_time_and_another_another() -> None:
    assert fates(Path(loss=0.1, seed=1)) == fates(Path(loss=0.1, seed=1))
    assert fates(Path(loss=0.1, seed=1)) != fates(Path(loss=0.1, seed=2))


def test_everything_is_put_back() -> None:
    connection = aioice.ice.Connection
    before = (connection.sendto, connection.data_received)
    with pytest.raises(RuntimeError), impaired(Path(loss=0.5)):
        assert connection.sendto is not before[0]
        raise RuntimeError
    assert (connection.sendto, connection.data_received) == before


@pytest.mark.parametrize(
    "text", ["loss=1", "loss=-1", "burst=0", "delay_ms=-1", "fog=1", "loss", "loss=x"]
)
def test_a_path_that_can_not_be_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        Path.parse(text)


def test_a_path_reads_as_written() -> None:
    path = Path.parse("loss=0.05,burst=4,delay_ms=30,jitter_ms=5,seed=7")
    assert path == Path(loss=0.05, burst=4, delay_ms=30, jitter_ms=5, seed=7)
