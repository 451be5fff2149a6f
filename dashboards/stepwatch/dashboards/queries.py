"""The dashboards' PromQL, built from the shared names.

Every query selects the dashboard variable's job and aggregates the scrape labels away, so that two
collectors with one job do not draw two lines. None fills a gap with zero: unmeasured values are
not drawn.
"""

from __future__ import annotations

from stepwatch.signals.names import (
    AGENT_OVERRUNS,
    AGENT_SEND_FAILURES,
    AGENT_SPOOL_BYTES,
    AGENT_SPOOL_DROPPED,
    AGENT_TRACED_STEP_SECONDS,
    AGENT_TRACED_STEPS,
    CAUSE,
    CHECKPOINT_VERIFIED_STEP,
    CHECKPOINTS,
    CHECKPOINTS_UNVERIFIED,
    CLOCK,
    COLLECTIVE_EXPOSED_SECONDS,
    COLLECTOR_EVALUATION_FAILURES,
    COLLECTOR_EVALUATION_SECONDS,
    COLLECTOR_JOBS_CAPPED,
    COLLECTOR_SEGMENTS,
    DEVICE_IDLE,
    DEVICE_SECONDS,
    HOST_LEAD,
    INCIDENT_OPEN,
    JOB,
    JOB_COLLECTIVE,
    JOB_INFO,
    JOB_LOSS,
    JOB_PEAK_TOKENS,
    JOB_RUNNING,
    JOB_STEP,
    JOB_TOKENS,
    JOB_UNREAD_SEGMENTS,
    KIND,
    LAST_RECORD,
    NODE,
    NODE_HOOK_ERRORS,
    NODE_RANK_OVERRUNS,
    NODE_RANK_STEP_MIN,
    NODE_RANK_TORN,
    NODE_RANKS,
    OPERATION,
    OUTCOME,
    PART,
    PHASE,
    PHASE_SECONDS,
    PIPELINE_WAIT_SECONDS,
    PROBE_UP,
    RANKS_ON_TWO_NODES,
    SECONDS_WITHOUT_PROGRESS,
    SLO,
    SLO_BUDGET_REMAINING,
    SLO_STATE,
    SLOT,
    SPENT,
    STAGE,
    STAGE_IDLE,
    STATE,
    STEP_DURATION,
    STEPS,
    STRAGGLER_RANK,
    STRAGGLER_SLOWDOWN,
    TELEMETRY_COVERAGE,
    VERDICT,
    FindingKind,
    Metric,
)

JOB_VARIABLE = "job"
"""The dashboard variable that holds the job."""

CHOSEN_JOB = f"${{{JOB_VARIABLE}:percentencode}}"
"""The template that Grafana replaces with the selected job in a link's address."""

LE = "le"
"""A histogram bucket's label, fixed by Prometheus."""

_WINDOW = "[$__rate_interval]"
_PROBE = PROBE_UP.labels[-1]


_NUMBERS = "|".join(
    kind.value
    for kind in (
        FindingKind.NON_FINITE,
        FindingKind.SILENT_CORRUPTION,
        FindingKind.REPLICA_DRIFT,
        FindingKind.LOSS_ANOMALY,
    )
)


def of_job(series: str, *matchers: str) -> str:
    """Select the chosen job's part of a series, narrowed by further label matchers."""
    chosen = ",".join((f'{JOB}="${JOB_VARIABLE}"', *matchers))
    return f"{series}{{{chosen}}}"


def _newest(metric: Metric, how: str, *labels: str) -> str:
    return f"{how} by ({', '.join((JOB, *labels))}) ({of_job(metric.name)})"


def _job_rate(series: str, *labels: str) -> str:
    # `max`, not `sum`: a second collector exports the same counter again.
    return f"max by ({', '.join((JOB, *labels))}) (rate({of_job(series)}{_WINDOW}))"


def _rate(metric: Metric, label: str) -> str:
    return f"sum by ({label}) (rate({metric.name}{_WINDOW}))"


def step_quantile(quantile: float) -> str:
    """Return the step time's `quantile` in seconds."""
    return f"histogram_quantile({quantile}, {_job_rate(_STEP_BUCKETS, LE)})"


def _share_of_time(part: Metric, *labels: str) -> str:
    """Return the share in rank-seconds: phases' self time, exposed collectives, pipeline waits."""
    phases = f"sum by ({JOB}) ({_job_rate(PHASE_SECONDS.name, PHASE)})"
    collectives = _job_rate(COLLECTIVE_EXPOSED_SECONDS.name)
    waits = _job_rate(PIPELINE_WAIT_SECONDS.name)
    # `> 0` drops times without measurements instead of dividing 0 by 0.
    measured = f"({phases} + {collectives} + {waits}) > 0"
    return f"{_job_rate(part.name, *labels)} / on ({JOB}) group_left () ({measured})"


_STEP_BUCKETS = STEP_DURATION.series_names[0]

JOBS = f"label_values({JOB_INFO.name}, {JOB})"

