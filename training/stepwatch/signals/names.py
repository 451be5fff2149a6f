"""Every metric, label, alert and file name that two parts of stepwatch must agree on.

Exporters, dashboards, alert rules and runbooks take names from here and spell none themselves;
`stepwatch check` compares the generated files with this module.

The label for a job is `job_name`: Prometheus owns `job` for the scrape target and would rename ours
to `exported_job`.
"""

from __future__ import annotations

from enum import Enum, StrEnum
from typing import NamedTuple


class MetricKind(Enum):
    """Prometheus metric type."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"


class Metric(NamedTuple):
    """One exported metric: its name in PromQL, type, help text and label names."""

    name: str
    kind: MetricKind
    help: str
    labels: tuple[str, ...] = ()

    @property
    def series_names(self) -> tuple[str, ...]:
        """Names that a query may use: the name itself, or the three of a histogram."""
        if self.kind is MetricKind.HISTOGRAM:
            return tuple(f"{self.name}_{part}" for part in ("bucket", "sum", "count"))
        return (self.name,)


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
SLI = "sli"
STATE = "state"
OUTCOME = "outcome"
VERDICT = "verdict"
CAUSE = "cause"

_G, _C, _H = MetricKind.GAUGE, MetricKind.COUNTER, MetricKind.HISTOGRAM

# Exported by the collector, per job.
JOB_INFO = Metric(
    "stepwatch_job_info", _G, "Always 1; joins labels to a job.", (JOB, ATTEMPT, JOB_CLASS, WORLD)
)
JOB_RUNNING = Metric(
    "stepwatch_job_running", _G, "1 while the newest attempt is expected to make progress.", (JOB,)
)
JOB_STEP = Metric("stepwatch_job_step", _G, "Newest step that every rank completed.", (JOB,))
JOB_TOKENS = Metric("stepwatch_job_tokens_total", _C, "Tokens trained on, over all ranks.", (JOB,))
JOB_LOSS = Metric("stepwatch_job_loss", _G, "Loss at the newest completed step.", (JOB,))
STEP_DURATION = Metric(
    "stepwatch_step_duration_seconds", _H, "Step time of the slowest rank, per step.", (JOB,)
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
CHECKPOINTS = Metric(
    "stepwatch_checkpoints_total",
    _C,
    "Checkpoints that verified or failed; one that verified and failed later counts in both.",
    (JOB, OUTCOME),
)
CHECKPOINTS_UNVERIFIED = Metric(
    "stepwatch_checkpoints_unverified",
    _G,
    "Checkpoints of which it is not known whether they are good.",
    (JOB,),
)
CHECKPOINT_VERIFIED_STEP = Metric(
    "stepwatch_checkpoint_verified_step", _G, "Step of the newest verified checkpoint.", (JOB,)
)
CHECKPOINT_FAILURES_IN_A_ROW = Metric(
    "stepwatch_checkpoint_failures_in_a_row",
    _G,
    "Checkpoints that failed or did not verify since one last verified.",
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
SLO_STATE = Metric(
    "stepwatch_slo_state", _G, "1 for the state the SLO is in, 0 for the others.", (JOB, SLO, STATE)
)

# Exported by the collector, about itself.
COLLECTOR_SEGMENTS = Metric(
    "stepwatch_collector_segments_total", _C, "Segments received, by verdict.", (VERDICT,)
)
COLLECTOR_JOBS = Metric("stepwatch_collector_jobs", _G, "Jobs held in live state.")
COLLECTOR_JOBS_CAPPED = Metric(
    "stepwatch_collector_jobs_capped", _G, "Jobs left out of the metrics by the series cap."
)
COLLECTOR_JOBS_QUARANTINED = Metric(
    "stepwatch_collector_jobs_quarantined",
    _G,
    "Jobs that are stored but not evaluated, as their records or their evaluation raised an error.",
)
COLLECTOR_JOBS_RESTORING = Metric(
    "stepwatch_collector_jobs_restoring",
    _G,
    "Jobs that are not evaluated yet, as their history is being read from the store.",
)
COLLECTOR_UNDECODED = Metric(
    "stepwatch_collector_segments_undecoded",
    _G,
    "Segments of later formats that are kept until a collector that reads them opens the store.",
)
COLLECTOR_UNREADABLE = Metric(
    "stepwatch_collector_segments_unreadable_total",
    _C,
    "Stored segments that could not be decoded when their job was read back; they are kept.",
)
COLLECTOR_UNKNOWN_RECORDS = Metric(
    "stepwatch_collector_unknown_records_total",
    _C,
    "Records of kinds that this version does not know, by the kind's number; they are stored.",
    (KIND,),
)
COLLECTOR_EVALUATION_SECONDS = Metric(
    "stepwatch_collector_evaluation_seconds", _G, "Time the newest evaluation took."
)
COLLECTOR_EVALUATION_FAILURES = Metric(
    "stepwatch_collector_evaluation_failures_total", _C, "Evaluations that ended in an error."
)

# Exported by the agent, about its node and itself.
NODE_CPU_BUSY = Metric("stepwatch_node_cpu_busy_ratio", _G, "Busy share of all CPUs.", (NODE,))
NODE_CPU_STEAL = Metric(
    "stepwatch_node_cpu_steal_ratio", _G, "Share of CPU time taken by the hypervisor.", (NODE,)
)
NODE_PRESSURE = Metric(
    "stepwatch_node_pressure_ratio",
    _G,
    "Share of the last 10 s in which some task stalled on the resource (PSI).",
    (NODE, "resource"),
)
NODE_MEMORY_AVAILABLE = Metric(
    "stepwatch_node_memory_available_bytes", _G, "Memory available without swapping.", (NODE,)
)
NODE_RANKS = Metric("stepwatch_node_ranks", _G, "Ranks with a live ring on this node.", (NODE, JOB))
NODE_RANK_STEP_MIN = Metric(
    "stepwatch_node_rank_step_min", _G, "Lowest current step of this node's ranks.", (NODE, JOB)
)
AGENT_RECORDS = Metric("stepwatch_agent_records_total", _C, "Records read from rings.", (NODE,))
AGENT_OVERRUNS = Metric(
    "stepwatch_agent_overruns_total", _C, "Records overwritten before they were read.", (NODE,)
)
AGENT_SPOOL_BYTES = Metric(
    "stepwatch_agent_spool_bytes", _G, "Bytes waiting in the spool.", (NODE,)
)
AGENT_SPOOL_SEGMENTS = Metric(
    "stepwatch_agent_spool_segments", _G, "Segments waiting in the spool.", (NODE,)
)
AGENT_SPOOL_DROPPED = Metric(
    "stepwatch_agent_spool_dropped_total", _C, "Segments dropped from a full spool.", (NODE,)
)
AGENT_HELD_SEGMENTS = Metric(
    "stepwatch_agent_held_segments",
    _G,
    "Segments kept until a collector can read their format.",
    (NODE,),
)
AGENT_HELD_BYTES = Metric(
    "stepwatch_agent_held_bytes",
    _G,
    "Bytes kept until a collector can read their format.",
    (NODE,),
)
AGENT_REFUSED = Metric(
    "stepwatch_agent_refused_segments_total",
    _C,
    "Segments that the collector refused; the newest are kept beside the spool.",
    (NODE,),
)
AGENT_SEND_FAILURES = Metric(
    "stepwatch_agent_send_failures_total", _C, "Sends that the collector did not accept.", (NODE,)
)
AGENT_THREAD_FAILURES = Metric(
    "stepwatch_agent_thread_failures_total",
    _C,
    "Times a thread of the agent ended with an error and was started again.",
    (NODE, "thread"),
)
AGENT_SPANS = Metric(
    "stepwatch_agent_spans_total",
    _C,
    "Spans by what became of them: exported, dropped here, rejected by their receiver.",
    (NODE, OUTCOME),
)
PROBE_UP = Metric(
    "stepwatch_agent_probe_up", _G, "1 while the probe's source can be read.", (NODE, "probe")
)
PROBE_UNKNOWN = Metric(
    "stepwatch_agent_probe_unknown",
    _G,
    "1 while the reading of a probe that once had a source is unknown, with the reason.",
    (NODE, "probe", "reason"),
)

METRICS: tuple[Metric, ...] = tuple(
    value for value in list(globals().values()) if isinstance(value, Metric)
)
"""Every metric that stepwatch exports."""

ALERT_STRAGGLER = "TrainingStraggler"
ALERT_HANG = "TrainingHang"
ALERT_TELEMETRY_LOST = "TrainingTelemetryLost"
ALERT_DESYNC = "TrainingDesync"
ALERT_RANK_FAILED = "TrainingRankFailed"
ALERT_DATA_STALL = "TrainingDataStall"
ALERT_DATA_SKEW = "TrainingDataSkew"
ALERT_PIPELINE_BUBBLE = "TrainingPipelineBubble"
ALERT_SLOW_COLLECTIVE = "TrainingSlowCollective"
ALERT_LOSS_ANOMALY = "TrainingLossAnomaly"
ALERT_NON_FINITE = "TrainingNonFinite"
ALERT_SILENT_CORRUPTION = "TrainingSilentCorruption"
ALERT_MEMORY_GROWTH = "TrainingMemoryGrowth"
ALERT_CHECKPOINT_STALL = "TrainingCheckpointStall"
ALERT_THROUGHPUT_REGRESSION = "TrainingThroughputRegression"
ALERT_NOT_RESTARTED = "TrainingNotRestarted"
ALERT_CHECKPOINT_UNVERIFIED = "TrainingCheckpointUnverified"


class FindingKind(Enum):
    """What a detector can report; the value is the `kind` of findings, incidents and metrics."""

    STRAGGLER = "straggler"
    HANG = "hang"
    TELEMETRY_LOST = "telemetry-lost"
    DESYNC = "desync"
    RANK_FAILED = "rank-failed"
    DATA_STALL = "data-stall"
    DATA_SKEW = "data-skew"
    PIPELINE_BUBBLE = "pipeline-bubble"
    SLOW_COLLECTIVE = "slow-collective"
    LOSS_ANOMALY = "loss-anomaly"
    NON_FINITE = "non-finite"
    SILENT_CORRUPTION = "silent-corruption"
    MEMORY_GROWTH = "memory-growth"
    CHECKPOINT_STALL = "checkpoint-stall"
    THROUGHPUT_REGRESSION = "throughput-regression"


ALERT_OF: dict[FindingKind, str] = {
    FindingKind.STRAGGLER: ALERT_STRAGGLER,
    FindingKind.HANG: ALERT_HANG,
    FindingKind.TELEMETRY_LOST: ALERT_TELEMETRY_LOST,
    FindingKind.DESYNC: ALERT_DESYNC,
    FindingKind.RANK_FAILED: ALERT_RANK_FAILED,
    FindingKind.DATA_STALL: ALERT_DATA_STALL,
    FindingKind.DATA_SKEW: ALERT_DATA_SKEW,
    FindingKind.PIPELINE_BUBBLE: ALERT_PIPELINE_BUBBLE,
    FindingKind.SLOW_COLLECTIVE: ALERT_SLOW_COLLECTIVE,
    FindingKind.LOSS_ANOMALY: ALERT_LOSS_ANOMALY,
    FindingKind.NON_FINITE: ALERT_NON_FINITE,
    FindingKind.SILENT_CORRUPTION: ALERT_SILENT_CORRUPTION,
    FindingKind.MEMORY_GROWTH: ALERT_MEMORY_GROWTH,
    FindingKind.CHECKPOINT_STALL: ALERT_CHECKPOINT_STALL,
    FindingKind.THROUGHPUT_REGRESSION: ALERT_THROUGHPUT_REGRESSION,
}
"""The alert, and so the runbook, of each kind of finding."""

ALERT_ABOUT: dict[str, tuple[FindingKind, ...]] = {
    ALERT_NOT_RESTARTED: (FindingKind.RANK_FAILED, FindingKind.DESYNC),
    ALERT_CHECKPOINT_UNVERIFIED: (FindingKind.CHECKPOINT_STALL,),
}
"""Alerts on what no finding reports, each with the kinds whose incidents fill in its runbook."""

ALERT_NAMES = frozenset((*ALERT_OF.values(), *ALERT_ABOUT))
"""Every alert; each has a runbook of its name."""


class Cause(StrEnum):
    """Why something is wrong, as findings, incidents and the metric label `cause` report it."""

    UNKNOWN = "unknown"
    # A rank works longer than its peers; no node fact explains it.
    SLOW_COMPUTE = "slow-compute"
    SLOW_DATA = "slow-data"
    # The rank's device waits for work: its host enqueues too late.
    LAUNCH_BOUND = "launch-bound"
    # Facts of the rank's node that explain it.
    CPU_CONTENTION = "cpu-contention"
    CPU_STEAL = "cpu-steal"
    MEMORY_PRESSURE = "memory-pressure"
    IO_PRESSURE = "io-pressure"
    PAGE_FAULTS = "page-faults"
    THERMAL_THROTTLE = "thermal-throttle"
    POWER_CAP = "power-cap"
    LOW_CLOCKS = "low-clocks"
    ECC_ERRORS = "ecc-errors"
    XID = "xid"
    NIC_ERRORS = "nic-errors"
    # Why a rank did not arrive.
    PROCESS_GONE = "process-gone"
    PROCESS_STOPPED = "process-stopped"
    UNINTERRUPTIBLE_IO = "uninterruptible-io"
    INTERPRETER_BLOCKED = "interpreter-blocked"
    BUSY = "busy"
    NOT_ARRIVED = "not-arrived"
    # Its device does not come to the end of what it was given, while its host has gone on.
    DEVICE_STUCK = "device-stuck"
    MISMATCHED_ORDER = "mismatched-order"
    MISMATCHED_SHAPE = "mismatched-shape"
    EXCEPTION = "exception"
    # What the data, the pipeline, the network or the storage does to all ranks.
    UNEVEN_SHARDS = "uneven-shards"
    STAGE_IMBALANCE = "stage-imbalance"
    FEW_MICROBATCHES = "few-microbatches"
    SLOW_TRANSFER = "slow-transfer"
    SLOW_STORAGE = "slow-storage"
    ALL_RANKS_SLOWER = "all-ranks-slower"
    # What the numbers show.
    LOSS_SPIKE = "loss-spike"
    LOSS_PLATEAU = "loss-plateau"
    LOSS_DIVERGENCE = "loss-divergence"
    NON_FINITE_GRADIENT = "non-finite-gradient"
    NON_FINITE_LOSS = "non-finite-loss"
    REPLICA_MISMATCH = "replica-mismatch"
    HOST_MEMORY = "host-memory"
    DEVICE_MEMORY = "device-memory"
    # Why telemetry is missing.
    AGENTS_STALE = "agents-stale"
    NODE_STALE = "node-stale"
