"""TrainingCheckpointUnverified: several checkpoints in a row failed or did not verify."""

from __future__ import annotations

from stepwatch.alerts.expressions import while_running, worst
from stepwatch.alerts.links import JOB_TEMPLATE
from stepwatch.alerts.spec import Alert, Case, Fired, Severity, Situation
from stepwatch.alerts.thresholds import FAILED_CHECKPOINTS
from stepwatch.signals.names import (
    ALERT_CHECKPOINT_UNVERIFIED,
    CHECKPOINT_FAILURES_IN_A_ROW,
    JOB,
    JOB_RUNNING,
)

_RUNNING = f'{JOB_RUNNING.name}{{{JOB}="llama"}}'


def _series(failures: str, running: str = "1x40") -> dict[str, str]:
    name = f'{CHECKPOINT_FAILURES_IN_A_ROW.name}{{{JOB}="llama"}}'
    return {name: failures, _RUNNING: running}


_WHAT = "its newest checkpoints cannot be used"
_DESCRIPTION = (
    f"At least {FAILED_CHECKPOINTS} in a row failed or did not verify, or a good one is lost."
)

ALERT = Alert(
    name=ALERT_CHECKPOINT_UNVERIFIED,
    expr=while_running(f"{worst(CHECKPOINT_FAILURES_IN_A_ROW)} >= {FAILED_CHECKPOINTS}"),
    severity=Severity.PAGE,
    # Checkpoints are minutes apart, so waiting has no benefit.
    for_seconds=0,
    keep_firing_seconds=300,
    summary=f"Job {JOB_TEMPLATE}: {_WHAT}",
    description=_DESCRIPTION,
    impact=(
        "A restart would lose all work since the last verified checkpoint. The loss exceeds the "
        "recovery point objective of two intervals and grows with every step."
    ),
    first_action=(
        "Run `stepwatch checkpoints JOB`: it names the last verified checkpoint. Protect it from "
        "deletion, and do not restart the job before another one verifies."
    ),
    cases=(
        Case(
            name="the second in a row",
            series=_series("0x3 1x3 2x34"),
            at_seconds=180,
            fired=(Fired({JOB: "llama"}, f"Job llama: {_WHAT}", _DESCRIPTION),),
        ),
        Case(
            "one verifies between two failing pairs",
            _series("2x3 0x3 1 2x34"),
            240,
            (Fired({JOB: "llama"}, f"Job llama: {_WHAT}", _DESCRIPTION),),
            situation=Situation.FLAPPING,
        ),
        Case("no alert after a single one", _series("0x3 1x37"), 300),
        Case("it resolves once one verifies", _series("2x3 0x37"), 420),
        Case("no alert after the job ended", _series("2x40", running="0x40"), 300),
        Case(
            "no alert while nothing is known", {_RUNNING: "1x40"}, 300, situation=Situation.MISSING
        ),
    ),
)
