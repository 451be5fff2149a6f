"""Rings whose ranks ended: they are closed at once and removed later.

A ring is removed a minute after its owner surely ended, if the collector has its records and no
torchrun can restart the rank: the next attempt finds its job name in the previous attempt's rings.
A copy stays in the spool folder. A ring that cannot be removed is checked less often after a while.
A ring that is written again, by a container that was paused, is followed again.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from stepwatch.agent.survival import SurvivedErrors
from stepwatch.signals.blackbox import RingReader, launcher_lives, owner_ended
from stepwatch.signals.clock import NANOSECONDS, Clock
from stepwatch.signals.errors import RingError

from .copies import RingCopies
from .removal import remove_ring

logger = logging.getLogger(__name__)

KEPT_SECONDS = 60.0
"""Minimum age in seconds: the launcher and people look at an ended rank's ring. Until then it is
checked in every round, later once per interval.
"""
MOST_WAITING = 256
"""Maximum number of waiting rings, 128 MiB by default. Beyond it the oldest are removed without
waiting for their time, the collector or a copy, since the spool has their records.
"""
MOST_SECONDS = 0.1
"""CPU seconds per round: a tenth of a flush."""
MOST_PRESSED = 512
"""Rings beyond `MOST_WAITING` that a round removes regardless of its time, else memory would
fill.
"""


@dataclass
class EndedRing:
    """A ring that was read and spooled up to `next_seq`, with its job's sent name."""

    path: Path
    inode: int
    ring_id: int
    next_seq: int
    job: str
    ended_ns: int
    due_ns: int
    copied: bool = False


class EndedRings:
    """Rings below `root` that are no longer followed, until they are gone.

    `acknowledged` returns up to which record the collector has a ring. `localise` reads a ring's
    writer with the agent's process ids. `forget_cursor` receives each removed ring's number.
    """

    def __init__(
        self,
        root: Path,
        copies: RingCopies,
        clock: Clock,
        acknowledged: Callable[[int], int],
        forget_cursor: Callable[[int, int], None],
        localise: Callable[[RingReader], object],
        errors: SurvivedErrors,
    ) -> None:
        self.copies = copies
        self.removed = 0
        self._root, self._clock, self._errors = root, clock, errors
        self._acknowledged, self._forget_cursor = acknowledged, forget_cursor
        self._localise = localise
        self._rings: dict[Path, EndedRing] = {}
        self._logged: set[str] = set()

    def __len__(self) -> int:
        return len(self._rings)

    def add(self, reader: RingReader, next_seq: int, job: str) -> None:
        """Take over a ring and close its reader."""
        now = self._clock.monotonic_ns()
        ring = EndedRing(
            reader.path, reader.inode, reader.identity.ring_id, next_seq, job, now, now
        )
        self._rings[reader.path] = ring
        reader.close()

    def holds(self, path: Path, inode: int) -> bool:
        """Return whether that ring is listed; a replaced ring is dropped."""
        ring = self._rings.get(path)
        if ring is not None and ring.inode != inode:
            del self._rings[path]
            return False
        return ring is not None

    def tidy(self) -> Iterator[tuple[RingReader, int]]:
        """Check due rings: copy and remove those that are ready.

        Yields rings that are written again, with the next record number to read.
        """
        began = time.thread_time()
        excess = len(self._rings) - MOST_WAITING
        now = self._clock.monotonic_ns()
        for number, ring in enumerate(list(self._rings.values())):
            pressed = number < min(excess, MOST_PRESSED)
            if time.thread_time() - began > MOST_SECONDS and not pressed:
                return
            if ring.due_ns > now:
                continue
            reader = self._opened(ring)
            if reader is None:
                continue
            if reader.head >= ring.next_seq:
                del self._rings[ring.path]
                yield reader, ring.next_seq
                continue
            self._settle(ring, reader, now, pressed=pressed)
            reader.close()

    def _settle(self, ring: EndedRing, reader: RingReader, now: int, *, pressed: bool) -> None:
        self._localise(reader)
        sent = self._acknowledged(ring.ring_id) >= ring.next_seq
        old = now - ring.ended_ns >= KEPT_SECONDS * NANOSECONDS
        ready = pressed or (sent and old and not launcher_lives(reader.identity))
        if ready and owner_ended(reader, now) and self._removed(ring, reader, pressed):
            self._forget(ring)
            self.removed += 1
        elif old:
            ring.due_ns = now + round(KEPT_SECONDS * NANOSECONDS)

    def _removed(self, ring: EndedRing, reader: RingReader, pressed: bool) -> bool:
        if not ring.copied:
            with self._errors.survived("copy a ring of a rank that ended"):
                self.copies.keep(reader, ring.job)
                ring.copied = True
        if not ring.copied and not pressed:
            return False
        try:
            return remove_ring(self._root, ring.path, ring.inode)
        except OSError as error:
            self._tell(ring.path.parents[2], error)
            return False

    def _opened(self, ring: EndedRing) -> RingReader | None:
        try:
            reader = RingReader(ring.path, below=self._root)
        except RingError as error:
            if isinstance(error.__cause__, FileNotFoundError):
                self._forget(ring)
            return None
        # The next search finds the new ring; disk file systems reuse inodes.
        if (reader.inode, reader.identity.ring_id) != (ring.inode, ring.ring_id):
            reader.close()
            self._forget(ring)
            return None
        return reader

    def _forget(self, ring: EndedRing) -> None:
        self._rings.pop(ring.path, None)
        self._forget_cursor(ring.ring_id, ring.next_seq)

    def _tell(self, folder: Path, error: OSError) -> None:
        self._errors.count(error)
        message = f"cannot remove rings of ended ranks in {folder}: {error.strerror}"
        if message not in self._logged and len(self._logged) < 100:
            self._logged.add(message)
            logger.warning(
                "%s; each holds 512 KiB of memory: run the agent as their user, or as root with "
                "CAP_DAC_OVERRIDE",
                message,
            )
