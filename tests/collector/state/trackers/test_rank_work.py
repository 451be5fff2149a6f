"""From counters of a process to what its rank does, since it last moved."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
import pytest

from stepwatch.collector.state.trackers.rank_work import Work, WorkWindows
from stepwatch.signals.clock import NANOSECONDS
from stepwatch.signals.records import Kind, make_rows
from stepwatch.signals.wire import Rows

MOVED_S = 10.0


def readings(moments: Iterable[float], **rates: float) -> Rows:
    """A reading at each moment of counters that grow by `rates` a second; others are unknown."""
    times = np.array([*moments])
    rows = make_rows(
        Kind.RANK_STATE,
        len(times),
        rank=0,
        time_ns=times * NANOSECONDS,
        since_ns=MOVED_S * NANOSECONDS,
    )
    for name, rate in rates.items():
        rows[name] = 1e6 + rate * times if name.endswith("bytes") else rate * times
    return rows


def windows(*parts: Rows) -> WorkWindows:
    work_windows = WorkWindows()
    work_windows.resize(1)
    for rows in parts:
        work_windows.add(rows)
    return work_windows


@pytest.mark.parametrize(
    ("rates", "kinds"),
    [
        ({"cpu_seconds": 0.02}, Work.NONE),
        ({"cpu_seconds": 0.2}, Work.CPU),
        ({"cpu_seconds": 0.02, "run_queue_seconds": 0.2}, Work.CPU),
        ({"cpu_seconds": 0.0, "children_cpu_seconds": 0.9}, Work.CHILDREN),
        ({"cpu_seconds": 0.0, "file_bytes": 1e5}, Work.BYTES),
        ({"cpu_seconds": 0.0, "tcp_bytes": 2000.0}, Work.BYTES),
        ({"cpu_seconds": 0.0, "tcp_bytes": 200.0}, Work.NONE),
        ({"cpu_seconds": 0.9, "tcp_bytes": 1e6}, Work.CPU | Work.BYTES),
        ({"cpu_seconds": math.nan, "tcp_bytes": 1e6}, Work.BYTES),
        ({"cpu_seconds": math.nan}, None),
    ],
)
def test_each_sign_of_work(rates: dict[str, float], kinds: Work | None) -> None:
    work = windows(readings(range(10, 15), **rates)).rank_work(0)
    assert work.kinds == kinds
    assert work.worked_ns == (13 if kinds else 10) * NANOSECONDS
    carried = kinds is not None and Work.BYTES in kinds
    assert work.carried_ns == (13 if carried else 0) * NANOSECONDS


def test_too_few_readings_since_it_moved_say_nothing() -> None:
    earlier, moved = readings(range(3, 9), cpu_seconds=0.9), readings(range(10, 13))
    earlier["since_ns"] = 1
    work_windows = windows(earlier)
    assert work_windows.rank_work(0).kinds == Work.CPU
    work_windows.add(moved)
    assert work_windows.rank_work(0).kinds is None and math.isnan(
        work_windows.rank_work(0).cpu_ratio
    )


def test_work_that_ended_is_dated() -> None:
    busy, idle = readings(range(10, 20), cpu_seconds=0.9), readings(range(20, 40), cpu_seconds=0.0)
    idle["cpu_seconds"] = busy["cpu_seconds"][-1]
    work = windows(busy, idle).rank_work(0)
    assert (work.kinds, work.worked_ns) == (Work.NONE, 19 * NANOSECONDS)


def test_bytes_in_bursts_are_those_of_a_logger() -> None:
    rows = readings(range(10, 70), cpu_seconds=0.0)
    rows["file_bytes"] = np.arange(60) // 15 * 200_000.0
    work = windows(rows).rank_work(0)
    assert (work.kinds, work.worked_ns) == (Work.NONE, 10 * NANOSECONDS)


@pytest.mark.parametrize("name", ["cpu_seconds", "children_cpu_seconds", "file_bytes"])
def test_one_burst_a_minute_is_no_work(name: str) -> None:
    """A thread of a logger, in a rank that hangs: half a second of a CPU, once in 40 s."""
    rows = readings(range(10, 130), cpu_seconds=0.0, children_cpu_seconds=0.0, file_bytes=0.0)
    rows[name] = np.cumsum(np.arange(120) % 40 == 38) * (1e6 if name == "file_bytes" else 0.5)
    work = windows(rows).rank_work(0)
    assert (work.kinds, work.worked_ns) == (Work.NONE, 10 * NANOSECONDS)


def test_a_burst_between_two_rare_readings_is_no_work() -> None:
    rows = readings(range(10, 130, 10), cpu_seconds=0.0, file_bytes=0.0)
    rows["file_bytes"] = np.cumsum(np.arange(12) % 3 == 1) * 1e6
    work = windows(rows).rank_work(0)
    assert (work.kinds, work.worked_ns) == (Work.NONE, 10 * NANOSECONDS)
    moves = windows(readings(range(10, 130, 10), cpu_seconds=0.0, file_bytes=1e5)).rank_work(0)
    assert moves.kinds == Work.BYTES


def test_rows_of_many_ranks_together_give_what_they_give_one_by_one() -> None:
    parts = [readings(range(10, 30), cpu_seconds=rate) for rate in (0.0, 0.9)]
    for rank, rows in enumerate(parts):
        rows["rank"] = rank
    together, separate = WorkWindows(), WorkWindows()
    together.resize(2)
    separate.resize(2)
    mixed = np.stack(parts, axis=1).ravel()
    together.add(mixed)
    for place in range(len(mixed)):
        separate.add(mixed[place : place + 1])
    for rank, kinds in ((0, Work.NONE), (1, Work.CPU)):
        assert together.rank_work(rank).kinds == separate.rank_work(rank).kinds == kinds
        assert together.rank_work(rank).worked_ns == separate.rank_work(rank).worked_ns
    assert together.rank_work(7).kinds is None
