"""Hands a collector's surplus jobs to later collectors, a few a minute.

Each is saved first, so that the next holder replays only newer segments. The smallest go first:
they cost the least to restore.
"""

from __future__ import annotations

import logging

from stepwatch.collector.runtime.snapshots import Snapshotter
from stepwatch.collector.runtime.tenancy import Tenancy
from stepwatch.collector.state.live import LiveState
from stepwatch.signals.clock import NANOSECONDS, Clock

logger = logging.getLogger(__name__)

EVERY_SECONDS = 60.0
"""Minimum duration of a surplus before a hand-over, and the interval between hand-overs."""
AT_ONCE = 3
"""Number of jobs per hand-over."""


class Surplus:
    """Decides when to release jobs, and which; used by the evaluation thread."""

    def __init__(
        self, state: LiveState, tenancy: Tenancy, snapshotter: Snapshotter, *, clock: Clock
    ) -> None:
        self._state = state
        self._tenancy = tenancy
        self._snapshotter = snapshotter
        self._clock = clock
        self._since: float | None = None

    def give_back(self) -> None:
        """Release a few jobs, if the surplus has lasted long enough.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: the database is unavailable; the release is retried
                later.
        """
        now = self._clock.monotonic_ns() / NANOSECONDS
        if not self._tenancy.surplus:
            self._since = None
            return
        self._since = now if self._since is None else self._since
        if now - self._since < EVERY_SECONDS:
            return
        self._since = now
        held_jobs = [job for job in self._state.jobs() if self._tenancy.holds(job)]
        few = sorted(held_jobs, key=lambda job: job.cells)[: min(self._tenancy.surplus, AT_ONCE)]
        names = [job.name for job in few if self._snapshotter.save(job.name)]
        self._tenancy.give_back(names)
        for name in names:
            self._state.release(name)
        if names:
            logger.info("gives %d jobs to collectors that have fewer", len(names))
