"""How many rings an agent opens, of each user and in all: users write them, and some are forged."""

from __future__ import annotations

import logging
import os
import resource
from collections import Counter
from collections.abc import Container
from pathlib import Path
from typing import NamedTuple

from stepwatch.signals.clock import NANOSECONDS, Clock, SystemClock

logger = logging.getLogger(__name__)

MOST_RINGS, MOST_OF_USER = 2048, 512
"""In all, and of one user: a node has some hundred cores, and each rank has one at least."""
_DESCRIPTORS_PER_RING, _OTHER_DESCRIPTORS = 2, 200
"""The ring's and that of its process; for all else that an agent opens."""
AGAIN_SECONDS = 10.0
"""A ring that could not be read is tried again after this; it may be one that is being written."""
UNREAD_REASONS = BEYOND, MALFORMED, UNREADABLE, ELSEWHERE = (
    "bound",
    "malformed",
    "unreadable",
    "elsewhere",
)
"""Why a ring is not read: there are too many, its content is none, the system refuses, or it is of
another node that shares the folder."""


class _Refused(NamedTuple):
    owner: int
    reason: str
    again_ns: int


def most_rings() -> int:
    """Rings that this process can open, as its limit of descriptors is now."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(2, min(MOST_RINGS, (soft - _OTHER_DESCRIPTORS) // _DESCRIPTORS_PER_RING))


class RingBounds:
    """Says which rings may be opened, and counts those that are not read.

    No user has more than half of all, so that one who forges rings takes no other's place.
    """

    def __init__(self, most: int | None = None, clock: Clock | None = None) -> None:
        self._most = most_rings() if most is None else most
        self._of_user = min(MOST_OF_USER, max(1, self._most // 2))
        self._clock = clock or SystemClock()
        self._owners: dict[Path, int] = {}
        self._refused: dict[Path, _Refused] = {}
        self._count: Counter[int] = Counter()
        self._elsewhere: Counter[int] = Counter()
        self._visited: set[Path] = set()
        self._beyond = 0
        self._reported: set[int] = set()
        self.unread: Counter[str] = Counter()
        """Rings that the newest search did not read, by reason; replaced as a whole."""

    def begin(self, open_rings: Container[Path]) -> None:
        """Begin a search; `open_rings` are the rings that are open."""
        self._owners = {path: owner for path, owner in self._owners.items() if path in open_rings}
        self._refused = {path: it for path, it in self._refused.items() if path in self._visited}
        self._count = Counter(self._owners.values())
        refused = self._refused.values()
        self._count.update(it.owner for it in refused if it.reason != ELSEWHERE)
        self._elsewhere = Counter(it.owner for it in refused if it.reason == ELSEWHERE)
        self.unread = Counter(it.reason for it in self._refused.values())
        self.unread[BEYOND] = self._beyond
        self._visited.clear()
        self._beyond = 0

    def admits(self, path: Path) -> bool:
        """Whether the ring at `path` may be opened now."""
        refused = self._refused.get(path)
        if refused is not None:
            self._visited.add(path)
            if self._clock.monotonic_ns() < refused.again_ns:
                return False
            owner = refused.owner
            del self._refused[path]
        else:
            try:
                owner = os.lstat(path).st_uid
            except OSError:  # removed meanwhile
                return False
            full = len(self._owners) >= self._most or self._count[owner] >= self._of_user
            if full or self._elsewhere[owner] >= MOST_RINGS:
                self._refuse_more(owner)
                return False
            self._count[owner] += 1
        self._owners[path] = owner
        return True

    def refuse(self, path: Path, reason: str) -> None:
        """Leave the ring at `path`, which was admitted, alone for a while."""
        again_ns = self._clock.monotonic_ns() + int(AGAIN_SECONDS * NANOSECONDS)
        owner = self._owners.pop(path)
        if reason == ELSEWHERE:  # rings of other nodes take no place of those of this one
            self._count[owner] -= 1
            self._elsewhere[owner] += 1
        self._refused[path] = _Refused(owner, reason, again_ns)
        self._visited.add(path)

    def share(self, limit: int, attempts: Counter[int], owner: int) -> int:
        """Records of one attempt of `owner` that are read at once, of `limit` a user has twice.

        Attempts of one user share them: more attempts bring no more records.
        """
        return max(1, min(limit, 2 * limit // max(1, attempts[owner])))

    def _refuse_more(self, owner: int) -> None:
        self._beyond += 1
        if owner not in self._reported and len(self._reported) < _MOST_REPORTED:
            self._reported.add(owner)
            logger.warning(
                "user %d has more rings than this agent opens (%d of a user, %d in all); some are "
                "not read: remove rings of ended jobs, or raise the agent's limit of open files",
                owner,
                self._of_user,
                self._most,
            )


_MOST_REPORTED = 1000
