"""TrainingStraggler: one rank slows the others."""

from __future__ import annotations

from stepwatch.alerts.expressions import above, either, incident, while_running
from stepwatch.alerts.spec import Alert, Case, Fired, Severity, Situation
from stepwatch.alerts.thresholds import SLOWDOWN_RATIO
from stepwatch.signals.names import (
    ALERT_STRAGGLER,
    CAUSE,
    INCIDENT_OPEN,
    JOB,
    JOB_RUNNING,
    KIND,
    PHASE,
    SLOT,
    STRAGGLER_RANK,
    STRAGGLER_SLOWDOWN,
    FindingKind,
)

# The alert's labels name only the job. The template looks up the slow ranks, so that a second
# straggler changes the text without another page.
_WHO = (
    f"{{{{ range printf `max by ({SLOT}, {PHASE}, {CAUSE}) ({STRAGGLER_RANK.name}{{{JOB}=%q}})` "
    f"$labels.{JOB} | query | sortByLabel `{SLOT}` }}}}"
    f" Rank {{{{ .Value }}}} in {{{{ .Labels.{PHASE} }}}}, cause: {{{{ .Labels.{CAUSE} }}}}."
    "{{ end }}"
)


_HOW_MUCH = (
    f"{{{{ with printf `max({STRAGGLER_SLOWDOWN.name}{{{JOB}=%q}})` $labels.{JOB} | query }}}}"
    " The worst takes {{ . | first | value | humanize }} times as long as its peers."
    "{{ end }}"
)
_ALWAYS = "The slowest rank sets the pace of all others."


_IN_SLOT = f'{{{JOB}="llama",{SLOT}="0",{PHASE}="forward",{CAUSE}="cpu-contention"}}'
_SLOWDOWN = f"{STRAGGLER_SLOWDOWN.name}{_IN_SLOT}"
_RANK = f"{STRAGGLER_RANK.name}{_IN_SLOT}"


def _series(slowdown: str, running: str = "1x40", incidents: str = "0x40") -> dict[str, str]:
    return {
        _SLOWDOWN: slowdown,
        _RANK: "2x40",
        f'{JOB_RUNNING.name}{{{JOB}="llama"}}': running,
        f'{INCIDENT_OPEN.name}{{{JOB}="llama",{KIND}="{FindingKind.STRAGGLER.value}"}}': incidents,
    }


ALERT = Alert(
    name=ALERT_STRAGGLER,
    expr=while_running(
        # An intermittent straggler leaves its slot between two slow periods; its incident stays
        # open.
        either(above(STRAGGLER_SLOWDOWN, SLOWDOWN_RATIO), incident(FindingKind.STRAGGLER))
    ),
    severity=Severity.TICKET,
    for_seconds=30,
    keep_firing_seconds=300,
    summary=f"Job {{{{ $labels.{JOB} }}}}: a rank slows the others down",
    description=_ALWAYS + _WHO + _HOW_MUCH,
    impact="Every device of the job waits for this rank in each step. Only time is lost.",
    first_action="Run `stepwatch incidents`: it names rank, node, phase and cause.",
    cases=(
        Case(
            name="a rank at 1.8 times its peers",
            series=_series("1.8x40"),
            at_seconds=120,
            fired=(
                Fired(
                    {JOB: "llama"},
                    "Job llama: a rank slows the others down",
                    f"{_ALWAYS} Rank 2 in forward, cause: cpu-contention."
                    " The worst takes 1.8 times as long as its peers.",
                ),
            ),
        ),
        Case(
            name="an intermittent rank, between two slow spells",
            situation=Situation.FLAPPING,
            series={
                **_series("1.8 stale _ _ 1.8 stale", incidents="0 1x39"),
                _RANK: "2 stale _ _ 2 stale",
            },
            at_seconds=120,
            fired=(Fired({JOB: "llama"}, "Job llama: a rank slows the others down", _ALWAYS),),
        ),
        Case(
            name="the collector restarts",
            series={
                **_series("1.8x6 stale _x2 1.8x30", "1x6 stale _x2 1x30", "1x6 stale _x2 1x30"),
                _RANK: "2x6 stale _x2 2x30",
            },
            at_seconds=300,
            fired=(
                Fired(
                    {JOB: "llama"},
                    "Job llama: a rank slows the others down",
                    f"{_ALWAYS} Rank 2 in forward, cause: cpu-contention."
                    " The worst takes 1.8 times as long as its peers.",
                ),
            ),
            situation=Situation.RESTART,
        ),
        Case(
            name="no alert at 1.2 times its peers",
            series=_series("1.2x40"),
            at_seconds=300,
        ),
        Case(
            name="no alert after the job ended",
            series=_series("1.8x40", running="0x40"),
            at_seconds=300,
        ),
        Case(
            name="no alert after one slow moment",
            series=_series("1x5 1.8 1x34"),
            at_seconds=105,
        ),
    ),
)
