"""What the agents of an attempt say of themselves: how often they flush, what they lost."""

from __future__ import annotations

from stepwatch.collector.ingest import validation
from stepwatch.collector.state.tracker import Batch, TrackedAttempt, Tracker
from stepwatch.signals.records import Kind

DEFAULT_FLUSH_SECONDS = 1.0
"""How often an agent flushes that does not say: every version that does not flushes so."""
UNKNOWN_NODE = "unknown"
"""Stands for the nodes of an attempt that never reported."""
MAX_FLUSH_SECONDS = 3600.0
"""An agent that claims to flush less often is not believed: it would never be missed."""


class Agents(Tracker):
    """`lost_records` were overwritten in a ring, or dropped from a spool, before they were sent."""

    kinds = frozenset({Kind.AGENT, Kind.GAP})

    def __init__(self) -> None:
        self.lost_records = 0
        self._flush_seconds: dict[str, float] = {}

    def apply(self, batch: Batch, attempt: TrackedAttempt) -> None:
        """Apply AGENT and GAP rows."""
        gaps, said = batch.rows(Kind.GAP), batch.rows(Kind.AGENT)
        if gaps is not None:
            self.lost_records += validation.lost_records(gaps)
        if said is None or batch.node not in attempt.offsets:
            return
        seconds = float(said["flush_seconds"][-1])
        if 0.0 < seconds <= MAX_FLUSH_SECONDS:  # also refuses NaN, which is unknown
            self._flush_seconds[batch.node] = seconds
        else:
            self._flush_seconds.pop(batch.node, None)

    def flush_seconds(self, node: str) -> float:
        """Seconds between two flushes of a node's agent.

        The default while it does not say; for a node that never reported, what the slowest of
        the others says, as one configuration starts them all.
        """
        if node == UNKNOWN_NODE:
            return max(self._flush_seconds.values(), default=DEFAULT_FLUSH_SECONDS)
        return self._flush_seconds.get(node, DEFAULT_FLUSH_SECONDS)
