"""Label names.

The label for a job is `job_name`: Prometheus owns `job` for the scrape target and would rename ours
to `exported_job`.
"""

from __future__ import annotations

JOB = "job_name"
ATTEMPT = "attempt"
JOB_CLASS = "job_class"
WORLD = "world_size"
PHASE = "phase"
SLOT = "slot"
KIND = "kind"
RANK = "rank"
NODE = "node"
SLO = "slo"
SEVERITY = "severity"
SLI = "sli"
STATE = "state"
OUTCOME = "outcome"
STAGE = "stage"
OPERATION = "operation"
PART = "part"
PROJECT = "project"
TEAM = "team"
VERDICT = "verdict"
CAUSE = "cause"
CLOCK = "clock"
HEALTH = "health"
RECEIVER = "receiver"
SPENT = "spent"
CURRENCY = "currency"
INTERFACE = "interface"
DIRECTION = "direction"
