"""What agents found wrong with the nodes of one attempt: the newest report of each fact."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from stepwatch.collector.state.tracker import Batch, TrackedAttempt, Tracker
from stepwatch.signals.clock import NANOSECONDS
from stepwatch.signals.records import Kind, NodeFact

MAX_FACTS = 4096
"""Facts of all nodes of an attempt together; further ones are left out."""
MAX_ROWS = 256
"""Rows of one segment: an agent keeps no more facts than that."""
REPORTED_WITHIN_SECONDS = 90.0
"""Agents report a fact that lasts every 30 s: after three times that it is over, as it is when the
agent that knew of it was started anew."""
_KNOWN = frozenset(NodeFact)


class NodeFault(NamedTuple):
    """One fact of a node. `rank` is the rank it is about, -1 if none; `began_s` Unix seconds;
    `received_s` when the newest report came, on the collector's monotonic clock. `newest_ns` is
    when it happened last as far as that is known, monotonic on its node; 0 where it is not."""

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
        """Take NODE_FACT rows; those of a later version's facts are left out."""
        rows = batch.rows(Kind.NODE_FACT)
        for row in () if rows is None else rows[:MAX_ROWS]:
            self._take(row, batch, attempt)

    def __bool__(self) -> bool:
        return bool(self._of)

    def known(self, seen_s: Mapping[str, float]) -> list[NodeFault]:
        """All facts as they stand, `present` only while they are reported.

        `seen_s` is when each node was received from last, on the collector's monotonic clock.
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
