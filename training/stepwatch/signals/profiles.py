"""The exchange between a rank and a caller that asks it for a profile."""

from __future__ import annotations

from enum import StrEnum

ASK_HANDLER = "stepwatch_profile"
"""The worker server's handler for a request with `name`, `first` and `steps`."""
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
