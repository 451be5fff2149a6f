"""Faults that agents found on an attempt's nodes: each fact's newest report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from stepwatch.collector.state.tracker import Batch, TrackedAttempt, Tracker
from stepwatch.signals.clock import NANOSECONDS
from stepwatch.signals.records import Kind, NodeFact

MAX_FACTS = 4096
"""Maximum number of facts over all nodes; further ones are ignored."""
MAX_ROWS = 256
"""Maximum rows per segment: an agent keeps no more facts."""
REPORTED_WITHIN_SECONDS = 90.0
"""Seconds after which an unreported fact is over.

Agents report a lasting fact every 30 s, so three reports are missing. An agent that was restarted
no longer reports it.
"""
_KNOWN = frozenset(NodeFact)


class NodeFault(NamedTuple):
    """One fact about a node.

    `rank` is the affected rank, -1 if none, `began_s` in Unix seconds, `received_s` the newest
    report's arrival on the collector's monotonic clock. `newest_ns` is the last known occurrence,
    monotonic on its node; 0 if unknown.
    """

    node: str
    fact: NodeFact
    subject: str
    code: int
    rank: int
    times: int
    present: bool
    text: str
    began_s: float
    received_s: float
    newest_ns: int = 0


class NodeFaults(Tracker):
    """Newest report by node, fact, subject and code."""

    kinds = frozenset({Kind.NODE_FACT})

    def __init__(self) -> None:
        self._of: dict[tuple[str, int, str, int], NodeFault] = {}

    def apply(self, batch: Batch, attempt: TrackedAttempt) -> None:
        """Apply NODE_FACT rows; a later version's facts are ignored."""
        rows = batch.rows(Kind.NODE_FACT)
        for row in () if rows is None else rows[:MAX_ROWS]:
            self._take(row, batch, attempt)

    def __bool__(self) -> bool:
        return bool(self._of)

    def faults(self, seen_s: Mapping[str, float]) -> list[NodeFault]:
        """Return all facts, `present` only while they are reported.

        `seen_s` is each node's newest arrival, on the collector's monotonic clock.
        """
        return [
            fault._replace(present=fault.present and not _is_old(fault, seen_s))
            for fault in self._of.values()
        ]

    def _take(self, row: np.void, batch: Batch, attempt: TrackedAttempt) -> None:
        number, subject, code = int(row["fact"]), _text(row["subject"]), int(row["code"])
        if number not in _KNOWN or int(row["present"]) not in (0, 1):
            return
        key = batch.node, number, subject, code
        if key not in self._of and (len(self._of) >= MAX_FACTS or not int(row["present"])):
            return
        rank = int(row["rank"])
        reported_ns, times = int(row["time_ns"]), int(row["count"])
        began_ns = min(int(row["began_ns"]), reported_ns)
        previous = self._of.get(key)
        repeated = previous is not None and times > previous.times
        self._of[key] = NodeFault(
            batch.node,
            NodeFact(number),
            subject,
            code,
            rank if 0 <= rank < attempt.world else -1,
            times,
            bool(row["present"]),
            _text(row["text"]),
            (began_ns + batch.to_wall_ns) / NANOSECONDS,
            batch.received.monotonic_s,
            max(began_ns, reported_ns if repeated else 0, previous.newest_ns if previous else 0),
        )


def _is_old(fault: NodeFault, seen_s: Mapping[str, float]) -> bool:
    node_seen_s = seen_s.get(fault.node)
    return node_seen_s is not None and node_seen_s - fault.received_s > REPORTED_WITHIN_SECONDS


def _text(value: bytes) -> str:
    return bytes(value).decode("utf-8", "replace")
