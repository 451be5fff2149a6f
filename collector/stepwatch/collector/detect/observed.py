"""The ranks that can be compared: whose steps are observed, and that have peers in their stage."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from stepwatch.collector.detect.context import DetectionContext
from stepwatch.collector.state.trackers.steps.step_window import Window
from stepwatch.signals.arrays import Integers, Mask, SmallIntegers


def alone_in_stage(stage: SmallIntegers) -> Mask:
    """Which ranks (ranks,) are alone in their pipeline stage: `[0, 0, 1]` gives the last one."""
    return _alone_in_stage(stage.tobytes(), stage.dtype.str)


@lru_cache(maxsize=64)
def _alone_in_stage(stages: bytes, dtype: str) -> Mask:
    """The same of an array as bytes: the stages of a job stay as they are."""
    stage = np.frombuffer(stages, dtype=np.dtype(dtype))
    _, place, count = np.unique(stage, return_inverse=True, return_counts=True)
    is_single: Mask = count[place] == 1
    is_single.flags.writeable = False  # every caller gets this one
    return is_single


def compared_ranks(context: DetectionContext) -> Integers:
    """Numbers of the ranks to compare, rising: all, or those whose steps are observed with those of
    a peer of their stage.

    A rank whose peers are not observed is left out: what slows all of them down would look like its
    own fault.
    """
    world = len(context.window.stage)
    if not context.left_out:
        return np.arange(world)
    return np.array(sorted(context.with_observed_peers), dtype=np.int64)


def observed_ranks(context: DetectionContext) -> Integers:
    """Numbers of the ranks whose steps are observed, rising."""
    every = np.arange(len(context.window.stage))
    return every[~np.isin(every, list(context.left_out))] if context.left_out else every


def window_of(window: Window, ranks: Integers) -> Window:
    """`window` with the columns of `ranks` alone, in their order."""
    if len(ranks) == len(window.stage):
        return window
    planes = {name: window.planes[name][:, ranks] for name in window.planes}
    return window._replace(planes=planes, flags=window.flags[:, ranks], stage=window.stage[ranks])
