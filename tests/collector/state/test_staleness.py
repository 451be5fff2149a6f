"""Since when a node is stale: also one of which nothing was ever received."""

from __future__ import annotations

import pytest

from stepwatch.collector.state.job import LiveJob
from stepwatch.collector.state.tracker import Received
from stepwatch.collector.state.trackers.nodes.agents import UNKNOWN_NODE
from stepwatch.signals.clock import NANOSECONDS
from stepwatch.signals.records import Kind, Phase
from stepwatch.signals.wire import Rows
from tests.collector.made import JOB, segment, state_rows, step_rows

WORLD = 4
RECEIVED_S, NOW_S = 100.0, 130.0


def states(phase: Phase, *, inside: float | None = None, moved_ago: float = 7.0) -> Rows:
    """Of two of four ranks, in that phase for `moved_ago` seconds, the last of them `inside` a
    collective for so long."""
    rows = state_rows(range(2), WORLD, time_s=50.0, moved_ago=moved_ago)
    rows["phase"] = phase
    if inside is not None:
        rows["in_collective"][1] = 1
        rows["collective_since_ns"][1] = round((50.0 - inside) * NANOSECONDS) if inside else 0
    return rows


def staleness(*tables: dict[Kind, Rows]) -> dict[str, float]:
    job = LiveJob(JOB)
    for number, rows in enumerate(tables):
        job.apply(segment(number + 1, rows), Received(RECEIVED_S, RECEIVED_S))
    return job.current.staleness(NOW_S)


@pytest.mark.parametrize(
    ("rows", "seconds"),
    [
        (states(Phase.OTHER), None),
        (states(Phase.DATA), None),
        (states(Phase.FORWARD), 37.0),
        (states(Phase.BACKWARD), 37.0),
        (states(Phase.OTHER, inside=12.0), 42.0),
        (states(Phase.FORWARD, inside=12.0), 42.0),
        (states(Phase.OTHER, inside=0), 30.0),
        (states(Phase.OTHER, inside=-5.0), 30.0),
    ],
)
def test_ranks_that_never_reported_are_missed_from_when_another_one_trains(
    rows: Rows, seconds: float | None
) -> None:
    """Before that they may not have been started yet; moments that cannot be count as now."""
    stale_nodes = staleness({Kind.RANK_STATE: rows})
    assert stale_nodes.pop(UNKNOWN_NODE, None) == (
        None if seconds is None else pytest.approx(seconds)
    )
    assert stale_nodes == {"node-0": pytest.approx(30.0)}


def test_a_step_shows_that_all_are_there_whatever_ranks_do_now() -> None:
    steps = {Kind.STEP: step_rows(range(3), range(2))}
    stale_nodes = staleness({Kind.RANK_STATE: states(Phase.DATA)}, steps)
    assert stale_nodes[UNKNOWN_NODE] == pytest.approx(30.0)


def test_where_all_reported_nobody_is_missed() -> None:
    rows = state_rows(range(WORLD), WORLD, time_s=50.0)
    assert UNKNOWN_NODE not in staleness({Kind.RANK_STATE: rows})
