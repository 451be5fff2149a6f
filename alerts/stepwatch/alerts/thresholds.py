"""Alert thresholds, each with its reason.

If a detector evaluates the same condition, the alert uses the detector's threshold, so that alerts
and incidents agree.
"""

from __future__ import annotations

from stepwatch.collector.detect import hang, straggler
from stepwatch.collector.slo.states import COVERAGE_FLOOR

SLOWDOWN_RATIO = straggler.LIMITS.least_ratio
"""A rank's self time over its peers' self time, as in the straggler detector."""

STALLED_SECONDS = hang.LIMITS.pause_seconds
"""Back-stop for the hang detector: longer than it allows any phase without progress, including
checkpoints and evaluations. After that time a person must know, with or without a finding.
"""

NOT_RESTARTED_SECONDS = 120.0
"""Time without progress after a lost rank. A launcher sees a dead rank within seconds and has new
ranks at their first step within minutes. Half an hour without progress costs more than a page.
"""

FAILED_SECONDS = 300.0
"""Time since a job failed on all ranks: half the recovery time objective of ten minutes. An
automatic restart (torchrun in seconds, a scheduler's requeue in a minute or two) has happened, and
the on-call has the other half left."""

FAILED_CHECKPOINTS = 2
"""Consecutive checkpoints that failed or did not verify. One is transient: the next may verify, and
a restart loses two intervals, the recovery point objective. The second loses more."""

STALE_SECONDS = 60.0
"""Age of a running job's newest record: back-stop for the telemetry detector. Agents send every
second, so a minute without records is not a slow step.
"""

COVERAGE_RATIO = float(COVERAGE_FLOOR)
"""Observed over expected records. Below it the collector evaluates no SLO: telemetry is missing."""

LAG_SECONDS = 10.0
"""Maximum evaluation time: a fault must be found within ten seconds."""

INGEST_SECONDS = 5.0
"""Maximum time until an agent's request is stored: half the time to find a fault."""

UNSENT_SECONDS = 300.0
"""Age of a waiting notice: a page is due within half a minute, so its receiver is down. Its
recipient cannot learn that from the same receiver, so this alert uses the other route."""

SILENCE_SECONDS = 7 * 24 * 3600.0
"""Age of a silence: one that lasts into the next week was forgotten."""

RECENT_SECONDS = 600
"""Window in which a loss counter must have risen: tickets are read within hours, not seconds."""

NON_FINITE_SECONDS = 600
"""Time since a rank's newest non-finite value. After 64 consecutive steps hooks record one in 16:
at 30 s per step that is eight minutes."""

LOOPING_ATTEMPTS, LOOPING_SECONDS = 4, 1800
"""Attempts within that time: three restarts in half an hour are not a transient failure. Each takes
minutes to its first step, so little is trained.
"""

WASTE_SHARE, WASTE_RATIO = 0.1, 2.0
"""Unproductive share of an hour's device-time, and its ratio to the day before. The usual goodput
target is 0.95, so the share is twice the allowance.
"""

VANISHED_SECONDS = 3600
"""How long a running job that left the metrics is missed. One hour covers a lunch break."""
