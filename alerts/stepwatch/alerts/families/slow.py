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
        "The loaders do not keep up: too much of each step is spent waiting for a batch.",
        "Every device idles for that share of each step.",
        f"{_WHERE} the share lost, and whether all ranks wait or those of one node.",
    ),
    AlertText(
        FindingKind.DATA_SKEW,
        Severity.TICKET,
        "its ranks do not get the same amount of data",
        "One rank's batches hold more or fewer tokens than those of its peers.",
        "The rank with the most work sets the pace, and the mean of the gradients is weighted "
        "wrongly if the trainer counts ranks instead of tokens.",
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
        "Every rank of the group is blocked for as long, in each step.",
        f"{_WHERE} the operation, the group, and whether one node's link or all are slow.",
    ),
    # One failed checkpoint is transient; several in a row page as TrainingCheckpointUnverified.
    AlertText(
        FindingKind.CHECKPOINT_STALL,
        Severity.TICKET,
        "its checkpoints delay the training or fail",
        "A checkpoint delays the next step of the ranks for too long, or it failed.",
        "Every device idles while a checkpoint is written; if storage fails, a restart loses more "
        "and more steps.",
        f"{_WHERE} how long it took. Run `stepwatch status`: is the newest verified "
        "checkpoint recent?",
    ),
    AlertText(
        FindingKind.THROUGHPUT_REGRESSION,
        Severity.TICKET,
        "it makes fewer steps per hour than its baseline",
        "All ranks became slower together, compared with the run's own baseline or with its class.",
        "The run takes longer and costs more by that ratio.",
        f"{_WHERE} the step since when, and the phase that grew.",
    ),
    # The wait may be legitimate: nothing proves a fault. A long one becomes a hang and pages.
    AlertText(
        FindingKind.PAUSE,
        Severity.TICKET,
        "it makes no step, but nothing shows a hang",
        "A rank waits, evaluates, saves or computes in what no hook recognises, or in what never "
        "took so long before.",
        "No step is made meanwhile. Where other ranks wait for it in a collective, their devices "
        "idle, and at the collective timeout the job crashes.",
        f"{_WHERE} the rank that the others wait for, its Python line, what it does, and what the "
        "wait costs.",
    ),
)

ALERTS = tuple(alert(text) for text in _TEXTS)
