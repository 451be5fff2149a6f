"""Metrics that ranks record: curves by step and by time, and the values of evaluations.

All ranks' values of a step count alike: a bucket's mean, least and greatest value cover every
finite value in it, its last value is that of the highest rank in its newest step. Values that are
not finite are counted beside them.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from stepwatch.collector.state.folding.rows import chosen
from stepwatch.collector.state.tracker import CELL_BYTES, Batches, JoinedTracker, TrackedAttempt
from stepwatch.collector.state.trackers.steps.steps import Steps
from stepwatch.signals.arrays import Integers, Rows, Vector
from stepwatch.signals.clock import NANOSECONDS
from stepwatch.signals.records import METRICS_PER_ROW, Kind

from .buckets import RANK_BITS, Buckets, Curve, Values, order_of
from .names import GRAD_NORM, LOSS, MetricNames
from .rank_values import RankValues, rank_metric

RECENT_STEPS = 256
"""Steps in a curve by step: the newest ones with a value of any metric."""
FIRST_STEPS = 16
"""Steps in a curve of the attempt's first steps, which stay: they show what a resume restored."""
EVALUATIONS = 512
"""Evaluations in a curve by evaluation."""
SPANS = {"10s": (10, 360), "5min": (300, 288), "1h": (3600, 1440)}
"""Curves by time: seconds in a bucket, and most buckets: an hour, a day, sixty days."""
SPANS_BETWEEN = {"1min": (60, 360), "15min": (900, 384)}
"""More of them for drawing, six hours and four days: a run of two hours has 400 points.

With 72 bytes a bucket, a job of a day with ten metrics takes 1 MB, one of sixty days with all 66
metrics 15 MB. Five tables by time cost a fold of ten metrics 0.1 ms.
"""


