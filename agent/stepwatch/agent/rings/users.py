"""Distinguishes jobs with one name that belong to different users on the node."""

from __future__ import annotations

import logging

from stepwatch.signals.places import NAME_LIMIT

logger = logging.getLogger(__name__)

_MOST_LOGGED = 1000
"""Maximum number of names logged; users may create any number."""
MOST_NAMES = 1024
"""Maximum number of ended jobs whose user is remembered."""


class UserJobs:
    """The owner of each job name: the first user seen keeps it while the agent runs.

    Hooks distinguish one user's launches; they do not see other users' rings.
    """

    def __init__(self) -> None:
        self._owner: dict[str, int] = {}
        self._logged: set[str] = set()

    def name_of(self, job: str, owner: int) -> str:
        """Return the sent name for user id `owner`'s `job`."""
        if self._owner.setdefault(job, owner) == owner:
            return job
        suffix = f"-uid-{owner}"
        name = f"{job[: NAME_LIMIT - len(suffix)]}{suffix}"
        if name not in self._logged and len(self._logged) < _MOST_LOGGED:
            self._logged.add(name)
            logger.warning("two users train as job %s: that of user %s is %s", job, owner, name)
        return name

    def keep(self, jobs: set[str]) -> None:
        """Forget names without a ring, the oldest beyond `MOST_NAMES`.

        An ended job keeps its name for a while: its ring is gone, its records are not.
        """
        ended = [job for job in self._owner if job not in jobs]
        for job in ended[: max(0, len(ended) - MOST_NAMES)]:
            del self._owner[job]
        if len(self._logged) > MOST_NAMES:
            self._logged.clear()
