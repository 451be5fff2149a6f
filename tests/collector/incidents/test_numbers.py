"""Incidents about numerics: the summary keeps its first step, and a named reason stays."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from stepwatch.collector.detect import loss_anomaly, non_finite, replica_drift, silent_corruption
from stepwatch.collector.detect.finding import Finding
from stepwatch.collector.incidents.transitions import RESOLVE_AFTER_SECONDS
from stepwatch.collector.state.trackers.replicas import Apart, Comparison, Skip
from stepwatch.signals.names import Cause
from stepwatch.signals.records import DTYPES, Kind, NumericsSource

from .story import Story


def corrupt(step: int) -> Finding:
    ranks, digests = np.arange(3, dtype=np.int32), np.array([5, 5, 6], dtype=np.uint64)
    once = Comparison("0-2", 0, step, step, step - 7, ranks, digests)
    comparison = once._replace(step=step + 1, previous=once)
    (found,) = silent_corruption.detect([comparison], silent_corruption.LIMITS)
    return found


def not_finite(step: int) -> Finding:
    rows = np.zeros(1, dtype=DTYPES[Kind.NUMERICS])
    rows["step"], rows["nonfinite"], rows["source"] = step, 1, NumericsSource.LOSS
    (found,) = non_finite.detect(rows, step, step, non_finite.LIMITS)
    return found


def apart(step: int) -> Finding:
    (found,) = replica_drift.detect([Apart("0-1", 0, step, step + 1, 0, 2)], [], {})
    return found


def skipped(step: int) -> Finding:
    (found,) = replica_drift.detect([], [Skip(7, "0-1", 1, 1, step, step - 7, step)], {})
    return found


def risen(step: int, high: int = 8, low: int = 0) -> Finding:
    losses = np.full(step + high + low, 2.0)
    losses[step : step + high] = 20.0
    (found,) = loss_anomaly.detect(np.arange(len(losses)), losses, loss_anomaly.LIMITS, step)
    return found


def back_again(step: int) -> Finding:
    return risen(step, low=3)


@pytest.mark.parametrize("find", [corrupt, not_finite, apart, skipped, risen, back_again])
def test_a_later_finding_does_not_move_the_first_step_of_the_summary(
    find: Callable[[int], Finding],
) -> None:
    story = Story()
    (incident,) = story.turn(find(200))
    assert "since step 200" in incident.summary and incident.since_step == 200
    for later in (207, 216):
        (incident,) = story.turn(find(later))
        assert incident.since_step == 200
        assert "since step 200" in incident.summary and f"step {later}" not in incident.summary
    story.turn(seconds=RESOLVE_AFTER_SECONDS + 1)
    (incident,) = story.turn(find(223))
    assert incident.state == "open" and incident.since_step == 200
    assert "since step 200" in incident.summary and "step 223" not in incident.summary


def test_a_reason_of_a_loss_stays_when_its_records_are_too_old() -> None:
    story = Story()
    story.turn(risen(200))
    named = risen(200)._replace(cause=Cause.DATA_SHARD, summary="since step 200; data shard 7")
    (incident,) = story.turn(named)
    assert (incident.cause, incident.summary) == ("data-shard", named.summary)
    (incident,) = story.turn(risen(200, high=40))
    assert (incident.cause, incident.summary) == ("data-shard", named.summary)
    assert incident.summary_now.startswith("the loss has diverged since step 200")
