"""Which runs do the same, so that what they take can be compared."""

from __future__ import annotations

from typing import Any

import pytest

from stepwatch.collector.analysis.beginnings import Beginning, beginning_of
from stepwatch.collector.state.attempt import Attempt
from stepwatch.collector.state.job import LiveJob
from stepwatch.collector.state.tracker import Received
from stepwatch.collector.state.trackers.baseline import Exchange
from stepwatch.collector.state.trackers.early_baseline import UsualWaits
from stepwatch.collector.state.trackers.step_window import DEVICE, HOST
from stepwatch.signals.records import Op
from stepwatch.signals.wire import Segment
from tests.collector.gathered import gathering_run
from tests.collector.made import EPOCH, run_segments

HERE = Beginning(
    HOST,
    UsualWaits(1.0, 0.8, 0.0, 0.1),
    {(Op.ALL_REDUCE, 8): Exchange(25.0, 1e9)},
    stages=0,
    nodes=2,
)


def other(calls: float = 25.0, size: float = 1e9, members: int = 8) -> dict[str, Any]:
    return {"exchanged": {(Op.ALL_REDUCE, members): Exchange(calls, size)}}


@pytest.mark.parametrize(
    "change", [{}, {"waits": UsualWaits(9.0, 9.0, 9.0, 9.0)}, other(size=1.05e9)]
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
        other(calls=50.0),
        other(size=2e9),
        other(members=4),
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
    known = beginning_of(job.current, HOST)
    assert known is not None
    return job.current, known


def test_what_is_exchanged_is_kept_when_an_attempt_gives_its_ranks_back() -> None:
    attempt, known = began(gathering_run())
    assert known.exchanged == {(Op.ALL_GATHER, 2): Exchange(4.0, 1000.0)}
    assert (known.stages, known.nodes) == (2, 1)
    attempt.release()
    assert beginning_of(attempt, HOST) == known


def test_of_a_run_without_collectives_nobody_can_tell() -> None:
    _, known = began(run_segments(40))
    assert not known.exchanged and not known.is_like(known)
