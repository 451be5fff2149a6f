"""The kinds of findings that detectors report, and the alert for each."""

from __future__ import annotations

from enum import Enum

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
ALERT_REPLICA_DRIFT = "TrainingReplicaDrift"
ALERT_MEMORY_GROWTH = "TrainingMemoryGrowth"
ALERT_CHECKPOINT_STALL = "TrainingCheckpointStall"
ALERT_THROUGHPUT_REGRESSION = "TrainingThroughputRegression"
ALERT_PAUSE = "TrainingPause"
ALERT_NODE_FAULT = "TrainingNodeFault"
ALERT_NOT_RESTARTED = "TrainingNotRestarted"
ALERT_CHECKPOINT_UNVERIFIED = "TrainingCheckpointUnverified"
ALERT_BUDGET_BURNING_FAST = "TrainingBudgetBurningFast"
ALERT_BUDGET_BURNING = "TrainingBudgetBurning"
ALERT_CRASH_LOOP = "TrainingCrashLoop"
ALERT_COST_ANOMALY = "TrainingCostAnomaly"
ALERT_COLLECTOR_DEGRADED = "StepwatchCollectorDegraded"
ALERT_AGENT_DEGRADED = "StepwatchAgentDegraded"
ALERT_WATCHDOG = "StepwatchWatchdog"


class FindingKind(Enum):
    """The finding kinds; the value is the `kind` in findings, incidents and metrics."""

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
    REPLICA_DRIFT = "replica-drift"
    MEMORY_GROWTH = "memory-growth"
    CHECKPOINT_STALL = "checkpoint-stall"
    THROUGHPUT_REGRESSION = "throughput-regression"
    PAUSE = "pause"
    NODE_FAULT = "node-fault"


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
    FindingKind.REPLICA_DRIFT: ALERT_REPLICA_DRIFT,
    FindingKind.MEMORY_GROWTH: ALERT_MEMORY_GROWTH,
    FindingKind.CHECKPOINT_STALL: ALERT_CHECKPOINT_STALL,
    FindingKind.THROUGHPUT_REGRESSION: ALERT_THROUGHPUT_REGRESSION,
    FindingKind.PAUSE: ALERT_PAUSE,
    FindingKind.NODE_FAULT: ALERT_NODE_FAULT,
}
"""The alert, and so the runbook, for each finding kind."""

ALERT_ABOUT: dict[str, tuple[FindingKind, ...]] = {
    ALERT_NOT_RESTARTED: (FindingKind.RANK_FAILED, FindingKind.DESYNC),
    ALERT_CHECKPOINT_UNVERIFIED: (FindingKind.CHECKPOINT_STALL,),
    ALERT_BUDGET_BURNING_FAST: (FindingKind.HANG, FindingKind.RANK_FAILED, FindingKind.STRAGGLER),
    ALERT_BUDGET_BURNING: (FindingKind.STRAGGLER, FindingKind.RANK_FAILED, FindingKind.HANG),
    ALERT_CRASH_LOOP: (FindingKind.RANK_FAILED, FindingKind.DESYNC, FindingKind.MEMORY_GROWTH),
    ALERT_COST_ANOMALY: (FindingKind.RANK_FAILED, FindingKind.STRAGGLER, FindingKind.DATA_STALL),
    ALERT_COLLECTOR_DEGRADED: (FindingKind.TELEMETRY_LOST,),
    ALERT_AGENT_DEGRADED: (FindingKind.TELEMETRY_LOST,),
    ALERT_WATCHDOG: (FindingKind.TELEMETRY_LOST,),
}
"""Alerts without a finding, each with the kinds whose incidents fill in its runbook."""

ALERT_NAMES = frozenset((*ALERT_OF.values(), *ALERT_ABOUT))
"""Every alert; each has a runbook with its name."""
