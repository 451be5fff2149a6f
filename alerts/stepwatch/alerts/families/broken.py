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
        "The ranks disagree about what comes next: another order, operation or shape.",
        "Every device of the job is paid for and idle. It never goes on by itself: at the "
        "collective timeout it crashes.",
        "Run `stepwatch incidents`: it names the rank that differs, and its collective. Look at it "
        "before anybody restarts the job, since the evidence dies with the process.",
    ),
    # The launcher restarts the job once. A job that stays down pages: as a hang while ranks remain,
    # else as not restarted.
    AlertText(
        FindingKind.RANK_FAILED,
        Severity.TICKET,
        "a rank ended before the job did",
        "A rank's process died or raised an exception while the job runs.",
        "The launcher restarts all ranks; the steps since the newest verified checkpoint are lost.",
        "Run `stepwatch status`: does a new attempt make steps? If not, do not wait for the "
        "collective timeout: go on with the runbook.",
        when_failed=True,
    ),
    # Every further step is wasted, and a new checkpoint holds the damage. There is no back-stop: an
    # agent sees only its own node's digests, and only the collector knows the replicas.
    AlertText(
        FindingKind.SILENT_CORRUPTION,
        Severity.PAGE,
        "replicas that must agree differ",
        "Parameters that data-parallel replicas hold in common are not the same on all of them.",
        "The replicas train different models. Each checkpoint since the first difference may "
        "hold wrong numbers.",
        "Run `stepwatch incidents`: it names the rank and the step. Keep the newest checkpoint "
        "from before that step from being deleted, and take the node out.",
    ),
    # A restart from a checkpoint costs minutes and frees the memory; a crash loop has its own
    # alert.
    AlertText(
        FindingKind.MEMORY_GROWTH,
        Severity.TICKET,
        "the memory of a rank keeps growing",
        "A rank's memory grows from step to step and would reach its limit.",
        "When it reaches the limit, the rank is killed and the whole job restarts, over and over.",
        "Run `stepwatch incidents`: it names the rank, device or host, and when it is full.",
    ),
    # The model's owner decides in the morning; non-finite numbers have their own page.
    AlertText(
        FindingKind.LOSS_ANOMALY,
        Severity.TICKET,
        "its loss no longer falls as before",
        "The loss jumped, rises slowly or has reached a plateau.",
        "The steps since then may have to be discarded and trained again.",
        "Run `stepwatch incidents`: it names the step. What changed there: data, learning rate, "
        "a restart?",
    ),
    # A fault that stops the job pages as a hang or as not restarted, with this as its cause. This
    # ticket is for removing the node in working hours.
    AlertText(
        FindingKind.NODE_FAULT,
        Severity.TICKET,
        "a node of it is at fault",
        "A probe found a device, the kernel, a disk or a network port of a node at fault.",
        "What runs on the node is slower than elsewhere, or ends with the next error. A job that "
        "is started again there meets the same fault.",
        "Run `stepwatch incidents`: it names the node, the part, what was read, and what to do. "
        "Keep new jobs off the node first.",
    ),
)

ALERTS = tuple(alert(text) for text in _TEXTS)
