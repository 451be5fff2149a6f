"""What collectives of each operation blocked ranks for."""

from __future__ import annotations

import numpy as np
import pytest

from stepwatch.collector.analysis.blocked_by_operation import Blocked, blocked_by_operation
from stepwatch.collector.state.collective_timing import waits
from stepwatch.collector.state.trackers.communication.collective_records import CALL, Group
from stepwatch.signals.records import Op

GROUPS = {1: Group(2, "0,1"), 2: Group(4, "0,1,2,3")}


def rows(*calls: tuple[int, Op, int, float]) -> np.ndarray:
    """Calls of step 5 as (group, operation, rank, seconds blocked)."""
    table = np.zeros(len(calls), dtype=CALL)
    for row, (group, op, rank, exposed) in zip(table, calls, strict=True):
        row["step"], row["group"], row["op"], row["rank"] = 5, group, op, rank
        row["exposed"], row["count"] = exposed, 1
    return table


def blocked(cells: int, *calls: tuple[int, Op, int, float]) -> dict[str, Blocked]:
    return blocked_by_operation(waits(rows(*calls), GROUPS), cells)


def test_the_last_to_arrive_shows_the_transfer_and_the_others_wait_for_it() -> None:
    by_operation = blocked(2, (1, Op.ALL_REDUCE, 0, 3.0), (1, Op.ALL_REDUCE, 1, 1.0))
    assert by_operation == {"all_reduce": Blocked(transfer=1.0, arrival_skew=1.0, unknown=0.0)}


def test_what_a_missing_member_leaves_unknown_is_kept_apart() -> None:
    calls = [(2, Op.ALL_GATHER, rank, 2.0) for rank in range(3)]
    by_operation = blocked(4, (1, Op.ALL_REDUCE, 0, 1.0), (1, Op.ALL_REDUCE, 1, 1.0), *calls)
    assert by_operation["all_gather"] == Blocked(transfer=0.0, arrival_skew=0.0, unknown=1.5)
    assert by_operation["all_reduce"] == Blocked(transfer=0.5, arrival_skew=0.0, unknown=0.0)


def test_point_to_point_is_never_divided() -> None:
    by_operation = blocked(2, (1, Op.SEND, 0, 1.0), (1, Op.SEND, 1, 3.0))
    assert by_operation == {"send": Blocked(transfer=0.0, arrival_skew=0.0, unknown=2.0)}


def test_parts_add_up_to_what_ranks_were_blocked() -> None:
    calls = [(2, Op.ALL_REDUCE, rank, 0.1 * (rank + 1)) for rank in range(4)]
    (parts,) = blocked(4, *calls).values()
    assert sum(parts) == pytest.approx(0.25)


def test_nothing_is_known_of_no_step() -> None:
    assert blocked(0) == {}
    assert blocked(4) == {}