class Metrics(JoinedTracker):
    """METRIC and METRIC_NAME rows, and the loss and gradient norm of STEP rows."""

    kinds = frozenset({Kind.STEP, Kind.METRIC, Kind.METRIC_NAME})
    order = 44
    """After `Steps`, whose new rows it reads, and before `SettledSteps`, which takes them."""
    given_back = True

    def __init__(self) -> None:
        self.names = MetricNames()
        self.unnamed = 0
        """Values without a METRIC_NAME record for their number."""
        self.rank_values = RankValues()
        self._steps = Buckets(RECENT_STEPS)
        self._first = Buckets(FIRST_STEPS)
        """By the negative step: a table keeps the greatest keys."""
        self._spans = {name: Buckets(most) for name, (_, most) in SPANS.items()}
        self._between = {name: Buckets(most) for name, (_, most) in SPANS_BETWEEN.items()}
        self._evaluations = Buckets(EVALUATIONS)

    def fold(self, batches: Batches, attempt: TrackedAttempt) -> None:
        """Fold in rows; a name counts from its own batch on."""
        values = _of_steps(attempt.tracker(Steps))
        table, names = batches.table(Kind.METRIC), batches.table(Kind.METRIC_NAME)
        begins = np.flatnonzero(names.counts).tolist() if len(names.rows) else []
        for first, last in pairwise(sorted({0, *begins, len(batches)})):
            if names.counts[first]:
                self.names.add(names.part(first, first + 1).rows)
            part = table.part(first, last)
            if len(part.rows):
                values += self._of_metrics(part.rows, first + part.origin, batches)
        if values:
            self.add(Values.joined(values))

    def _of_metrics(self, rows: Rows, origin: Integers, batches: Batches) -> list[Values]:
        """Return the values in METRIC rows; evaluations are added at once."""
        shape = len(rows), METRICS_PER_ROW
        places = range(METRICS_PER_ROW)
        numbers = np.stack([rows[f"name_{place}"].astype(np.int64) for place in places], axis=1)
        values = np.stack([rows[f"value_{place}"] for place in places], axis=1).ravel()
        ranks = np.broadcast_to(rows["rank"].astype(np.int64)[:, None], shape)
        indices = self.names.indices(ranks, numbers).ravel()
        self.unnamed += int((indices < 0).sum() - (numbers == 0).sum())
        self._add_rank_values(indices, ranks.ravel(), rows["step"], values)
        order = order_of(rows["step"], np.maximum(rows["rank"], 0))
        wall_s = _wall_s(rows, batches.to_wall_ns[origin], batches.received_s[origin])
        metric_places, evaluated = self.names.places
        named = indices >= 0
        indices = indices[named]
        is_evaluated = evaluated[indices] > 0
        recorded = Values(
            metric_places[indices],
            np.repeat(order, METRICS_PER_ROW)[named],
            values[named],
            np.repeat(wall_s, METRICS_PER_ROW)[named],
        )
        if is_evaluated.any():
            evaluations = recorded.chosen(is_evaluated)
            self._evaluations.add(evaluations, evaluations.order >> RANK_BITS)
        return [recorded.chosen(~is_evaluated)]

    def _add_rank_values(
        self, indices: Integers, ranks: Integers, steps: Integers, values: Vector
    ) -> None:
        """Add the values (rows * places) of metrics that are kept by rank; `steps` is (rows,)."""
        metrics = self.names.metrics
        places = np.array([-1 if m.evaluation else rank_metric(m.name) for m in metrics])
        place = np.where(indices >= 0, places[indices], -1)
        chosen = np.flatnonzero(place >= 0)
        if len(chosen):
            row = chosen // METRICS_PER_ROW
            self.rank_values.add(
                place[chosen], ranks[chosen], steps[row].astype(np.int64), values[chosen]
            )

    def add(self, values: Values) -> None:
        """Add values of metrics of steps to all curves."""
        steps = values.order >> RANK_BITS
        self._steps.add(values, steps)
        self._first.add(values, -steps)
        for spans, tables in ((SPANS, self._spans), (SPANS_BETWEEN, self._between)):
            for name, (seconds, _) in spans.items():
                tables[name].add(values, np.floor(values.wall_s / seconds).astype(np.int64))

    def curves(self, index: int) -> dict[str, Curve]:
        """Return a metric's curves by name; an evaluation's metric has one, `evaluations`."""
        metric = self.names.metrics[index]
        if metric.evaluation:
            return {"evaluations": self._evaluations.curve(metric.place)}
        spans = {name: buckets.curve(metric.place) for name, buckets in self._spans.items()}
        return {"steps": self._steps.curve(metric.place), **spans}

    def levels(self, index: int) -> dict[int, Curve]:
        """Return all curves of a metric by the seconds in a bucket, finest first.

        0 is a curve by step or by evaluation.
        """
        metric = self.names.metrics[index]
        if metric.evaluation:
            return {0: self._evaluations.curve(metric.place)}
        lengths = {name: seconds for name, (seconds, _) in (SPANS | SPANS_BETWEEN).items()}
        tables = self._spans | self._between
        by_length = {lengths[name]: tables[name].curve(metric.place) for name in tables}
        return {0: self._steps.curve(metric.place), **dict(sorted(by_length.items()))}

    def has(self, index: int) -> bool:
        """Return whether a metric has a value."""
        metric = self.names.metrics[index]
        return (self._evaluations if metric.evaluation else self._spans["1h"]).has(metric.place)

    def copied(self) -> Metrics:
        """Return the names and curves as they are now, without the values by rank."""
        copy = Metrics()
        copy.names.metrics = [*self.names.metrics]
        copy._steps, copy._evaluations = self._steps.copied(), self._evaluations.copied()
        copy._spans = {name: buckets.copied() for name, buckets in self._spans.items()}
        copy._between = {name: buckets.copied() for name, buckets in self._between.items()}
        return copy

    def first(self, index: int) -> Curve:
        """Return a metric's curve by step over the attempt's first `FIRST_STEPS` steps."""
        return self._first.curve(self.names.metrics[index].place).reversed()

    def newest(self, index: int, until_step: int) -> tuple[Integers, Vector]:
        """Return a metric's steps and last values up to a step, from all curves, oldest first.

        A curve counts for the steps before those of the finer ones.
        """
        steps, values = np.zeros(0, dtype=np.int64), np.zeros(0)
        end = until_step + 1
        for curve in self.curves(index).values():
            older = curve.until(end)
            if len(older.step):
                steps = np.concatenate([older.step, steps])
                values = np.concatenate([older.last, values])
                end = int(older.first_step[0])
        return steps, values

    @property
    def cells(self) -> int:
        """Cell count, for the live-state limit."""
        tables = (self._steps, self._first, self._evaluations)
        by_time = *self._spans.values(), *self._between.values()
        by_rank = self.names.nbytes + self.rank_values.nbytes
        return (by_rank + sum(table.nbytes for table in (*tables, *by_time))) // CELL_BYTES


def _of_steps(steps: Steps) -> list[Values]:
    """Return the losses and gradient norms of the group's new steps; NaN is unknown there."""
    fresh, parts = steps.fresh, []
    for metric, field in ((LOSS, "loss"), (GRAD_NORM, "grad_norm")):
        recorded = ~np.isnan(fresh.rows[field])
        if recorded.any():
            rows = chosen(fresh.rows, recorded)
            wall_s = _wall_s(rows, fresh.to_wall_ns[recorded], fresh.received_s[recorded])
            order = order_of(rows["step"], rows["rank"])
            metrics = np.full(len(rows), metric)
            parts.append(Values(metrics, order, rows[field].astype(np.float64), wall_s))
    return parts


def _wall_s(rows: Rows, to_wall_ns: Integers, received_s: Vector) -> Vector:
    """Return each row's moment in Unix seconds; a clock that is ahead counts as the collector's."""
    wall_s = (rows["time_ns"].astype(np.float64) + to_wall_ns) / NANOSECONDS
    return np.asarray(np.where(received_s > 0, np.minimum(wall_s, received_s), wall_s))
