"""The order of a step's collectives shows which ranks have entered it."""

from __future__ import annotations

import numpy as np
import pytest

from stepwatch.collector.detect.hang import RankSituation
from stepwatch.collector.detect.hang.holding import entered_step
from stepwatch.signals.arrays import Rows
from stepwatch.signals.records import Op, Phase
from tests.collector.gathered import call_rows, records_of

from .test_hang import WAITER

GROUPS = {7: "0-3", 8: "0,4"}
WAITS = WAITER._replace(op=Op.REDUCE_SCATTER, group=7, step=20)


def calls(*orders: list[Op], group: int = 7) -> Rows:
    """What rank 0 wrote of steps 10, 11, ...: these operations of `group`, in this order."""
    records = [
        call_rows([10 + offset], {0: 0.01}, group, op)
        for offset, ops in enumerate(orders)
        for op in ops
    ]
    return records_of(np.concatenate(records)).of_steps(0, 19)


BOTH = [Op.ALL_GATHER, Op.REDUCE_SCATTER]


def entered(rows: Rows, *ranks: RankSituation) -> frozenset[int]:
    return entered_step(ranks, rows, GROUPS, 4)


def test_all_members_of_the_group_have_entered_where_one_waits_in_a_later_collective() -> None:
    assert entered(calls(*[BOTH] * 5), WAITS) == {0, 1, 2, 3}
    assert entered(calls(*[BOTH] * 5), WAITS._replace(op=Op.ALL_GATHER)) == frozenset()


@pytest.mark.parametrize(
    "orders",
    [
        [BOTH] * 3,  # too few
        [BOTH] * 4 + [BOTH[::-1]],  # once the other way round
        [BOTH] * 4 + [[Op.ALL_GATHER]],  # once without it
        [[Op.REDUCE_SCATTER]] * 8,
    ],
)
def test_an_order_that_is_not_known_shows_nothing(orders: list[list[Op]]) -> None:
    assert entered(calls(*orders), WAITS) == frozenset()


@pytest.mark.parametrize("phase", [Phase.OTHER, Phase.OPTIMIZER, Phase.EVAL, Phase.DATA])
def test_outside_forward_and_backward_a_rank_may_do_anything_before_all_meet(phase: Phase) -> None:
    assert entered(calls(*[BOTH] * 5), WAITS._replace(phase=phase)) == frozenset()


def test_a_collective_of_another_group_shows_nothing_of_this_one() -> None:
    assert entered(calls(*[BOTH] * 5), WAITS._replace(group=8)) == frozenset()
    assert entered(calls(*[BOTH] * 5, group=8), WAITS._replace(group=8)) == {0, 4}
    assert entered(calls(*[BOTH] * 5, group=9), WAITS._replace(group=9)) == frozenset()
