"""The exchange of a collector, a node and a rank about a profile."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import NamedTuple

from stepwatch.signals.places import is_name

ASK_HANDLER = "stepwatch_profile"
"""The worker server's handler for a request with `name`, `first`, `steps` and `seconds`."""
RESULT_HANDLER = "stepwatch_profile_result"
"""The handler that returns the trace of `name`, a gzip file, or its state as JSON."""
FETCHED_HANDLER = "stepwatch_profile_fetched"
"""The handler that releases the trace of `name`."""


class ProfileState(StrEnum):
    """The state of a requested profile in its rank."""

    NONE = "none"
    """The rank knows no such request, or its trace is released."""
    PENDING = "pending"
    """The first step to profile has not begun."""
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    REFUSED = "refused"


MOST_STEPS = 10
"""Most steps of one profile: profiled steps are slower."""
MAX_TRACE_BYTES = 64 << 20
"""Maximum size of a packed trace on its way; the hooks make none above 48 MiB."""
MAX_REASON = 200
"""Maximum characters of the reason why a rank has no trace."""
MOST_REQUESTS = 16
"""Most open requests in one answer to a node."""
MOST_SECONDS = 3600
"""Longest time from a request to its first profiled step, in seconds."""
_ID = re.compile(r"[0-9a-f]{1,32}", re.ASCII)
_MOST_RANKS = 2
_MAX_NUMBER = 0xFFFFFFFF


class NodeRequest(NamedTuple):
    """A collector's request to a node: profile `ranks` for `steps` steps from step `first`.

    `ranks` are those on the node, `seconds` is the time until the request expires.
    """

    id: str
    job: str
    attempt: int
    ranks: tuple[int, ...]
    first: int
    steps: int
    seconds: float

    @classmethod
    def parse(cls, document: object) -> NodeRequest | None:
        """Return the request in a JSON document; None if a field is missing or out of bounds."""
        if not isinstance(document, dict):
            return None
        identity, job, ranks = (document.get(key) for key in ("id", "job", "ranks"))
        attempt, first, steps = (document.get(key, -1) for key in ("attempt", "first", "steps"))
        seconds = document.get("seconds")
        if not isinstance(identity, str) or not _ID.fullmatch(identity):
            return None
        if not isinstance(job, str) or not is_name(job):
            return None
        if not isinstance(ranks, list) or not 1 <= len(ranks) <= _MOST_RANKS:
            return None
        if not all(map(_is_whole, (attempt, first, steps, *ranks))):
            return None
        if not isinstance(seconds, int | float) or not 0 < seconds <= MOST_SECONDS:
            return None
        if not 1 <= steps <= MOST_STEPS:
            return None
        return cls(identity, job, attempt, tuple(ranks), first, steps, float(seconds))


def _is_whole(value: object) -> bool:
    return type(value) is int and 0 <= value <= _MAX_NUMBER
