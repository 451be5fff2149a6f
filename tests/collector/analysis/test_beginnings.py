"""Which runs do the same, so that what they take can be compared."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from stepwatch.collector.analysis.beginnings import Beginning, beginning_of
from stepwatch.collector.state.attempt import Attempt
from stepwatch.collector.state.job import LiveJob
from stepwatch.collector.state.tracker import Received
from stepwatch.collector.state.trackers.steps.baseline import Exchange
from stepwatch.collector.state.trackers.steps.early_baseline import UsualWaits
from stepwatch.collector.step_clocks import DEVICE, HOST
from stepwatch.signals.records import Kind, Op
from stepwatch.signals.wire import Rows, Segment
from tests.collector.gathered import PAIRS, call_rows, gathering_run, group_rows
from tests.collector.made import EPOCH, run_segments

HERE = Beginning(
    HOST,
    UsualWaits(1.0, 0.8, 0.0, 0.1),
    {(Op.ALL_REDUCE, 8): Exchange(25.0, 1e9)},
    stages=0,
    nodes=2,
)


def exchange_change(calls: float = 25.0, size: float = 1e9, members: int = 8) -> dict[str, Any]:
    return {"exchanged": {(Op.ALL_REDUCE, members): Exchange(calls, size)}}


@pytest.mark.parametrize(
    "change", [{}, {"waits": UsualWaits(9.0, 9.0, 9.0, 9.0)}, exchange_change(size=1.05e9)]
)
def test_runs_that_do_the_same_are_alike_whatever_it_takes(change: dict[str, Any]) -> None:
    assert HERE.is_like(HERE._replace(**change))


@pytest.mark.parametrize(
    "change",
    [
        {"stages": 2},
        {"nodes": 1},
        {"clock": DEVICE},
        {"exchanged": {}},
        exchange_change(calls=50.0),
        exchange_change(size=2e9),
        exchange_change(members=4),
    ],
)
def test_another_parallelism_place_clock_or_message_is_another_run(change: dict[str, Any]) -> None:
    changed = HERE._replace(**change)
    assert not HERE.is_like(changed)
    assert not changed.is_like(HERE)


def began(segments: list[Segment]) -> tuple[Attempt, Beginning]:
    job = LiveJob("job")
    for item in segments:
        job.apply(item, Received(EPOCH, 0.0))
    beginning = beginning_of(job.current, HOST)
    assert beginning is not None
    return job.current, beginning


def test_what_is_exchanged_is_kept_when_an_attempt_gives_its_ranks_back() -> None:
    attempt, beginning = began(gathering_run())
    assert beginning.exchanged == {(Op.ALL_GATHER, 2): Exchange(4.0, 1000.0)}
    assert (beginning.stages, beginning.nodes) == (2, 1)
    attempt.release()
    assert beginning_of(attempt, HOST) == beginning


def test_an_operation_in_few_steps_is_no_part_of_what_a_job_exchanges() -> None:
    segments = gathering_run()
    _, beginning = began(segments)
    barrier = call_rows([12], dict.fromkeys(range(4), 0.01), group=10, op=Op.BARRIER)
    tables = segments[2].tables
    with_one: dict[Kind, Rows] = {
        **tables,
        Kind.COLLECTIVE: np.concatenate([tables[Kind.COLLECTIVE], barrier]),
    }
    segments[2] = segments[2]._replace(tables=with_one)
    assert began(segments)[1].exchanged == beginning.exchanged


def test_two_groups_of_one_size_count_together() -> None:
    more = {**PAIRS, 20: (0, 2), 21: (1, 3)}
    groups = np.concatenate([group_rows(group, ranks) for group, ranks in more.items()])
    segments = []
    for item in gathering_run():
        rows = item.tables[Kind.COLLECTIVE]
        collectives = np.concatenate([rows, _in_another_group(rows)])
        tables: dict[Kind, Rows] = {**item.tables, Kind.COLLECTIVE: collectives, Kind.GROUP: groups}
        segments.append(item._replace(tables=tables))
    assert began(segments)[1].exchanged == {(Op.ALL_GATHER, 2): Exchange(8.0, 1e9 + 1000.0)}


def _in_another_group(rows: Rows) -> Rows:
    rows = rows.copy()
    rows["group"] = 20 + rows["rank"] % 2
    rows["bytes"] = 1_000_000_000
    return rows


def test_of_a_run_without_collectives_nobody_can_tell() -> None:
    _, beginning = began(run_segments(40))
    assert not beginning.exchanged and not beginning.is_like(beginning)
