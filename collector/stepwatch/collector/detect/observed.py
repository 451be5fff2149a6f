"""The ranks that can be compared while nobody observes some of the others."""

from __future__ import annotations

import numpy as np

from stepwatch.collector.detect.context import DetectionContext
from stepwatch.collector.state.trackers.step_window import Window
from stepwatch.signals.arrays import Integers


def compared_ranks(context: DetectionContext) -> Integers:
    """Numbers of the ranks to compare, rising: all, or those observed with a peer of their stage.

    A rank whose peers are not observed is left out: what slows all of them down would look like its
    own fault.
    """
    world = len(context.window.stage)
    if not context.unobserved:
        return np.arange(world)
    return np.array(sorted(context.with_observed_peers), dtype=np.int64)


def observed_ranks(context: DetectionContext) -> Integers:
    """Numbers of the ranks that are observed, rising."""
    every = np.arange(len(context.window.stage))
    return every[~np.isin(every, list(context.unobserved))] if context.unobserved else every


def window_of(window: Window, ranks: Integers) -> Window:
    """`window` with the columns of `ranks` alone, in their order."""
    if len(ranks) == len(window.stage):
        return window
    planes = {name: window.planes[name][:, ranks] for name in window.planes}
    return window._replace(planes=planes, flags=window.flags[:, ranks], stage=window.stage[ranks])
