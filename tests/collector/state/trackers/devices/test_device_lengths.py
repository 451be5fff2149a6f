"""How long devices took for each step, whatever comes first: their rows, or those of the hosts."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from stepwatch.collector.state.folding.fresh import Fresh
from stepwatch.collector.state.trackers.devices.device_lengths import DeviceLengths
from tests.collector.made import device_step_rows

RANKS = 2


def fresh(*steps: int) -> Fresh:
    """Rows of some steps, which take as many seconds as their numbers."""
    rows = np.concatenate([device_step_rows([step], range(RANKS), float(step)) for step in steps])
    zeros = np.zeros(len(rows), dtype=np.int64)
    return Fresh(rows, zeros, zeros, zeros, zeros.astype(float))


@pytest.mark.parametrize("order", list(itertools.permutations([(7,), (5, 6), (9,)])))
@pytest.mark.parametrize("hosts_from", [0, 1, 2, 3])
def test_each_step_keeps_its_own_length(order: list[tuple[int, ...]], hosts_from: int) -> None:
    lengths = DeviceLengths()
    for index, steps in enumerate(order):
        lengths.add(fresh(*steps), 5 if index >= hosts_from else None)
    table = lengths.rows(np.arange(4, 11))
    assert table["ranks"].tolist() == [0, 2, 2, 2, 0, 2, 0]
    assert table["longest"].tolist() == [0.0, 5.0, 6.0, 7.0, 0.0, 9.0, 0.0]


def test_steps_before_the_first_one_of_the_hosts_are_not_counted() -> None:
    lengths = DeviceLengths()
    lengths.add(fresh(0, 1), None)
    lengths.add(fresh(2, 3), 2)
    assert lengths.rows(np.arange(5))["ranks"].tolist() == [0, 0, 2, 2, 0]
    assert lengths.longest() == 3.0


def test_an_earlier_first_step_moves_nothing() -> None:
    lengths = DeviceLengths()
    lengths.add(fresh(8), 8)
    lengths.add(fresh(6), 6)
    assert lengths.rows(np.arange(6, 9))["longest"].tolist() == [6.0, 0.0, 8.0]


def test_rows_that_came_before_the_hosts_are_dropped_with_their_steps() -> None:
    lengths = DeviceLengths()
    lengths.add(fresh(3, 4, 5), None)
    lengths.drop(1, 4)
    assert lengths.rows(np.arange(3, 6))["longest"].tolist() == [0.0, 4.0, 5.0]
    lengths.add(fresh(6), 4)
    assert lengths.rows(np.arange(3, 7))["longest"].tolist() == [0.0, 4.0, 5.0, 6.0]
