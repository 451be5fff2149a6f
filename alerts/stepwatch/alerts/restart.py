"""TrainingNotRestarted: a job failed on all ranks and was not restarted."""

from __future__ import annotations

from stepwatch.signals.names import (
    ALERT_NOT_RESTARTED,
    JOB,
    JOB_RUNNING,
    SECONDS_SINCE_FAILURE,
)

from .expressions import RUNNING, worst
from .links import JOB_TEMPLATE
from .spec import Alert, Case, Fired, Severity
from .thresholds import FAILED_SECONDS


def _series(failed: str, running: str) -> dict[str, str]:
    return {
        f'{SECONDS_SINCE_FAILURE.name}{{{JOB}="llama"}}': failed,
        f'{JOB_RUNNING.name}{{{JOB}="llama"}}': running,
    }


_WHAT = "failed, and no new attempt began"
_DESCRIPTION = "All ranks of the newest attempt ended, at least one of them in a failure."

ALERT = Alert(
    name=ALERT_NOT_RESTARTED,
    # An attempt that any collector sees running is a restart.
    expr=(f"({worst(SECONDS_SINCE_FAILURE)} > {FAILED_SECONDS:g})\nunless on ({JOB})\n({RUNNING})"),
    severity=Severity.PAGE,
    # The metric counts the seconds itself.
    for_seconds=0,
    keep_firing_seconds=120,
    summary=f"Job {JOB_TEMPLATE} {_WHAT}",
    description=_DESCRIPTION,
    impact=(
        "Nothing trains any more. Its devices are idle or released; the job does not continue by "
        "itself."
    ),
    first_action=(
        "Run `stepwatch incidents`: it names the rank that failed first, and why. What fails at "
        "each start must be fixed before the job is submitted again."
    ),
    cases=(
        Case(
            name="nobody restarts a failed job",
            series=_series("_x10 0+15x80", "1x10 0x80"),
            at_seconds=600,
            fired=(Fired({JOB: "llama"}, f"Job llama {_WHAT}", _DESCRIPTION),),
        ),
        Case(
            name="no alert while its launcher has time to restart it",
            series=_series("_x10 0+15x80", "1x10 0x80"),
            at_seconds=450,
        ),
        Case(
            name="it resolves when a new attempt begins",
            series=_series("_x10 0+15x30 stale", "1x10 0x30 1x40"),
            at_seconds=780,
        ),
        Case(
            name="no alert where another collector sees a new attempt",
            series={
                **_series("0+15x80", "0x80"),
                f'{JOB_RUNNING.name}{{{JOB}="llama",instance="other"}}': "1x80",
            },
            at_seconds=900,
        ),
        Case(
            name="no alert after a job that finished, or was preempted and ended cleanly",
            series={f'{JOB_RUNNING.name}{{{JOB}="llama"}}': "1x10 0x80"},
            at_seconds=900,
        ),
    ),
)
