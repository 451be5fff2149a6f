"""The cost of a rank in a step: its work beyond all other ranks in its stage.

A step ends when the slowest rank is done, so only the gap to the next slowest counts. Ranks that
are suspected together are compared with the unsuspected ranks: no suspect hides another.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from stepwatch.signals.arrays import FloatCube

Suspects = np.ndarray[tuple[int, int, int], np.dtype[np.bool_]]


def step_costs(work: FloatCube, suspect: Suspects) -> FloatCube:
    """Return the seconds (steps, stages, ranks) that each rank holds its stage up.

    `work` is self time in all phases, `suspect` marks suspected ranks; both have shape (steps,
    stages, ranks). Suspects are compared with the other ranks if they are at most half the stage.

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
