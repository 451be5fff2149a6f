"""The first steps of an attempt are kept, and what comes later does not change them."""

from __future__ import annotations

import numpy as np
import pytest

from stepwatch.collector.detect.context import DetectionContext
from stepwatch.collector.detect.registry import discover, find
from stepwatch.collector.state.evidence.step_window import WORK
from stepwatch.collector.state.job import LiveJob
from stepwatch.collector.state.tracker import Received
from stepwatch.collector.state.trackers.communication.collective_records import CollectiveRecords
from stepwatch.collector.state.trackers.lifecycle import Schedule
from stepwatch.collector.state.trackers.steps.baseline import GRACE_STEPS, Baseline
from stepwatch.collector.state.trackers.steps.step_history import BASELINE_STEPS, WARMUP_STEPS
from stepwatch.collector.web.breakdown.parts import breakdown
from stepwatch.signals.records import Kind, LifecycleEvent, Op
from tests.collector.gathered import call_rows, group_rows, records_of
from tests.collector.made import JOB, SHARES, lifecycle_rows, run_segments, step_rows

LAST = WARMUP_STEPS + BASELINE_STEPS


def test_medians_after_the_warm_up() -> None:
    past, calls = Baseline(), CollectiveRecords()
    past.add(step_rows(range(WARMUP_STEPS), range(2), seconds=60.0), 0, 2, calls)
    past.add(step_rows(range(WARMUP_STEPS, LAST - 1), range(2), seconds=1.0), 0, 2, calls)
    assert past.work == {}, "not over yet"
    past.add(step_rows([LAST - 1], range(2), seconds=9.0), 0, 2, calls)
    past.add(step_rows(range(LAST, LAST + 50), range(2), seconds=9.0), 0, 2, calls)
    assert set(past.work) == set(WORK)
    for phase in WORK:
        assert past.work[phase] == pytest.approx([SHARES[phase]] * 2)
    assert past.work_of(2) == past.work
    assert past.work_of(3) == {}


def test_a_rank_that_never_reports_has_no_past_and_holds_nobody_up() -> None:
    past, calls = Baseline(), CollectiveRecords()
    past.add(step_rows(range(LAST + GRACE_STEPS + 1), [0, 2], seconds=1.0), 0, 3, calls)
    assert np.isnan(past.work["forward"]).tolist() == [False, True, False]
    assert past.cells == 0


def test_transfers_of_the_first_steps() -> None:
    rows = call_rows(range(LAST), {0: 0.3, 1: 0.1}, op=Op.ALL_REDUCE, count=3, size_bytes=500)
    past, calls = Baseline(), records_of(rows, group_rows(7, [0, 1]))
    past.add(step_rows(range(LAST), range(2)), 0, 2, calls)
    [(key, call)] = past.calls.items()
    assert key == (7, Op.ALL_REDUCE)
    assert call == pytest.approx((0.1, 500.0, 3.0))


@pytest.mark.parametrize(("millionths", "ideal"), [(200_000, 0.2), (-1, None), (2**62, None)])
def test_the_schedule_and_its_ideal_are_known(millionths: int, ideal: float | None) -> None:
    job = LiveJob(JOB)
    [first, *_] = run_segments(5)
    reported = lifecycle_rows(LifecycleEvent.SCHEDULE, range(4), millionths)
    reported["text"] = b"ScheduleGPipe"
    lines = np.concatenate([first.tables[Kind.LIFECYCLE], reported])
    job.apply(first._replace(tables={**first.tables, Kind.LIFECYCLE: lines}), Received(0.0, 0.0))
    assert job.current.lifecycle.schedule == Schedule("ScheduleGPipe", ideal)
    pipeline = breakdown(job.current)["pipeline"]
    assert pipeline is not None
    assert (pipeline["schedule"], pipeline["ideal_bubble_ratio"]) == ("ScheduleGPipe", ideal)
    assert pipeline["bubble_ratio"] == 0.0
    assert "200000" not in str(job.current.lifecycle.events), (
        "reported by every rank: no event of the job"
    )


def test_long_trouble_of_a_rank_alone_in_its_stage_stays_trouble() -> None:
    segments = run_segments(300, excess={(2, "forward"): 0.3}, slow_from=60)
    for item in segments:
        item.tables[Kind.RANK_STATE]["stage"] = item.tables[Kind.RANK_STATE]["rank"]
    job = LiveJob(JOB)
    for index, item in enumerate(segments):
        job.apply(item, Received(0.0, float(index)))
        newest = 5 * index + 4
        named = [finding.rank for finding in find(DetectionContext(job, float(index)), discover())]
        assert named == ([2] if newest >= 69 else []), newest  # six slow steps of its own
