"""Alerts on broken runs: desync, lost ranks, differing replicas, memory, loss, node faults."""

from __future__ import annotations

from stepwatch.alerts.spec import Severity
from stepwatch.alerts.verdict import AlertText, alert
from stepwatch.signals.names import FindingKind

_TEXTS = (
    # The job makes no progress and does not recover by itself.
    AlertText(
        FindingKind.DESYNC,
        Severity.PAGE,
        "its ranks wait for different collectives",
        "The ranks disagree about the next collective: its order, operation or shape.",
        "Every device of the job is paid for and idle. The job crashes at the collective timeout.",
        "Run `stepwatch incidents`: it names the rank that differs, and its collective. Read it "
        "before the job restarts: the evidence dies with the process.",
    ),
    # The launcher restarts the job once. A job that stays down pages: as a hang while ranks remain,
    # else as not restarted.
    AlertText(
        FindingKind.RANK_FAILED,
        Severity.TICKET,
        "a rank ended before the job did",
        "A rank's process died or raised an exception while the job runs.",
        "The launcher restarts all ranks; the steps since the newest verified checkpoint are lost.",
        "Run `stepwatch status`: does a new attempt make steps? If not, continue with the "
        "runbook before the collective timeout.",
        when_failed=True,
    ),
    # Every further step is wasted, and a new checkpoint holds the damage. There is no back-stop: an
    # agent sees only its own node's digests, and only the collector knows the replicas.
    AlertText(
        FindingKind.SILENT_CORRUPTION,
        Severity.PAGE,
        "replicas that must agree differ",
        "Data-parallel replicas hold different values of the same parameters.",
        "The replicas train different models. Each checkpoint since the first difference may "
        "hold wrong numbers.",
        "Run `stepwatch incidents`: it names the rank and the step. Protect the newest "
        "checkpoint before that step from deletion, and drain the node.",
    ),
    # The run trains several models and looks healthy: each step until the code changes is wasted. A
    # rank that skipped steps only informs (`cost.toml`).
    AlertText(
        FindingKind.REPLICA_DRIFT,
        Severity.PAGE,
        "its replicas train different models",
        "Data-parallel replicas have differed since the first comparison of their parameters.",
        "Each replica trains on its part of the data alone. A checkpoint holds one of them.",
        "Run `stepwatch incidents`: it says if they exchange gradients. Stop the job, and look for "
        "a forward past DistributedDataParallel.",
    ),
    # A restart from a checkpoint costs minutes and frees the memory; a crash loop has its own
    # alert.
    AlertText(
        FindingKind.MEMORY_GROWTH,
        Severity.TICKET,
        "a rank's memory grows without end",
        "A rank's memory grows from step to step and would reach its limit.",
        "At the limit the kernel kills the rank, and the whole job restarts, repeatedly.",
        "Run `stepwatch incidents`: it names the rank, the memory, and the time of its limit.",
    ),
    # The model's owner decides in the morning; non-finite numbers have their own page.
    AlertText(
        FindingKind.LOSS_ANOMALY,
        Severity.TICKET,
        "its loss no longer falls as before",
        "The loss jumped, rises slowly or has reached a plateau.",
        "The steps since then may be lost: the job has to train them again.",
        "Run `stepwatch incidents`: it names the step. Look for a change there: data, learning "
        "rate, a restart.",
    ),
    # A fault that stops the job pages as a hang or as not restarted, with this as its cause. This
    # ticket is for removing the node in working hours.
    AlertText(
        FindingKind.NODE_FAULT,
        Severity.TICKET,
        "one of its nodes has a fault",
        "A probe found a fault of a device, the kernel, a disk or a network port.",
        "Ranks on the node are slower than elsewhere, or end with the next error. A job that "
        "restarts there meets the same fault.",
        "Run `stepwatch incidents`: it names the node, the part, the reading and the action. "
        "Keep new jobs off the node first.",
    ),
)

ALERTS = tuple(alert(text) for text in _TEXTS)
