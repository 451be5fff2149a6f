"""Limits on opened rings, per user and in total: users write rings, and some may be forged."""

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
"""In total, and per user: a node has some hundred cores, and each rank uses at least one."""
_DESCRIPTORS_PER_RING, _OTHER_DESCRIPTORS = 2, 200
"""Descriptors per ring (its own and its process's), and for the agent's other files."""
AGAIN_SECONDS = 10.0
"""Seconds until an unreadable ring is tried again; it may still be being written."""
UNREAD_REASONS = BEYOND, MALFORMED, UNREADABLE, ELSEWHERE = (
    "bound",
    "malformed",
    "unreadable",
    "elsewhere",
)
"""Reasons for an unread ring: over a limit, invalid content, refused by the system, or owned by
another node that shares the folder.
"""


class _Refused(NamedTuple):
    owner: int
    reason: str
    again_ns: int


def most_rings() -> int:
    """Return the number of rings that fit into the current descriptor limit."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(2, min(MOST_RINGS, (soft - _OTHER_DESCRIPTORS) // _DESCRIPTORS_PER_RING))


class RingBounds:
    """Decide which rings may be opened, and count the unread ones.

    No user gets more than half, so that forged rings cannot displace other users' rings.
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
        """Unread rings in the newest search, by reason; replaced, never mutated."""

    def begin(self, open_rings: Container[Path]) -> None:
        """Begin a search; `open_rings` are the open rings."""
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
        """Return whether the ring at `path` may be opened now."""
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
        """Leave an admitted ring at `path` alone for `AGAIN_SECONDS`."""
        again_ns = self._clock.monotonic_ns() + int(AGAIN_SECONDS * NANOSECONDS)
        owner = self._owners.pop(path)
        if reason == ELSEWHERE:  # other nodes' rings take no local place
            self._count[owner] -= 1
            self._elsewhere[owner] += 1
        self._refused[path] = _Refused(owner, reason, again_ns)
        self._visited.add(path)

    def share(self, limit: int, attempts: Counter[int], owner: int) -> int:
        """Return the records to read at once from one attempt; a user has twice `limit`.

        A user's attempts share that amount: more attempts bring no more records.
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
