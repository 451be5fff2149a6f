"""The agent's report about its node, with or without a job."""

from __future__ import annotations

import logging
from collections.abc import Callable

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

FIRST_SECONDS = 10.0
"""Seconds from the agent's start to its first report: the probes' first reads take a while."""
MOST_ROWS = 1024
"""Maximum number of facts that wait for an unwritable spool; the oldest are dropped first."""
_KEY = AttemptKey(NODE_STREAM, 0)


class NodeReport:
    """Spool a node segment when a fact begins, changes or ends, and periodically without one.

    A report without a fact means that the agent runs and found nothing new. It is not spooled while
    the collector is away: an old one is worthless.
    """

    def __init__(self, spool: Spool) -> None:
        self._spool = spool
        self._waiting: Rows = np.zeros(0, dtype=DTYPES[Kind.NODE_FACT])
        self._reported_ns: int | None = None

    def update(
        self,
        facts: Rows,
        agent_row: Callable[[], Rows],
        now: ClockPair,
        *,
        collector_away: bool = False,
    ) -> None:
        """Report NODE_FACT rows with an `agent_row`, if there are any or a report is due.

        Rows that cannot be spooled join the next report.
        """
        if self._reported_ns is None:
            earlier_ns = (NODE_REPORT_SECONDS - FIRST_SECONDS) * NANOSECONDS
            self._reported_ns = now.monotonic_ns - round(earlier_ns)
        if len(facts):
            self._waiting = np.concatenate([self._waiting, facts])[-MOST_ROWS:]
        is_due = now.monotonic_ns - self._reported_ns >= NODE_REPORT_SECONDS * NANOSECONDS
        if not len(self._waiting) and (collector_away or not is_due):
            return
        tables: Tables = {Kind.AGENT: agent_row()}
        if len(self._waiting):
            tables[Kind.NODE_FACT] = self._waiting
        try:
            self._spool.put(_KEY, now, tables)
        except (OSError, SegmentError) as error:
            logger.warning("cannot spool the node's faults (%s); trying again", error)
            return
        self._waiting = self._waiting[:0]
        self._reported_ns = now.monotonic_ns
