"""Transfer, wait for others, and who was waited for."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwatch.collector.state import newest_rows
from stepwatch.collector.state.collective_timing import (
    Collective,
    Waits,
    bus_bytes_per_second,
    caused,
    summaries,
    waits,
)
from stepwatch.collector.state.trackers.communication import collective_records as calls_module
from stepwatch.collector.state.trackers.communication.collective_records import CollectiveRecords
from stepwatch.signals.arrays import Rows
from stepwatch.signals.records import Op
from tests.collector.gathered import call_rows, group_rows, records_of

RANKS = [0, 2, 5, 9]
EXPOSED = {0: 0.5, 2: 0.1, 5: 0.4, 9: 0.3}


def everything(calls: CollectiveRecords) -> Rows:
    return calls.of_steps(0, 2**32 - 1)


def lines(call_waits: Waits, calls: CollectiveRecords) -> list[Collective]:
    return summaries(call_waits, calls.groups, 10)[0]


def test_the_last_arriver_waits_least_and_is_waited_for() -> None:
    calls = records_of(call_rows(range(3), EXPOSED), group_rows(7, RANKS))
    call_waits = waits(everything(calls), calls.groups)
    [line] = lines(call_waits, calls)
    assert (line.op, line.ranks, line.size, line.members_seen) == (Op.ALL_GATHER, "0,2,5,9", 4, 4)
    assert (line.steps, line.evaluated_steps, line.calls, line.bytes) == (3, 3, 4.0, 1000.0)
    assert line.transfer_seconds == pytest.approx(0.1)
    assert line.arrival_skew_seconds == pytest.approx((0.4 + 0.0 + 0.3 + 0.2) / 4)
    assert (line.last_arriver, line.last_arriver_ratio) == (2, 1.0)
    assert line.bus_bytes_per_second == pytest.approx(1000 * 3 / 0.1)
    assert caused(call_waits)[1] == pytest.approx([0.9] * 3)


@given(
    st.lists(
        st.lists(st.floats(0.0, 100.0, width=32), min_size=3, max_size=3), min_size=1, max_size=6
    )
)
def test_transfer_and_wait_add_up_to_what_was_exposed(steps: list[list[float]]) -> None:
    parts = [
        call_rows([step], dict(enumerate(seconds)), count=1) for step, seconds in enumerate(steps)
    ]
    calls = records_of(np.concatenate(parts), group_rows(7, [0, 1, 2]))
    call_waits = waits(everything(calls), calls.groups)
    np.testing.assert_allclose(call_waits.transfer + call_waits.wait, call_waits.rows["exposed"])
    assert (call_waits.wait >= 0).all() and (call_waits.transfer >= 0).all()
    [line] = lines(call_waits, calls)
    assert line.transfer_seconds is not None and line.arrival_skew_seconds is not None
    total = line.transfer_seconds + line.arrival_skew_seconds
    assert total == pytest.approx(line.exposed_seconds, rel=1e-5, abs=1e-9)


@pytest.mark.parametrize("op", [Op.SEND, Op.RECV])
def test_point_to_point_has_no_last_arriver(op: Op) -> None:
    calls = records_of(call_rows(range(2), EXPOSED, op=op), group_rows(7, RANKS))
    [line] = lines(waits(everything(calls), calls.groups), calls)
    assert line.transfer_seconds is None and line.last_arriver is None
    assert line.exposed_seconds == pytest.approx(0.325)


def test_unknown_where_a_member_is_missing() -> None:
    three = {rank: seconds for rank, seconds in EXPOSED.items() if rank != 2}
    rows = np.concatenate([call_rows([0], EXPOSED), call_rows([1], three)])
    calls = records_of(rows, group_rows(7, RANKS))
    call_waits = waits(everything(calls), calls.groups)
    assert np.isnan(call_waits.wait).tolist() == [False] * 4 + [True] * 3
    assert call_waits.last_rank.tolist() == [2, -1]
    [line] = lines(call_waits, calls)
    assert (line.steps, line.evaluated_steps) == (2, 1)


def test_unknown_where_the_group_is_not_introduced_or_contradicts_itself() -> None:
    for groups in ([], [group_rows(7, RANKS), group_rows(7, [1, 2])]):
        calls = records_of(call_rows([0], EXPOSED), *groups)
        [line] = lines(waits(everything(calls), calls.groups), calls)
        assert line.size is None and line.transfer_seconds is None
        assert line.bus_bytes_per_second is None and line.last_arriver is None


def test_unknown_where_members_counted_different_calls() -> None:
    rows = call_rows([0], EXPOSED)
    rows["count"][1] = 3
    calls = records_of(rows, group_rows(7, RANKS))
    assert np.isnan(waits(everything(calls), calls.groups).transfer).all()


def test_a_repeated_row_counts_once() -> None:
    rows = call_rows([0], EXPOSED)
    calls = records_of(np.concatenate([rows, rows[1:2]]), group_rows(7, RANKS))
    call_waits = waits(everything(calls), calls.groups)
    assert call_waits.rows["rank"].tolist() == RANKS and not np.isnan(call_waits.wait).any()


def test_nothing_in_nothing_out() -> None:
    call_waits = waits(everything(CollectiveRecords()), {})
    assert summaries(call_waits, {}, 10) == ([], 0)
    assert [len(part) for part in caused(call_waits)] == [0, 0]


@pytest.mark.parametrize(
    ("op", "factor"),
    [
        (Op.ALL_REDUCE, 1.5),
        (Op.REDUCE_SCATTER, 0.75),
        (Op.ALL_GATHER, 3.0),
        (Op.ALL_TO_ALL, 0.75),
        (Op.BROADCAST, 1.0),
    ],
)
def test_bus_bandwidth_of_four_ranks(op: Op, factor: float) -> None:
    assert bus_bytes_per_second(op, 4, 1e9, 0.5) == pytest.approx(factor * 2e9)
    assert bus_bytes_per_second(op, 1, 1e9, 0.5) is None, "nothing moves"
    assert bus_bytes_per_second(op, 4, 1e9, 0.0) is None
    assert bus_bytes_per_second(Op.BARRIER, 4, 0.0, 0.5) is None


def test_the_newest_rows_stay_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls_module, "MAX_ROWS", 10)
    monkeypatch.setattr(newest_rows, "_FIRST_ROWS", 4)
    calls = CollectiveRecords()
    for step in range(23):
        assert calls.add(call_rows([step], {0: 0.1}), 1) == 0
    assert everything(calls)["step"].tolist() == list(range(13, 23))
    assert calls.of_steps(15, 17)["step"].tolist() == [15, 16, 17]
    calls.add(call_rows(range(30, 55), {0: 0.1}), 1)
    assert everything(calls)["step"].tolist() == list(range(45, 55))
    assert calls.cells == 10


def test_impossible_rows_are_refused_and_groups_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls_module, "MAX_GROUPS", 5)
    calls = CollectiveRecords()
    rows = call_rows([0], {rank: 0.1 for rank in range(6)})
    rows["op"][0], rows["exposed_ns"][1], rows["bytes"][2] = 99, 2**64 - 1, 2**64 - 1
    rows["rank"][3:5] = [-1, 6]
    assert calls.add(rows, 6) == 5
    assert everything(calls)["rank"].tolist() == [5]
    for number in range(20):
        calls.add_groups(group_rows(number, [0, 1]))
    assert len(calls.groups) == 5
    assert math.isclose(float(everything(calls)["exposed"][0]), 0.1, rel_tol=1e-6)


def test_only_the_worst_are_told_and_the_rest_counted() -> None:
    parts = [call_rows([0], {0: number / 10, 1: 1.0}, group=number) for number in range(1, 6)]
    calls = records_of(
        np.concatenate(parts), *(group_rows(number, [0, 1]) for number in range(1, 6))
    )
    reported, left_out = summaries(waits(everything(calls), calls.groups), calls.groups, 2)
    assert ([line.group for line in reported], left_out) == ([5, 4], 3)
    assert [line.last_arriver for line in reported] == [0, 0]


def test_a_list_of_ranks_that_was_cut_says_so() -> None:
    calls = records_of(call_rows([0], {0: 0.1}), group_rows(7, list(range(0, 1024, 8))))
    assert calls.groups[7].ranks == "0,8,16,24,32,40,48,56,64,72,80,88,96,104,112,..."
