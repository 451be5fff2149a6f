"""Rings of ranks that have ended: no descriptor is kept of them, and in the end no ring.

A ring goes a minute after its owner has ended for certain, if the collector has its records and no
torchrun can start the rank again: the next attempt finds its job's name by the rings of the one
before. A copy stays in the spool's folder. What cannot be removed is looked at less often after a
while; a ring that is written again, by a container that was paused, is followed again.
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
"""A ring stays for so long, as the launcher and people look at it when its rank has ended, and is
looked at in every round. A ring that cannot go then is looked at as rarely."""
MOST_WAITING = 256
"""Rings that wait, for their time, for the collector or for a copy, 128 MiB by default: of more the
oldest go without, as the spool has their records."""
MOST_SECONDS = 0.1
"""Processor time of one round of looks: a tenth of a flush."""
MOST_PRESSED = 512
"""Rings beyond `MOST_WAITING` that go in a round however long it takes, or memory would fill."""


@dataclass
class EndedRing:
    """A ring of which everything was read and spooled up to `next_seq`, and the name under which
    its job was sent."""

    path: Path
    inode: int
    ring_id: int
    next_seq: int
    job: str
    ended_ns: int
    due_ns: int
    copied: bool = False


class EndedRings:
    """Rings below `root` that are not followed any more, until they are gone.

    `acknowledged` says up to which record of a ring the collector has everything, `localise` reads
    who writes a ring as this agent counts processes, `forget_cursor` gets the number of each ring
    that is gone.
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
        """Take a ring over; the reader is closed."""
        now = self._clock.monotonic_ns()
        ring = EndedRing(
            reader.path, reader.inode, reader.identity.ring_id, next_seq, job, now, now
        )
        self._rings[reader.path] = ring
        reader.close()

    def holds(self, path: Path, inode: int) -> bool:
        """Whether that ring is one of these; one that was replaced since is none any more."""
        ring = self._rings.get(path)
        if ring is not None and ring.inode != inode:
            del self._rings[path]
            return False
        return ring is not None

    def tidy(self) -> Iterator[tuple[RingReader, int]]:
        """Look at rings that are due: copy and remove those that can go.

        Yields those that are written again, with the number of the next record to read.
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
        # The next search finds the other one; file systems on disk give inodes out again.
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
