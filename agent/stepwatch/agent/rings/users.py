"""Jobs of one name that belong to different users of the node are different jobs."""

from __future__ import annotations

import logging

from stepwatch.signals.places import NAME_LIMIT

logger = logging.getLogger(__name__)

_MOST_LOGGED = 1000
"""Names that the log says once; users make as many as they like."""
MOST_NAMES = 1024
"""Names of ended jobs whose user is remembered."""


class UserJobs:
    """Which user has which job name: the first that an agent meets keeps it while it looks.

    Hooks tell apart the launches of one user; they do not see the rings of another.
    """

    def __init__(self) -> None:
        self._owner: dict[str, int] = {}
        self._logged: set[str] = set()

    def name_of(self, job: str, owner: int) -> str:
        """The name under which `job` of user id `owner` is sent."""
        if self._owner.setdefault(job, owner) == owner:
            return job
        suffix = f"-uid-{owner}"
        name = f"{job[: NAME_LIMIT - len(suffix)]}{suffix}"
        if name not in self._logged and len(self._logged) < _MOST_LOGGED:
            self._logged.add(name)
            logger.warning("two users train as job %s: that of user %s is %s", job, owner, name)
        return name

    def keep(self, jobs: set[str]) -> None:
        """Forget names that no ring has any more, the oldest of them beyond `MOST_NAMES`.

        An ended job keeps its name for a while: its ring is gone, its records are not.
        """
        ended = [job for job in self._owner if job not in jobs]
        for job in ended[: max(0, len(ended) - MOST_NAMES)]:
            del self._owner[job]
        if len(self._logged) > MOST_NAMES:
            self._logged.clear()
