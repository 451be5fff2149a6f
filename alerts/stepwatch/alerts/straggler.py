"""TrainingStraggler: one rank holds the others back."""

from __future__ import annotations

from stepwatch.signals.names import (
    ALERT_STRAGGLER,
    CAUSE,
    JOB,
    JOB_RUNNING,
    PHASE,
    SLOT,
    STRAGGLER_RANK,
    STRAGGLER_SLOWDOWN,
)

from .expressions import while_running, worst
from .spec import Alert, Case, Fired, Severity
from .thresholds import SLOWDOWN_RATIO

# The alert's labels name only the job; who is slow is looked up when the text is written, so that a
# second straggler changes the text and does not wake anybody again.
_WHO = (
    f"{{{{ range printf `max by ({SLOT}, {PHASE}, {CAUSE}) ({STRAGGLER_RANK.name}{{{JOB}=%q}})` "
    f"$labels.{JOB} | query | sortByLabel `{SLOT}` }}}}"
    f" Rank {{{{ .Value }}}} in {{{{ .Labels.{PHASE} }}}}, cause: {{{{ .Labels.{CAUSE} }}}}."
    "{{ end }}"
)


def _series(slowdown: str, running: str = "1x40") -> dict[str, str]:
    slot = f'{{{JOB}="llama",{SLOT}="0",{PHASE}="forward",{CAUSE}="cpu-steal"}}'
    return {
        f"{STRAGGLER_SLOWDOWN.name}{slot}": slowdown,
        f"{STRAGGLER_RANK.name}{slot}": "2x40",
        f'{JOB_RUNNING.name}{{{JOB}="llama"}}': running,
    }


ALERT = Alert(
    name=ALERT_STRAGGLER,
    expr=while_running(f"{worst(STRAGGLER_SLOWDOWN)} > {SLOWDOWN_RATIO}"),
    severity=Severity.TICKET,
    for_seconds=30,
    keep_firing_seconds=300,
    summary=(
        f"Job {{{{ $labels.{JOB} }}}}: "
        "one rank is {{ $value | humanize }}x slower than its peers"
    ),
    description="The slowest rank sets the pace of all the others." + _WHO,
    impact="Every device of the job waits for this rank in each step; nothing is lost but time.",
    first_action="Run `stepwatch incidents`: it names rank, node, phase and cause.",
    cases=(
        Case(
            name="a rank at 1.8 times its peers",
            series=_series("1.8x40"),
            at_seconds=120,
            fired=(
                Fired(
                    {JOB: "llama"},
                    "Job llama: one rank is 1.8x slower than its peers",
                    "The slowest rank sets the pace of all the others."
                    " Rank 2 in forward, cause: cpu-steal.",
                ),
            ),
        ),
        Case(
            name="silent at 1.2 times its peers",
            series=_series("1.2x40"),
            at_seconds=300,
        ),
        Case(
            name="silent after the job ended",
            series=_series("1.8x40", running="0x40"),
            at_seconds=300,
        ),
        Case(
            name="silent after one slow moment",
            series=_series("1x5 1.8 1x34"),
            at_seconds=105,
        ),
    ),
)
