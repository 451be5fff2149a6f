"""The comparable ranks: their steps are observed, and they have peers in their stage."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from stepwatch.collector.detect.context import DetectionContext
from stepwatch.collector.state.evidence.step_window import Window
from stepwatch.signals.arrays import Integers, Mask, SmallIntegers


def alone_in_stage(stage: SmallIntegers) -> Mask:
    """Return which ranks (ranks,) are alone in their pipeline stage.

    Stages `[0, 0, 1]` -> only the last rank.
    """
    return _alone_in_stage(stage.tobytes(), stage.dtype.str)


@lru_cache(maxsize=64)
def _alone_in_stage(stages: bytes, dtype: str) -> Mask:
    """Return the same for an array as bytes; a job's stages never change."""
    stage = np.frombuffer(stages, dtype=np.dtype(dtype))
    _, place, count = np.unique(stage, return_inverse=True, return_counts=True)
    is_single: Mask = count[place] == 1
    is_single.flags.writeable = False  # every caller gets this one
    return is_single


def compared_ranks(context: DetectionContext) -> Integers:
    """Return the rank numbers to compare, rising: all, or observed ranks with observed peers.

    A rank without observed peers is left out: a slowdown of all of them would look like its own
    fault.
    """
    world = len(context.window.stage)
    if not context.left_out:
        return np.arange(world)
    return np.array(sorted(context.with_observed_peers), dtype=np.int64)


def observed_ranks(context: DetectionContext) -> Integers:
    """Return the numbers of observed ranks, rising."""
    every = np.arange(len(context.window.stage))
    return every[~np.isin(every, list(context.left_out))] if context.left_out else every


def window_of(window: Window, ranks: Integers) -> Window:
    """Return `window` with only the columns of `ranks`, in their order."""
    if len(ranks) == len(window.stage):
        return window
    planes = {name: window.planes[name][:, ranks] for name in window.planes}
    return window._replace(planes=planes, flags=window.flags[:, ranks], stage=window.stage[ranks])
