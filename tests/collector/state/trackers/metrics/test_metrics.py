"""Metrics keep their newest steps one by one, older ones by time, and stay within their bound."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from stepwatch.collector.state.attempt import Attempt
from stepwatch.collector.state.tracker import CELL_BYTES, Received
from stepwatch.collector.state.trackers.metrics.buckets import Curve
from stepwatch.collector.state.trackers.metrics.metrics import (
    EVALUATIONS,
    RECENT_STEPS,
    SPANS,
    SPANS_BETWEEN,
    Metrics,
)
from stepwatch.signals.clock import NANOSECONDS
from stepwatch.signals.records import MOST_METRICS, Better, Kind, make_rows
from stepwatch.signals.wire import Rows
from tests.collector.made import EPOCH, segment, state_rows, step_rows

WORLD = 4


def name_rows(
    names: Mapping[int, str],
    ranks: Sequence[int] = range(WORLD),
    unit: str = "",
    evaluation: str = "",
    better: int = 0,
) -> Rows:
    """METRIC_NAME rows of every rank."""
    cells = [(rank, number) for rank in ranks for number in names]
    ranks, numbers = zip(*cells, strict=True)
    return make_rows(
        Kind.METRIC_NAME, len(cells), rank=ranks, number=numbers, better=better,
        text=[names[number].encode() for number in numbers],
        unit=unit.encode(), evaluation=evaluation.encode(),
    )  # fmt: skip


def metric_rows(
    step: int,
    values: Sequence[float],
    number: int = 1,
    seconds: float = 1.0,
    evaluated: bool = False,
) -> Rows:
    """METRIC rows with one value for each rank from 0 on, `seconds` a step."""
    return make_rows(
        Kind.METRIC,
        len(values),
        rank=np.arange(len(values)),
        step=step,
        time_ns=round(step * seconds * NANOSECONDS),
        name_0=number,
        value_0=values,
        evaluated=evaluated,
    )


class Told:
    """An attempt that is told rows."""

    def __init__(self) -> None:
        self.attempt = Attempt(0)
        self.sequence = 0
        self.tell({Kind.RANK_STATE: state_rows(range(WORLD), WORLD, 0.0)})

    def tell(self, tables: dict[Kind, Rows]) -> None:
        self.sequence += 1
        self.attempt.apply(segment(self.sequence, tables), Received(0.0, 0.0))

    @property
    def metrics(self) -> Metrics:
        return self.attempt.tracker(Metrics)

    def curve(self, name: str, curve: str = "steps") -> Curve:
        names = [(metric.evaluation, metric.name) for metric in self.metrics.names.metrics]
        evaluation, _, short = name.rpartition(":")
        return self.metrics.curves(names.index((evaluation, short)))[curve]


@pytest.fixture
def told() -> Told:
    return Told()


def test_a_step_is_reduced_over_its_ranks(told: Told) -> None:
    told.tell({Kind.METRIC_NAME: name_rows({1: "accuracy"}, unit="1", better=Better.HIGHER)})
    told.tell({Kind.METRIC: metric_rows(7, [0.1, 0.2, 0.3, 0.6])})
    told.tell({Kind.METRIC: metric_rows(8, [math.nan, math.inf, 0.5, -math.inf])})
    told.tell({Kind.METRIC: metric_rows(9, [math.nan] * 4)})
    curve = told.curve("accuracy")
    assert curve.step.tolist() == [7, 8, 9]
    assert curve.mean[:2].tolist() == pytest.approx([0.3, 0.5])
    assert (curve.least[0], curve.greatest[0], curve.last[0]) == (0.1, 0.6, 0.6)
    assert curve.finite.tolist() == [4, 1, 0] and curve.non_finite.tolist() == [0, 3, 4]
    assert curve.last[1] == -math.inf and math.isnan(curve.last[2]) and math.isnan(curve.mean[2])
    metric = told.metrics.names.metrics[2]
    assert (metric.unit, metric.better, metric.note) == ("1", Better.HIGHER, "")


def test_loss_and_gradient_norm_come_from_the_steps_themselves(told: Told) -> None:
    rows = step_rows(range(10), range(WORLD))
    rows["loss"][rows["rank"] == 0] = np.nan
    told.tell({Kind.STEP: rows})
    told.tell({Kind.STEP: rows})  # repeated rows count once
    loss = told.curve("loss")
    assert loss.step.tolist() == list(range(10)) and loss.finite.tolist() == [3] * 10
    assert loss.mean.tolist() == pytest.approx([5.0 - step / 100 for step in range(10)])
    assert told.curve("grad_norm").finite.tolist() == [4] * 10


def test_a_logged_loss_does_not_count_beside_that_of_the_step(told: Told) -> None:
    told.tell({Kind.METRIC_NAME: name_rows({1: "loss"}), Kind.STEP: step_rows(range(3), range(4))})
    told.tell({Kind.METRIC: metric_rows(2, [9.0] * WORLD)})
    assert told.curve("loss").finite.tolist() == [WORLD] * 3
    assert told.metrics.unnamed == WORLD


def test_evaluations_keep_their_steps(told: Told) -> None:
    told.tell({Kind.METRIC_NAME: name_rows({1: "loss"}, evaluation="validation")})
    for step in range(0, 1000 * (EVALUATIONS + 20), 1000):
        told.tell({Kind.METRIC: metric_rows(step, [2.0, 4.0], evaluated=True)})
    curve = told.curve("validation:loss", "evaluations")
    assert len(curve.step) == EVALUATIONS and curve.step[0] == 20_000
    assert set(curve.mean.tolist()) == {3.0}
    assert len(told.curve("loss").step) == 0, "the training loss is another metric"


def test_a_long_run_keeps_its_shape_in_a_bounded_number_of_buckets(told: Told) -> None:
    told.tell({Kind.METRIC_NAME: name_rows({1: "lr"})})
    seconds = 600.0
    for first in range(0, 20_000, 500):
        parts = [
            metric_rows(first + step, [float(first + step)], seconds=seconds) for step in range(500)
        ]
        told.tell({Kind.METRIC: np.concatenate(parts)})
    recent, hours = told.curve("lr"), told.curve("lr", "1h")
    assert recent.step.tolist() == list(range(20_000 - RECENT_STEPS, 20_000))
    assert len(hours.step) == SPANS["1h"][1] and hours.step[-1] == 19_999
    full = slice(1, -1)
    assert (hours.step - hours.first_step)[full].tolist() == [5] * (len(hours.step) - 2)
    assert set(hours.finite[full].tolist()) == {6}
    assert (hours.last - hours.least)[full].tolist() == [5.0] * (len(hours.step) - 2)
    assert hours.mean[full].tolist() == pytest.approx((hours.greatest[full] - 2.5).tolist())
    assert hours.wall_s[-1] == pytest.approx(EPOCH + 19_999 * seconds)
    buckets = RECENT_STEPS + sum(most for _, most in (SPANS | SPANS_BETWEEN).values())
    metrics_held = 3  # loss and gradient norm have their places
    assert told.metrics.cells <= metrics_held * buckets * 72 / CELL_BYTES + WORLD * 65 + 100


def test_two_units_leave_the_first_and_a_note(told: Told) -> None:
    told.tell({Kind.METRIC_NAME: name_rows({1: "wait"}, ranks=[0], unit="seconds")})
    told.tell({Kind.METRIC_NAME: name_rows({1: "wait"}, ranks=[1])})
    told.tell({Kind.METRIC_NAME: name_rows({1: "wait"}, ranks=[2], unit="ms")})
    told.tell({Kind.METRIC_NAME: name_rows({1: "wait"}, ranks=[3], unit="us")})
    metric = told.metrics.names.metrics[2]
    assert metric.unit == "seconds"
    assert metric.note == "rank 2 reports the unit ms; seconds stands"


def test_each_rank_has_its_own_numbers(told: Told) -> None:
    told.tell({Kind.METRIC_NAME: name_rows({1: "lr", 2: "wd"}, ranks=[0])})
    told.tell({Kind.METRIC_NAME: name_rows({2: "lr", 1: "wd"}, ranks=[1])})
    rows = metric_rows(0, [0.5, 0.5])
    rows["name_0"] = 1, 2
    told.tell({Kind.METRIC: rows})
    assert told.curve("lr").finite.tolist() == [2]
    assert len(told.curve("wd").step) == 0


def test_what_has_no_name_is_counted(told: Told) -> None:
    told.tell({Kind.METRIC: metric_rows(0, [0.5, 0.25])})
    told.tell({Kind.METRIC: metric_rows(1, [0.5, 0.25], number=60_000)})
    told.tell({Kind.METRIC_NAME: name_rows({1: "lr"})})
    told.tell({Kind.METRIC: metric_rows(2, [0.5, 0.25])})
    assert told.metrics.unnamed == 4
    assert told.curve("lr").step.tolist() == [2]


def test_a_job_has_sixty_four_names_whatever_its_ranks_say(told: Told) -> None:
    for rank in range(WORLD):
        names = {number + 1: f"{rank} {number}" for number in range(MOST_METRICS)}
        told.tell({Kind.METRIC_NAME: name_rows(names, ranks=[rank])})
        told.tell({Kind.METRIC: metric_rows(rank, [0.5] * WORLD)})
    assert len(told.metrics.names.metrics) == MOST_METRICS + 2
    assert told.metrics.names.refused == (WORLD - 1) * MOST_METRICS


def test_rows_of_impossible_ranks_and_times_do_no_harm(told: Told) -> None:
    rows = name_rows({1: "lr"})
    rows["rank"] = -1, 1, 2**31 - 1, 131_072
    told.tell({Kind.METRIC_NAME: rows})
    values = metric_rows(2**32 - 1, [0.5] * 4)
    values["rank"], values["time_ns"] = (-1, 1, 2**31 - 1, 1), (0, 2**64 - 1, 1, 0)
    told.tell({Kind.METRIC: values})
    assert told.curve("lr").step.tolist() == [2**32 - 1]
    assert told.curve("lr").finite.tolist() == [2]
