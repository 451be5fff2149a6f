"""Topics of an event stream: the whole fleet, or single jobs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

FLEET, JOB = "fleet", "job:"
MOST_TOPICS = 8
"""Maximum number of topics of a stream: a page compares at most eight runs."""
MOST_CHARACTERS = 1024
"""Maximum length of a topic."""


class Topics(NamedTuple):
    """Whether all list entries are wanted, and the jobs to follow."""

    fleet: bool = False
    jobs: frozenset[str] = frozenset()


def topics_of(words: list[str]) -> Topics:
    """Return the topics that a client asks for.

    Raises:
        ValueError: there are none, too many, or an unknown one.
    """
    if not 0 < len(words) <= MOST_TOPICS:
        raise ValueError(f"give 1 to {MOST_TOPICS} topics: topic=fleet, or topic=job:NAME")
    for word in words:
        is_job = word.startswith(JOB) and len(JOB) < len(word) <= MOST_CHARACTERS
        if word != FLEET and not is_job:
            raise ValueError("a topic is fleet, or job:NAME")
    jobs = (word.removeprefix(JOB) for word in words if word != FLEET)
    return Topics(FLEET in words, frozenset(jobs))


def joined(topics: Iterable[Topics]) -> Topics:
    """Return the topics of several streams as one."""
    wanted = list(topics)
    jobs = frozenset[str]().union(*(item.jobs for item in wanted))
    return Topics(any(item.fleet for item in wanted), jobs)
