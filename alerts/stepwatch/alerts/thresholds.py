"""The numbers at which alerts fire, each with its reason.

Where a detector evaluates the same condition, the alert takes the detector's number, so that alerts
and incidents agree.
"""

from __future__ import annotations

from stepwatch.collector.detect import hang, straggler
from stepwatch.collector.slo.states import COVERAGE_FLOOR

SLOWDOWN_RATIO = straggler.LIMITS.least_ratio
"""Self time of a rank over that of its peers, as the straggler detector has it."""

STALLED_SECONDS = hang.LIMITS.pause_seconds
"""Back-stop behind the hang detector: longer than it allows any phase without progress, checkpoints
and evaluations included. After that long, a person must know, whatever the detector found."""

NOT_RESTARTED_SECONDS = 120.0
"""No progress with a rank lost: a launcher sees a dead rank within seconds and has new ones at
their first step within minutes. Half an hour without progress costs more than a page."""

FAILED_SECONDS = 300.0
"""Since a job failed on all ranks. Half of the recovery time objective of ten minutes: what
restarts by itself (torchrun in seconds, a scheduler's requeue in a minute or two) has done so, and
whoever is woken has the other half left."""

FAILED_CHECKPOINTS = 2
"""Checkpoints in a row that failed or did not verify. One is transient: the next may verify, and a
restart loses two intervals, which is the recovery point objective. The second loses more."""

STALE_SECONDS = 60.0
"""Age of the newest record of a running job: back-stop behind the telemetry detector. Agents send
every second, so a minute without records is not a slow step."""

COVERAGE_RATIO = float(COVERAGE_FLOOR)
"""Observed over expected records. Below it the collector evaluates no SLO: telemetry is missing."""

LAG_SECONDS = 10.0
"""Time that one evaluation takes: a fault is to be found within ten seconds."""

INGEST_SECONDS = 5.0
"""Time until an agent's request is stored: half of that in which a fault is to be found."""

UNSENT_SECONDS = 300.0
"""Age of a notice that waits: a page is due within half a minute, so its receiver is down. Whoever
would be paged does not learn it in this way, so that it goes by the other one."""

SILENCE_SECONDS = 7 * 24 * 3600.0
"""Age of a silence: what was silenced in one week and still is in the next was forgotten."""

RECENT_SECONDS = 600
"""In which a counter of losses must have risen: tickets are read within hours, not seconds."""

NON_FINITE_SECONDS = 600
"""Since a rank's newest value that is not finite. After 64 steps in a row hooks record one in 16 of
them: between two there are eight minutes at 30 s a step."""

LOOPING_ATTEMPTS, LOOPING_SECONDS = 4, 1800
"""Attempts of a job within that time: three restarts in half an hour are no passing failure. Each
takes minutes to its first step, so that little is trained between them."""

WASTE_SHARE, WASTE_RATIO = 0.1, 2.0
"""Share of an hour's device-time that was not productive, and times that of the day before it. The
usual goodput target is 0.95: twice what it allows."""

VANISHED_SECONDS = 3600
"""How long a running job that left the metrics is missed. One hour covers a lunch break."""
