"""What the agents of an attempt say of themselves: how often they flush, what they lost."""

from __future__ import annotations

import numpy as np

from stepwatch.collector.ingest import validation
from stepwatch.collector.state.tracker import Batches, JoinedTracker, TrackedAttempt
from stepwatch.signals.records import UNKNOWN, Kind

DEFAULT_FLUSH_SECONDS = 1.0
"""How often an agent flushes that does not say: every version that does not flushes so."""
UNKNOWN_NODE = "unknown"
"""Stands for the nodes of an attempt that never reported."""
_UNKNOWN_BYTES = UNKNOWN[Kind.AGENT]["ring_free_bytes"]
MAX_FLUSH_SECONDS = 3600.0
"""An agent that claims to flush less often is not believed: it would never be missed."""


class Agents(JoinedTracker):
    """`lost_records` were overwritten in a ring, or dropped from a spool, before they were sent."""

    kinds = frozenset({Kind.AGENT, Kind.GAP})

    def __init__(self) -> None:
        self.lost_records = 0
        self._flush_seconds: dict[str, float] = {}
        self.ring_free_bytes: dict[str, int] = {}
        """Room for rings on each node whose agent says it."""

    def fold(self, batches: Batches, attempt: TrackedAttempt) -> None:
        """Fold AGENT and GAP rows in; of the AGENT rows of a segment the last one counts."""
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
        """Seconds between two flushes of a node's agent.

        The default while it does not say; for a node that never reported, what the slowest of
        the others says, as one configuration starts them all.
        """
        if node == UNKNOWN_NODE:
            return max(self._flush_seconds.values(), default=DEFAULT_FLUSH_SECONDS)
        return self._flush_seconds.get(node, DEFAULT_FLUSH_SECONDS)
