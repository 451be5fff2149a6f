"""Words for a job's state, shared by the API, the page, every verb and the metrics."""

from __future__ import annotations

RUNNING, DEGRADED, STALLED = "running", "degraded", "stalled"
"""Running: active without an incident.

Degraded: an incident is open. Stalled: an incident takes all its throughput.
"""
FINISHED, FAILED, INTERRUPTED = "finished", "failed", "interrupted"
UNKNOWN = "unknown"
"""Too little telemetry arrives."""
STALE = "stale"
"""The newest answer about the job is old."""
QUARANTINED, RESTORING = "quarantined", "restoring"
"""Why a job is withheld: an error in its records or evaluation; its history is reloading."""
CROWDED_OUT = "crowded-out"
"""State of a recent job that was evicted twice for lack of room; it returns later."""

GOING_ON = (RUNNING, DEGRADED, STALLED)
"""States for an active job with telemetry."""
ENDED = (FINISHED, FAILED, INTERRUPTED)
"""States for an ended job."""
