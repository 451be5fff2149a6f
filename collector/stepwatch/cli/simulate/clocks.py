"""Clocks of the nodes: each is off by some milliseconds and drifts by some ppm."""

from __future__ import annotations

import numpy as np

from stepwatch.signals.arrays import Integers
from stepwatch.signals.clock import NANOSECONDS

OFFSET_NS = 2e6
"""Standard deviation of the wall clocks: the error that NTP leaves in a data centre."""
DRIFT_PPB = 8e3
"""Standard deviation of the clock rates, in parts per billion: 8 ppm, typical for a crystal."""
LONGEST_UP_NS = 40 * 86_400 * NANOSECONDS


class NodeClocks:
    """The clocks of `nodes` nodes; true time is nanoseconds since the run began.

    Both clocks on a node have one crystal, so they drift alike, and a segment's clock pair joins
    them as well as on a real node.
    """

    def __init__(self, nodes: int, epoch_ns: int, noise: np.random.Generator) -> None:
        self._booted = noise.integers(3600 * NANOSECONDS, LONGEST_UP_NS, nodes)
        self._wall = epoch_ns + noise.normal(0.0, OFFSET_NS, nodes).astype(np.int64)
        self._ppb = noise.normal(0.0, DRIFT_PPB, nodes).astype(np.int64)

    def monotonic(self, nodes: Integers, true_ns: Integers) -> Integers:
        """Return monotonic nanoseconds on each node's clock; shapes broadcast."""
        return self._booted[nodes] + self._elapsed(nodes, true_ns)

    def wall(self, nodes: Integers, true_ns: Integers) -> Integers:
        """Return wall nanoseconds on each node's clock; shapes broadcast."""
        return self._wall[nodes] + self._elapsed(nodes, true_ns)

    def _elapsed(self, nodes: Integers, true_ns: Integers) -> Integers:
        # Two divisions: a day in nanoseconds times a drift in ppb overflows 64 bits.
        drift: Integers = true_ns // 1000 * self._ppb[nodes] // 1_000_000
        return true_ns + drift
