"""Agents' reports about themselves: flush interval and lost records."""

from __future__ import annotations

import numpy as np

from stepwatch.collector.ingest import validation
from stepwatch.collector.state.tracker import Batches, JoinedTracker, TrackedAttempt
from stepwatch.signals.records import UNKNOWN, Kind

DEFAULT_FLUSH_SECONDS = 1.0
"""Flush interval for agents that report none: all such versions use it."""
UNKNOWN_NODE = "unknown"
"""Name for all nodes in an attempt that never reported."""
_UNKNOWN_BYTES = UNKNOWN[Kind.AGENT]["ring_free_bytes"]
MAX_FLUSH_SECONDS = 3600.0
"""Maximum accepted flush interval: an agent with a longer one would never be missed."""


MISSED_FLUSHES = 3
"""An agent that misses this many flushes is stale: one flush may be late, and one lost."""


class Agents(JoinedTracker):
    """Agent facts; `lost_records` were overwritten in a ring, or dropped from a spool.

    They were never sent.
    """

    kinds = frozenset({Kind.AGENT, Kind.GAP})

    def __init__(self) -> None:
        self.lost_records = 0
        self._flush_seconds: dict[str, float] = {}
        self.ring_free_bytes: dict[str, int] = {}
        """Room for rings on each node that reports it."""

    def fold(self, batches: Batches, attempt: TrackedAttempt) -> None:
        """Fold in AGENT and GAP rows; a segment's last AGENT row counts."""
        if (gaps := batches.rows(Kind.GAP)) is not None:
            self.lost_records += validation.lost_records(gaps)
        table = batches.table(Kind.AGENT)
        having = np.flatnonzero(table.counts)
        newest = table.rows[table.starts[having + 1] - 1]
        columns = newest["flush_seconds"].tolist(), newest["ring_free_bytes"].tolist()
        for number, seconds, free in zip(having.tolist(), *columns, strict=True):
            node = batches[number].node
            if node not in attempt.offsets:
                continue
            if 0.0 < seconds <= MAX_FLUSH_SECONDS:  # also refuses NaN, which is unknown
                self._flush_seconds[node] = seconds
            else:
                self._flush_seconds.pop(node, None)
            if free != _UNKNOWN_BYTES:
                self.ring_free_bytes[node] = free

    def flush_seconds(self, node: str) -> float:
        """Return the seconds between two flushes of a node's agent.

        The default if the agent reports none. A node that never reported gets the slowest other
        agent's interval, as one configuration starts them all.
        """
        if node == UNKNOWN_NODE:
            return max(self._flush_seconds.values(), default=DEFAULT_FLUSH_SECONDS)
        return self._flush_seconds.get(node, DEFAULT_FLUSH_SECONDS)

    def stale_after(self, node: str, least_seconds: float) -> float:
        """Return the seconds without a report that make a node stale: several missed flushes."""
        return max(least_seconds, MISSED_FLUSHES * self.flush_seconds(node))
