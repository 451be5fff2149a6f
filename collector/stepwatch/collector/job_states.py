"""The words for the state of a job, the same in the API, the page, every verb and the metrics."""

from __future__ import annotations

RUNNING, DEGRADED, STALLED = "running", "degraded", "stalled"
"""It goes on and nothing is wrong; an incident is open; an incident takes all of its throughput."""
FINISHED, FAILED, INTERRUPTED = "finished", "failed", "interrupted"
UNKNOWN = "unknown"
"""Too little of its telemetry arrives to say."""
STALE = "stale"
"""The newest answer about it is old."""

GOING_ON = (RUNNING, DEGRADED, STALLED)
"""States of a job that has not ended, and of which telemetry arrives."""
ENDED = (FINISHED, FAILED, INTERRUPTED)
"""States of a job that are an end."""
