"""What a rank costs in a step: by how much it works longer than all others of its stage.

A step ends when the slowest rank is done, so nothing below the next slowest counts. Ranks that are
suspected together are compared with those that are not: none hides behind another.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from stepwatch.signals.arrays import FloatCube

Suspects = np.ndarray[tuple[int, int, int], np.dtype[np.bool_]]


def step_costs(work: FloatCube, suspect: Suspects) -> FloatCube:
    """Seconds (steps, stages, ranks) that each rank holds its stage up.

    `work` is self time in all phases, `suspect` who is suspected, both (steps, stages, ranks):
    these are compared with the others, as long as they are half of the stage at most.

    Work 1.0, 1.5, 1.7 -> 0, 0, 0.2; where the last two are suspects -> 0, 0.5, 0.7.
    """
    flat = work.reshape(-1, work.shape[-1])
    slowest = np.arange(len(flat)), np.argmax(flat, axis=-1)
    remaining = flat.copy()
    remaining[slowest] = -np.inf
    costs: np.ndarray[Any, Any] = np.zeros(work.shape, dtype=work.dtype)
    costs.reshape(flat.shape)[slowest] = flat[slowest] - remaining.max(axis=-1)
    if suspect.any():
        few = suspect & (2 * suspect.sum(axis=-1, keepdims=True) <= work.shape[-1])
        healthy_max = np.where(few, -np.inf, work).max(axis=-1, keepdims=True)
        costs = np.where(few, np.maximum(work - healthy_max, 0.0), costs)
    return np.asarray(costs)
