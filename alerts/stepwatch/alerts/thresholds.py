"""The numbers at which alerts fire, each with its reason."""

from __future__ import annotations

SLOWDOWN_RATIO = 1.5
"""Own time of a rank over its peers'. Fail-slow jobs run 1.34 times slower on average, so at 1.5
the loss is no longer noise and worth a person's time; milder ones stay on the dashboard."""

STALLED_SECONDS = 600.0
"""Back-stop behind the hang detector. torch gives up on an NCCL collective after 10 minutes by
default (`init_process_group`, https://docs.pytorch.org/docs/stable/distributed.html); when no rank
moved for that long, a person must know, whatever the detector thinks."""

STALE_SECONDS = 60.0
"""Age of the newest record of a running job. Agents read rings four times a second and report the
state of ranks even when no step ends, so a minute of silence is not a slow step."""

COVERAGE_RATIO = 0.9
"""Observed over expected records. The target is 0.999; below 0.9 every tenth fact is missing, and a
straggler can hide in the missing tenth."""

VANISHED_SECONDS = 3600
"""How long a running job that left the metrics is missed. One hour covers a lunch break."""
