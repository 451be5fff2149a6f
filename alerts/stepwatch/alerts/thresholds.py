"""The numbers at which alerts fire, each with its reason.

Where the collector judges the same thing, the number is the collector's own, so that an alert and
an incident never disagree about what is bad.
"""

from __future__ import annotations

from stepwatch.collector.detect import hang, straggler
from stepwatch.collector.slo.objectives import COVERAGE_FLOOR

SLOWDOWN_RATIO = straggler.LIMITS.least_ratio
"""Own time of a rank over its peers', as the straggler detector has it."""

STALLED_SECONDS = hang.LIMITS.pause_seconds
"""Back-stop behind the hang detector: longer than it lets any phase stand still, checkpoints and
evaluations included. When no rank moved for that long, a person must know, whatever it thinks."""

NOT_RESTARTED_SECONDS = 120.0
"""Standing still with a rank lost: a launcher sees a dead rank within seconds and has new ones at
their first step within minutes. Half an hour of nobody looking would cost more than a page."""

FAILED_SECONDS = 300.0
"""Since a job failed on all ranks. Half of the recovery time objective of ten minutes: what
restarts by itself (torchrun in seconds, a scheduler's requeue in a minute or two) has done so, and
whoever is woken has the other half left."""

FAILED_CHECKPOINTS = 2
"""Checkpoints in a row that are no good. One is transient: the next may verify, and a restart loses
two intervals, which is the recovery point objective. From the second one on it would lose more."""

STALE_SECONDS = 60.0
"""Age of the newest record of a running job: back-stop behind the telemetry detector. Agents send
every second, so a minute of silence is not a slow step."""

COVERAGE_RATIO = float(COVERAGE_FLOOR)
"""Observed over expected records. Below it the collector judges no SLO: we are blind."""

VANISHED_SECONDS = 3600
"""How long a running job that left the metrics is missed. One hour covers a lunch break."""
