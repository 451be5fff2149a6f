"""The reason for a risen loss is named only where a change lies at its onset."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from stepwatch.collector.detect import loss_anomaly
from stepwatch.collector.detect.context import DetectionContext
from stepwatch.collector.detect.finding import Finding
from stepwatch.collector.state.job import LiveJob
from stepwatch.collector.state.tracker import Received
from stepwatch.signals.arrays import Matrix
from stepwatch.signals.records import Kind
from tests.collector.made import JOB, segment, state_rows, step_rows
from tests.collector.state.trackers.metrics.test_metrics import metric_rows, name_rows

WORLD, ONSET, STEPS = 4, 100, 108
Values = Callable[[int], list[float]]


def losses(*risen: int) -> Matrix:
    """Losses (steps, ranks) with noise; those of some ranks are tenfold from the onset on."""
    noise = np.random.default_rng(3).lognormal(0.0, 0.02, (STEPS, WORLD))
    table: Matrix = np.asarray(2.0 * noise, dtype=np.float32)
    table[ONSET:, list(risen)] *= 10
    return table


def finding_of(table: Matrix, name: str, values: Values) -> Finding:
    """The finding on a job with these losses and one metric, values by step and rank."""
    steps, ranks = range(len(table)), range(WORLD)
    rows = step_rows(steps, ranks)
    rows["loss"] = table[rows["step"], rows["rank"]]
    job = LiveJob(JOB)
    tables = {
        Kind.STEP: rows,
        Kind.RANK_STATE: state_rows(ranks, WORLD, 80.0),
        Kind.METRIC_NAME: name_rows({1: name}),
        Kind.METRIC: np.concatenate([metric_rows(step, values(step)) for step in steps]),
    }
    job.apply(segment(1, tables), Received(0.0, 0.0))
    (finding,) = loss_anomaly.find(DetectionContext(job, 0.0))
    assert finding.began_step == ONSET
    return finding


def rates(change: Callable[[int], float]) -> Values:
    """The same rate on all ranks: a warm-up of 120 steps, times a change."""
    return lambda step: [1e-3 * (step + 1) / 120 * change(step)] * WORLD


def test_a_rate_that_rises_by_a_schedule_is_no_reason() -> None:
    cosine = rates(lambda step: 1.0 + math.cos(step / 60))
    for values in (rates(lambda _step: 1.0), cosine):
        finding = finding_of(losses(*range(WORLD)), "lr", values)
        assert finding.cause == "loss-spike" and "learning rate" not in finding.summary


@pytest.mark.parametrize(
    ("first", "named"), [(ONSET - 20, True), (ONSET, True), (ONSET - 40, False), (ONSET + 1, False)]
)
def test_a_rate_that_rises_tenfold_is_the_reason_shortly_before_the_onset(
    first: int, named: bool
) -> None:
    values = rates(lambda step: 10.0 if step >= first else 1.0)
    finding = finding_of(losses(*range(WORLD)), "lr", values)
    assert (finding.cause == "learning-rate") is named
    assert (f"from step {first} on" in finding.summary) is named


def shards(first: int, *ranks: int) -> Values:
    """Each rank reads the shard of its number, and some ranks shard 9 from a step on."""
    return lambda step: [
        9.0 if rank in ranks and step >= first else float(rank) for rank in range(WORLD)
    ]


@pytest.mark.parametrize("ranks", [(2,), (1,)])
def test_a_shard_is_the_reason_where_its_readers_alone_rise(ranks: tuple[int, ...]) -> None:
    finding = finding_of(losses(*ranks), "shard", shards(ONSET, *ranks))
    assert finding.cause == "data-shard"
    assert f"data shard 9, from step {ONSET} on in rank {ranks[0]} alone" in finding.summary


@pytest.mark.parametrize(
    ("risen", "values"),
    [
        ((0, 1, 2, 3), shards(ONSET, 2)),  # all ranks rise: not one rank's data
        ((2,), shards(ONSET, 1)),  # another rank's shard changed
        ((2,), shards(ONSET - 10, 2)),  # it was read without harm before
        ((2,), shards(0, 2)),  # no change at all
    ],
)
def test_a_shard_is_no_reason_where_the_losses_do_not_show_it(
    risen: tuple[int, ...], values: Values
) -> None:
    finding = finding_of(losses(*risen), "shard", values)
    assert finding.cause == "loss-spike" and "data shard" not in finding.summary
    assert any(row.name.startswith("data shard") for row in finding.evidence)
