"""The names of an attempt's metrics, and the numbers that stand for them in each rank's records."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stepwatch.collector.state.folding.rows import chosen
from stepwatch.collector.state.tracker import MAX_WORLD
from stepwatch.signals.arrays import Integers
from stepwatch.signals.records import MOST_METRICS, Better
from stepwatch.signals.wire import Rows

LOSS, GRAD_NORM = 0, 1
"""Places of the metrics in STEP records."""
_IN_STEPS = ("loss", "grad_norm")
_NUMBERS = MOST_METRICS + 1

_Matrix = np.ndarray[tuple[int, int], np.dtype[np.int8]]


class MetricName(NamedTuple):
    """One metric: `evaluation` is empty for a metric of steps, `note` if ranks agree on the unit.

    `place` counts the metrics of steps, or those of evaluations.
    """

    name: str
    evaluation: str
    place: int
    unit: str = ""
    better: int = Better.UNKNOWN
    note: str = ""


class MetricNames:
    """At most `MOST_METRICS` names that ranks recorded, besides the loss and the gradient norm."""

    def __init__(self) -> None:
        self.metrics = [MetricName(name, "", place) for place, name in enumerate(_IN_STEPS)]
        self.refused = 0
        """METRIC_NAME rows beyond the maximum."""
        self._numbers: _Matrix = np.full((0, _NUMBERS), -1, dtype=np.int8)
        """Index in `metrics` by rank and number (ranks, numbers), -1 if unknown."""

    @property
    def nbytes(self) -> int:
        """Size in bytes of what grows with the ranks."""
        return self._numbers.nbytes

    def add(self, rows: Rows) -> None:
        """Apply METRIC_NAME rows; of two units for a metric the first stands, with a note."""
        rows = chosen(rows, (rows["rank"] >= 0) & (rows["rank"] < MAX_WORLD))
        ranks = int(rows["rank"].max(initial=-1)) + 1
        if len(self._numbers) < ranks:
            numbers = np.full((ranks, _NUMBERS), -1, dtype=np.int8)
            numbers[: len(self._numbers)] = self._numbers
            self._numbers = numbers
        fields = ("rank", "number", "better", "text", "unit", "evaluation")
        for rank, number, better, *texts in zip(
            *(rows[name].tolist() for name in fields), strict=True
        ):
            if 0 < number < _NUMBERS:
                name, unit, evaluation = (text.decode("utf-8", "replace") for text in texts)
                index = self._index(name, evaluation)
                self._numbers[rank, number] = index
                if index >= 0:
                    self.metrics[index] = _declared(self.metrics[index], unit, better, rank)

    def index(self, name: str) -> int | None:
        """Return the index in `metrics` of a metric of steps; None without it."""
        wanted = name, ""
        metrics = enumerate(self.metrics)
        return next((i for i, m in metrics if (m.name, m.evaluation) == wanted), None)

    def _index(self, name: str, evaluation: str) -> int:
        """Return a metric's index, a new one if there is room, else -1."""
        if not evaluation and name in _IN_STEPS:  # counted from STEP records alone
            return -1
        place = 0
        for index, metric in enumerate(self.metrics):
            if (metric.name, metric.evaluation) == (name, evaluation):
                return index
            place += bool(metric.evaluation) is bool(evaluation)
        if not name or len(self.metrics) >= MOST_METRICS + 2:
            self.refused += 1
            return -1
        self.metrics.append(MetricName(name, evaluation, place))
        return len(self.metrics) - 1

    def indices(self, ranks: Integers, numbers: Integers) -> Integers:
        """Return indices in `metrics` for ranks and their numbers, elementwise; -1 if unknown."""
        fits = (ranks >= 0) & (ranks < len(self._numbers)) & (numbers > 0) & (numbers < _NUMBERS)
        indices = np.full(ranks.shape, -1, dtype=np.int64)
        indices[fits] = self._numbers[ranks[fits], numbers[fits]]
        return indices

    @property
    def places(self) -> tuple[Integers, Integers]:
        """The metrics' places, and 1 for those of evaluations (metrics,)."""
        places = np.array([metric.place for metric in self.metrics], dtype=np.int64)
        evaluated = np.array([bool(metric.evaluation) for metric in self.metrics], dtype=np.int64)
        return places, evaluated


def _declared(metric: MetricName, unit: str, better: int, rank: int) -> MetricName:
    if not metric.unit or metric.unit == unit or not unit:
        metric = metric._replace(unit=metric.unit or unit)
    elif not metric.note:
        metric = metric._replace(note=f"rank {rank} reports the unit {unit}; {metric.unit} stands")
    known = better in (Better.LOWER, Better.HIGHER)
    return metric._replace(better=better) if known and not metric.better else metric
