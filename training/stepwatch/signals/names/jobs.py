"""Metrics that the collector exports per job."""

from __future__ import annotations

from .labels import (
    ATTEMPT,
    CAUSE,
    CLOCK,
    CURRENCY,
    JOB,
    JOB_CLASS,
    KIND,
    OPERATION,
    OUTCOME,
    PART,
    PHASE,
    PROJECT,
    SEVERITY,
    SLI,
    SLO,
    SLOT,
    SPENT,
    STAGE,
    STATE,
    TEAM,
    WORLD,
)
from .metric import Metric, MetricKind

_G, _C, _H = MetricKind.GAUGE, MetricKind.COUNTER, MetricKind.HISTOGRAM

JOB_INFO = Metric(
    "stepwatch_job_info", _G, "Always 1; joins labels to a job.", (JOB, ATTEMPT, JOB_CLASS, WORLD)
)
JOB_RUNNING = Metric(
    "stepwatch_job_running", _G, "1 while the newest attempt is expected to make progress.", (JOB,)
)
JOB_STEP = Metric("stepwatch_job_step", _G, "Newest step that every rank completed.", (JOB,))
JOB_TOKENS = Metric("stepwatch_job_tokens_total", _C, "Tokens trained on, over all ranks.", (JOB,))
JOB_PEAK_TOKENS = Metric(
    "stepwatch_job_peak_tokens_per_second",
    _G,
    "Tokens a second that the devices of the newest attempt would train on at their peak FLOP/s: "
    "the rate of tokens over it is the MFU. Absent where no rank describes model and peak, and "
    "where more were trained on than can be.",
    (JOB,),
)
JOB_LOSS = Metric("stepwatch_job_loss", _G, "Loss at the newest completed step.", (JOB,))
STEP_DURATION = Metric(
    "stepwatch_step_duration_seconds",
    _H,
    "Step time of the slowest rank, per step; on the devices' clock where they timed it.",
    (JOB,),
)
STEPS = Metric(
    "stepwatch_steps_total",
    _C,
    "Steps that stepwatch_step_duration_seconds counts, by the clock that timed them.",
    (JOB, CLOCK),
)
PHASE_SECONDS = Metric(
    "stepwatch_phase_seconds_total", _C, "Self time in a phase, summed over ranks.", (JOB, PHASE)
)
COLLECTIVE_EXPOSED_SECONDS = Metric(
    "stepwatch_collective_exposed_seconds_total",
    _C,
    "Time blocked in collectives, not overlapped with work, summed over ranks.",
    (JOB,),
)
PIPELINE_WAIT_SECONDS = Metric(
    "stepwatch_pipeline_wait_seconds_total",
    _C,
    "Time a pipeline stage waited for its neighbours, summed over ranks.",
    (JOB,),
)
STAGE_IDLE = Metric(
    "stepwatch_pipeline_stage_idle_ratio",
    _G,
    "Share of the newest steps, checkpoints and evaluations left out, in which the ranks of a "
    "pipeline stage did no work: waits for neighbours and exposed collectives.",
    (JOB, STAGE),
)
JOB_COLLECTIVE = Metric(
    "stepwatch_job_collective_seconds",
    _G,
    "Seconds of the newest steps in which ranks were blocked in collectives of an operation, mean "
    "of a step and a rank. Parts are transfer, arrival-skew (the wait for the last to arrive) and "
    "unknown, where not all members reported; point to point is always that.",
    (JOB, OPERATION, PART),
)
DEVICE_IDLE = Metric(
    "stepwatch_device_idle_ratio",
    _G,
    "Share of the newest steps in which the devices had nothing enqueued ahead; an upper bound. "
    "Absent where steps are timed on the host.",
    (JOB,),
)
HOST_LEAD = Metric(
    "stepwatch_host_lead_seconds",
    _G,
    "How far the median host is ahead of its device at the end of a step. Absent where steps are "
    "timed on the host.",
    (JOB,),
)
SECONDS_WITHOUT_PROGRESS = Metric(
    "stepwatch_job_seconds_without_progress",
    _G,
    "Seconds since a rank of the job last changed its step or phase.",
    (JOB,),
)
SECONDS_SINCE_FAILURE = Metric(
    "stepwatch_job_seconds_since_failure",
    _G,
    "Seconds since the newest attempt failed, on all ranks; absent while none has.",
    (JOB,),
)
LAST_RECORD = Metric(
    "stepwatch_job_last_record_timestamp_seconds",
    _G,
    "Unix time of the newest record received for the job.",
    (JOB,),
)
RANKS_ON_TWO_NODES = Metric(
    "stepwatch_job_ranks_on_two_nodes",
    _G,
    "Ranks that two nodes report at once: two runs share the job's name.",
    (JOB,),
)
JOB_UNREAD_SEGMENTS = Metric(
    "stepwatch_job_unread_segments",
    _G,
    "Stored segments of the job that could not be read back; every view misses them.",
    (JOB,),
)
TELEMETRY_COVERAGE = Metric(
    "stepwatch_job_telemetry_coverage_ratio",
    _G,
    "Observed over expected step records in the newest SLI window.",
    (JOB,),
)
STRAGGLER_RANK = Metric(
    "stepwatch_straggler_rank", _G, "Rank in this straggler slot.", (JOB, SLOT, PHASE, CAUSE)
)
STRAGGLER_SLOWDOWN = Metric(
    "stepwatch_straggler_slowdown_ratio",
    _G,
    "Self time of the rank in this slot over that of its peers.",
    (JOB, SLOT, PHASE, CAUSE),
)
INCIDENT_OPEN = Metric(
    "stepwatch_incident_open", _G, "Open incidents: causes, not symptoms.", (JOB, KIND)
)
JOB_INCIDENTS = Metric(
    "stepwatch_job_incidents",
    _G,
    "Kept incidents since the job began, by kind; absent for kinds without any.",
    (JOB, KIND),
)
JOB_OUTCOME = Metric(
    "stepwatch_job_outcome",
    _G,
    "1 for the newest attempt's outcome: finished, failed or interrupted; absent while it runs or "
    "if unknown.",
    (JOB, OUTCOME),
)
JOB_DURATION = Metric(
    "stepwatch_job_duration_seconds",
    _G,
    "From the first start of the first attempt to the last step of a job that finished.",
    (JOB,),
)
JOB_RECOVERY = Metric(
    "stepwatch_job_recovery_seconds",
    _G,
    "From the last step before an interruption to the first one after it, mean of the job's.",
    (JOB,),
)
CHECKPOINTS = Metric(
    "stepwatch_checkpoints_total",
    _C,
    "Checkpoints that verified or failed; one that verified and failed later counts in both.",
    (JOB, OUTCOME),
)
CHECKPOINTS_UNVERIFIED = Metric(
    "stepwatch_checkpoints_unverified",
    _G,
    "Checkpoints without a verification result.",
    (JOB,),
)
CHECKPOINT_VERIFIED_STEP = Metric(
    "stepwatch_checkpoint_verified_step", _G, "Step of the newest verified checkpoint.", (JOB,)
)
CHECKPOINT_FAILURES_IN_A_ROW = Metric(
    "stepwatch_checkpoint_failures_in_a_row",
    _G,
    "Checkpoints that failed or did not verify since one last verified; a lost good one is two.",
    (JOB,),
)
SLI_GOOD = Metric(
    "stepwatch_sli_good_device_seconds", _G, "Good device-seconds since the job began.", (JOB, SLI)
)
SLI_TOTAL = Metric(
    "stepwatch_sli_device_seconds", _G, "Counted device-seconds since the job began.", (JOB, SLI)
)
SLO_BUDGET_REMAINING = Metric(
    "stepwatch_slo_budget_remaining_ratio",
    _G,
    "Unspent share of the error budget; absent while it is unknown.",
    (JOB, SLO),
)
SLO_BURN_RATE = Metric(
    "stepwatch_slo_burn_rate",
    _G,
    "Burn rate of an error budget that burns fast enough for a page or a ticket; absent otherwise.",
    (JOB, SLO, SEVERITY),
)
SLO_STATE = Metric(
    "stepwatch_slo_state",
    _G,
    "1 for the state the SLO is in; the others have no series.",
    (JOB, SLO, STATE),
)
DEVICE_SECONDS = Metric(
    "stepwatch_job_device_seconds",
    _G,
    "Allocated device-seconds since the job began, up to a minute ago, by cause; a "
    "restart turns productive ones into ones to be redone.",
    (JOB, SPENT),
)
JOB_COST = Metric(
    "stepwatch_job_cost",
    _G,
    "Money for the allocated device-time of the job at the rates of the rate card; absent without "
    "a rate card, and where it has no rate for a part.",
    (JOB, CURRENCY),
)
JOB_OWNER = Metric(
    "stepwatch_job_owner_info",
    _G,
    "Always 1; the job's owner, from the job or the site file, unknown without either.",
    (JOB, PROJECT, TEAM),
)
