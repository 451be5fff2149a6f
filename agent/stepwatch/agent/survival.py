"""Operating system errors that the agent survives: counted, and logged once per outage.

A process that runs for a year meets full disks, full file tables and nodes without memory. It does
not end for them: a failed operation is tried again in the next round.
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
"""Errors unrelated to a file: the process or the node temporarily lacks a resource."""
QUIET_SECONDS = 150.0
"""An error is over after this many seconds without it; the next one is logged again. The rarest
operation is tried every minute.
"""
OTHER = "other"


class SurvivedErrors:
    """Count errors by errno(3) name; several threads may count."""

    def __init__(self, clock: Clock) -> None:
        self.counts: dict[str, int] = {}
        """Number of errors by name. Another thread reads it: replace, never mutate."""
        self._clock = clock
        self._seen_ns: dict[str, int] = {}
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def survived(self, task: str) -> Iterator[None]:
        """Survive a system error in the work that `task` names, a verb and its object."""
        try:
            yield
        except (OSError, MemoryError) as error:
            if self.count(error):
                logger.warning("cannot %s (%s); trying again", task, error or name_of(error))

    def count(self, error: BaseException) -> bool:
        """Count an error; return whether it is new or has returned after a pause."""
        name, now = name_of(error), self._clock.monotonic_ns()
        with self._lock:
            self.counts = {**self.counts, name: self.counts.get(name, 0) + 1}
            previous_ns, self._seen_ns[name] = self._seen_ns.get(name), now
        return previous_ns is None or now - previous_ns >= QUIET_SECONDS * NANOSECONDS


def name_of(error: BaseException) -> str:
    """Return an error's name: `EMFILE`, `ENOSPC`, `ENOMEM`."""
    if isinstance(error, MemoryError):
        return "ENOMEM"
    number = error.errno if isinstance(error, OSError) else None
    return errno.errorcode.get(number or 0, OTHER)
