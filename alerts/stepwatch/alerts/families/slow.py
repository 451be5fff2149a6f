"""Alerts on faults that only cost time: tickets, which wait for working hours."""

from __future__ import annotations

from stepwatch.alerts.spec import Severity
from stepwatch.alerts.verdict import AlertText, alert
from stepwatch.signals.names import FindingKind

_WHERE = "Run `stepwatch incidents`: it names"

_TEXTS = (
    AlertText(
        FindingKind.DATA_STALL,
        Severity.TICKET,
        "its ranks wait for data",
        "The loaders are too slow: ranks wait for a batch in too much of each step.",
        "Every device idles in that share of each step.",
        f"{_WHERE} the lost share, and whether all ranks or one node's ranks wait.",
    ),
    AlertText(
        FindingKind.DATA_SKEW,
        Severity.TICKET,
        "its ranks do not get the same amount of data",
        "One rank's batches hold more or fewer tokens than those of its peers.",
        "The rank with the most work sets the pace. The gradients' mean has wrong weights if the "
        "trainer counts ranks instead of tokens.",
        f"{_WHERE} the rank and its share of the tokens.",
    ),
    AlertText(
        FindingKind.PIPELINE_BUBBLE,
        Severity.TICKET,
        "its pipeline idles more than its schedule needs",
        "The stages of the pipeline wait for each other longer than the schedule's ideal.",
        "Every stage pays for the slowest one in each step.",
        f"{_WHERE} the stage that limits the pipeline and the bubble beside its ideal.",
    ),
    AlertText(
        FindingKind.SLOW_COLLECTIVE,
        Severity.TICKET,
        "a collective moves its bytes slowly",
        "The transfer itself is slow, not the wait for a late rank.",
        "The transfer blocks every rank of the group in each step.",
        f"{_WHERE} the operation, the group, and whether one node's link or all are slow.",
    ),
    # One failed checkpoint is transient; several in a row page as TrainingCheckpointUnverified.
    AlertText(
        FindingKind.CHECKPOINT_STALL,
        Severity.TICKET,
        "its checkpoints delay the training or fail",
        "A checkpoint delays the next step for too long, or it failed.",
        "Every device idles during the checkpoint. If storage fails, a restart loses more steps "
        "with every interval.",
        f"{_WHERE} the checkpoint's duration. `stepwatch status` shows the age of the newest "
        "verified checkpoint.",
    ),
    AlertText(
        FindingKind.THROUGHPUT_REGRESSION,
        Severity.TICKET,
        "it makes fewer steps per hour than its baseline",
        "All ranks became slower together, compared with the run's own baseline or with its class.",
        "The run takes longer and costs more by that ratio.",
        f"{_WHERE} the first slow step, and the phase that grew.",
    ),
    # The wait may be legitimate: nothing proves a fault. A long one becomes a hang and pages.
    AlertText(
        FindingKind.PAUSE,
        Severity.TICKET,
        "it makes no step, but nothing shows a hang",
        "A rank waits, evaluates, saves or computes outside every hook, or takes longer than ever "
        "before.",
        "The job makes no step. Where other ranks wait for it in a collective, their devices "
        "idle, and the job crashes at the collective timeout.",
        f"{_WHERE} the rank that the others wait for, its Python line, its activity, and the "
        "cost of the wait.",
    ),
)

ALERTS = tuple(alert(text) for text in _TEXTS)
