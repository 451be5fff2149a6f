"""Step-time breakdown: divides a window's step time into parts that add up to the steps.

The hooks assign every nanosecond in a step to one phase, to collectives, or to pipeline waits. This
module divides exposed collectives further into transfer and arrival skew. The collective records
give the ratio and the step's own record gives the time, so the sum holds even if calls overlap.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stepwatch.collector.state.collective_timing import Waits
from stepwatch.collector.state.evidence.step_window import Window
from stepwatch.signals.arrays import FloatMatrix, Floats, Matrix
from stepwatch.signals.records import PHASE_NAMES, Op

UNACCOUNTED = "unaccounted"
PARTS = (
    *PHASE_NAMES,
    "transfer",
    "arrival_skew",
    "collective_unsplit",
    "pipeline_wait",
    UNACCOUNTED,
)
"""Parts of a step; `unaccounted` is the rest that the record's own parts do not cover."""


class StepTimeBreakdown(NamedTuple):
    """Means over `rank_steps` reported (rank, step) cells in `steps` steps.

    `seconds` maps each of `PARTS` to seconds per step; they add up to `step_seconds`.
    """

    steps: int
    rank_steps: int
    step_seconds: float
    seconds: dict[str, float]


class Exposed(NamedTuple):
    """Exposed collective time in matrices (steps, ranks) in seconds, NaN if unknown."""

    transfer: Matrix
    wait: Matrix


def exposed(window: Window, waits: Waits) -> Exposed:
    """Divide each rank's exposed collective time into transfer and arrival skew.

    A cell with an indivisible collective is NaN in both; a cell without blocked time is 0 in both.
    """
    collective = window.planes["collective"].astype(np.float64)
    blocked, transfer = _sums(window, waits)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(blocked > 0, transfer / blocked, np.nan)
    ratio[collective == 0] = 0.0
    return Exposed(collective * ratio, collective * (1.0 - ratio))


def step_time_breakdown(window: Window, split: Exposed) -> StepTimeBreakdown | None:
    """Divide the steps in `window`; None without a reported step."""
    reported = ~np.isnan(window.planes["duration"])
    cells = int(reported.sum())
    if not cells:
        return None

    def mean(plane: FloatMatrix) -> float:
        return float(plane[reported].sum(dtype=np.float64)) / cells

    unsplit = np.where(np.isnan(split.transfer), window.planes["collective"], 0.0)
    seconds = {name: mean(window.planes[name]) for name in PHASE_NAMES}
    seconds["transfer"] = mean(np.nan_to_num(split.transfer))
    seconds["arrival_skew"] = mean(np.nan_to_num(split.wait))
    seconds["collective_unsplit"] = mean(unsplit)
    seconds["pipeline_wait"] = mean(window.planes["pipeline_wait"])
    duration = mean(window.planes["duration"])
    seconds[UNACCOUNTED] = duration - sum(seconds.values())
    return StepTimeBreakdown(len(window.steps), cells, duration, seconds)


def _sums(window: Window, waits: Waits) -> tuple[Matrix, Matrix]:
    """Return blocked and transfer seconds (steps, ranks) from the collective records.

    Sends and receives are excluded: the hooks count them as pipeline wait.
    """
    shape = window.planes["duration"].shape
    rows = waits.rows
    index = np.searchsorted(window.steps, rows["step"])
    inside = (index < len(window.steps)) & (rows["rank"] < shape[1])
    inside &= ~np.isin(rows["op"], (Op.SEND, Op.RECV))
    inside[inside] &= window.steps[index[inside]] == rows["step"][inside]
    cells = index[inside] * shape[1] + rows["rank"][inside]

    def plane(values: Floats) -> Matrix:
        sums = np.bincount(cells, weights=values[inside], minlength=shape[0] * shape[1])
        return sums.astype(np.float64).reshape(shape)

    return plane(rows["exposed"]), plane(waits.transfer)
