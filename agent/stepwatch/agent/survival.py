"""Errors of the operating system that the agent survives: counted, said once, and over some day.

A process that runs for a year meets a full disk, a full table of files, a node without memory. None
of them is a reason to end: what failed is tried again in the next round.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import threading
from collections.abc import Iterator

from stepwatch.signals.clock import NANOSECONDS, Clock

logger = logging.getLogger(__name__)

SHORTAGES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EINTR, errno.EAGAIN})
"""Errors that say nothing of a file: the process or the node lacks something for a moment."""
QUIET_SECONDS = 150.0
"""An error that has not come for so long is over; the next one is said again. What is tried least
often is tried every minute."""
OTHER = "other"


class SurvivedErrors:
    """Counts errors by their name, as errno(3) has it; several threads may count."""

    def __init__(self, clock: Clock) -> None:
        self.counts: dict[str, int] = {}
        """How often each came; replaced, never changed: another thread reads it."""
        self._clock = clock
        self._seen_ns: dict[str, int] = {}
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def survived(self, task: str) -> Iterator[None]:
        """Survive an error of the system in the work that `task` names, a verb and its object."""
        try:
            yield
        except (OSError, MemoryError) as error:
            if self.count(error):
                logger.warning("cannot %s (%s); trying again", task, error or name_of(error))

    def count(self, error: BaseException) -> bool:
        """Count an error; returns whether it is new, or comes again after a while."""
        name, now = name_of(error), self._clock.monotonic_ns()
        with self._lock:
            self.counts = {**self.counts, name: self.counts.get(name, 0) + 1}
            previous_ns, self._seen_ns[name] = self._seen_ns.get(name), now
        return previous_ns is None or now - previous_ns >= QUIET_SECONDS * NANOSECONDS


def name_of(error: BaseException) -> str:
    """The name of an error: `EMFILE`, `ENOSPC`, `ENOMEM`."""
    if isinstance(error, MemoryError):
        return "ENOMEM"
    number = error.errno if isinstance(error, OSError) else None
    return errno.errorcode.get(number or 0, OTHER)
