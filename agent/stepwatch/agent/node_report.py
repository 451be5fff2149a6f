"""What the agent reports of its node itself, whether or not a job runs there."""

from __future__ import annotations

import logging

import numpy as np

from stepwatch.agent.keys import AttemptKey, Tables
from stepwatch.agent.spool import Spool
from stepwatch.signals.clock import NANOSECONDS, ClockPair
from stepwatch.signals.errors import SegmentError
from stepwatch.signals.pacing import NODE_REPORT_SECONDS
from stepwatch.signals.places import NODE_STREAM
from stepwatch.signals.records import DTYPES, Kind
from stepwatch.signals.wire import Rows

logger = logging.getLogger(__name__)

MOST_ROWS = 1024
"""Facts that wait for a spool that cannot be written; the oldest go first."""
_KEY = AttemptKey(NODE_STREAM, 0)


class NodeReport:
    """Spools a segment of the node when a fact begins, changes or ends, and now and then without.

    A report with no fact says that the agent runs and found nothing new. None of these is spooled
    while the collector does not answer: an old one says nothing. Facts wait for a collector that
    reads reports of nodes: one of an earlier release refuses them for good.
    """

    def __init__(self, spool: Spool) -> None:
        self._spool = spool
        self._waiting: Rows = np.zeros(0, dtype=DTYPES[Kind.NODE_FACT])
        self._reported_ns: int | None = None

    def update(
        self,
        facts: Rows,
        agent_row: Rows,
        now: ClockPair,
        *,
        collector_away: bool = False,
        is_read: bool | None = None,
    ) -> None:
        """Report NODE_FACT rows, with `agent_row`, if it is time or there are any.

        `is_read` is whether the collector reads such reports, None where it has not said so yet.
        What cannot be spooled goes into the next report.
        """
        if self._reported_ns is None:
            self._reported_ns = now.monotonic_ns  # the first reads of the probes take a while
        if len(facts):
            self._waiting = np.concatenate([self._waiting, facts])[-MOST_ROWS:]
        if is_read is False:
            return
        is_due = now.monotonic_ns - self._reported_ns >= NODE_REPORT_SECONDS * NANOSECONDS
        if not len(self._waiting) and (collector_away or not is_due):
            return
        tables: Tables = {Kind.AGENT: agent_row}
        if len(self._waiting):
            tables[Kind.NODE_FACT] = self._waiting
        try:
            self._spool.put(_KEY, now, tables)
        except (OSError, SegmentError) as error:
            logger.warning("cannot spool what is wrong with the node (%s); trying again", error)
            return
        self._waiting = self._waiting[:0]
        self._reported_ns = now.monotonic_ns