DEVICE_IDLE_SHARE = _newest(DEVICE_IDLE, "max")
COLLECTIVES_BY_OPERATION = _newest(JOB_COLLECTIVE, "max", OPERATION, PART)
STAGE_IDLE_SHARE = _newest(STAGE_IDLE, "max", STAGE)
HOST_AHEAD = _newest(HOST_LEAD, "max")
STEPS_BY_CLOCK = _job_rate(STEPS.name, CLOCK)
SHARED_RANKS = _newest(RANKS_ON_TWO_NODES, "max")
UNREAD_SEGMENTS = _newest(JOB_UNREAD_SEGMENTS, "max")
SPENT_SECONDS = _newest(DEVICE_SECONDS, "max", SPENT)
_ALL_SPENT = f"sum by ({JOB}) ({SPENT_SECONDS})"
SPENT_SHARE = f"{SPENT_SECONDS} / on ({JOB}) group_left () ({_ALL_SPENT} > 0)"
SLOWEST_NODE_STEP = f"bottomk(10, {_newest(NODE_RANK_STEP_MIN, 'min', NODE)})"
RANKS_BY_NODE = _newest(NODE_RANKS, "max", NODE)
OVERRUN_RECORDS = _newest(NODE_RANK_OVERRUNS, "max", NODE)
TORN_RECORDS = _newest(NODE_RANK_TORN, "max", NODE)
HOOK_ERRORS = _newest(NODE_HOOK_ERRORS, "max", NODE)

RUNNING = _newest(JOB_RUNNING, "max")
OPEN_INCIDENTS = _newest(INCIDENT_OPEN, "max", KIND)
WORST_INCIDENTS = f"sort_desc({OPEN_INCIDENTS} > 0)"
_ANY_NUMBER = f'{KIND}=~"{_NUMBERS}"'
NUMBER_INCIDENTS = f"max by ({JOB}, {KIND}) ({of_job(INCIDENT_OPEN.name, _ANY_NUMBER)})"
INCIDENT_COUNT = f"sum by ({JOB}) ({OPEN_INCIDENTS})"
SLO_STATES = f"{_newest(SLO_STATE, 'max', SLO, STATE)} == 1"
SLO_BUDGET_SPENT = f"1 - {_newest(SLO_BUDGET_REMAINING, 'min', SLO)}"
WITHOUT_PROGRESS = _newest(SECONDS_WITHOUT_PROGRESS, "max")
COVERAGE = _newest(TELEMETRY_COVERAGE, "min")
RECORD_AGE = f"time() - {_newest(LAST_RECORD, 'max')}"
STRAGGLERS = _newest(STRAGGLER_RANK, "max", SLOT, PHASE, CAUSE)
SLOWDOWN = _newest(STRAGGLER_SLOWDOWN, "max", SLOT, PHASE, CAUSE)

_TRACED_SECONDS, _TRACED_STEPS = (
    f"sum by ({JOB}) (rate({of_job(metric.name)}{_WINDOW}))"
    for metric in (AGENT_TRACED_STEP_SECONDS, AGENT_TRACED_STEPS)
)
TRACED_STEP_LENGTH = f"{_TRACED_SECONDS} / ({_TRACED_STEPS} > 0)"
STEP_HEAT = f"max by ({LE}) (increase({of_job(_STEP_BUCKETS)}{_WINDOW}))"
TOKENS = _job_rate(JOB_TOKENS.name)
MFU = f"{TOKENS} / {_newest(JOB_PEAK_TOKENS, 'max')}"
LOSS = _newest(JOB_LOSS, "max")
STEP = _newest(JOB_STEP, "max")

PHASE_SHARE = _share_of_time(PHASE_SECONDS, PHASE)
COLLECTIVE_SHARE = _share_of_time(COLLECTIVE_EXPOSED_SECONDS)
PIPELINE_SHARE = _share_of_time(PIPELINE_WAIT_SECONDS)

VERIFIED_STEP = _newest(CHECKPOINT_VERIFIED_STEP, "max")
# Steps count from 0, and a checkpoint is named by the step that a restart begins with.
STEPS_AT_RISK = f"clamp_min({STEP} + 1 - {VERIFIED_STEP}, 0)"
_UNDECIDED = _newest(CHECKPOINTS_UNVERIFIED, "max")
_UNVERIFIED = f'label_replace({_UNDECIDED}, "{OUTCOME}", "unverified", "", "")'
CHECKPOINTS_ENDED = f"{_newest(CHECKPOINTS, 'max', OUTCOME)} or {_UNVERIFIED}"

SEGMENTS = _rate(COLLECTOR_SEGMENTS, VERDICT)
EVALUATION = f"max({COLLECTOR_EVALUATION_SECONDS.name})"
EVALUATION_FAILURES = f"sum(increase({COLLECTOR_EVALUATION_FAILURES.name}{_WINDOW}))"
JOBS_CAPPED = f"max({COLLECTOR_JOBS_CAPPED.name})"
SPOOL = f"max by ({NODE}) ({AGENT_SPOOL_BYTES.name})"
OVERRUNS = _rate(AGENT_OVERRUNS, NODE)
DROPPED = _rate(AGENT_SPOOL_DROPPED, NODE)
SEND_FAILURES = _rate(AGENT_SEND_FAILURES, NODE)
PROBES = f"min by ({NODE}, {_PROBE}) ({PROBE_UP.name})"
