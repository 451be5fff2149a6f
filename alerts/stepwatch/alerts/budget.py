"""TrainingBudgetBurning: an SLO's budget goes so fast that somebody must look."""

from __future__ import annotations

from stepwatch.signals.names import (
    ALERT_BUDGET_BURNING,
    ALERT_BUDGET_BURNING_FAST,
    JOB,
    JOB_CLASS,
    JOB_INFO,
    JOB_RUNNING,
    SEVERITY,
    SLO,
    SLO_BURN_RATE,
)

from .expressions import BY_JOB, both, while_running, worst
from .links import JOB_TEMPLATE
from .spec import Alert, Case, Fired, Severity

PAGED_CLASS = "production"
"""Jobs of this class page; of any other they wait for working hours."""

_FAST = f'max {BY_JOB} ({SLO_BURN_RATE.name}{{{SEVERITY}="{Severity.PAGE.value}"}}) > 0'
_PAGED = f'max {BY_JOB} ({JOB_INFO.name}{{{JOB_CLASS}="{PAGED_CLASS}"}}) > 0'
_PAGES = both(_FAST, _PAGED)
_WHICH = (
    f"{{{{ range printf `max by ({SLO}) ({SLO_BURN_RATE.name}{{{JOB}=%q}})` $labels.{JOB} "
    f"| query | sortByLabel `{SLO}` }}}}SLO {{{{ .Labels.{SLO} }}}} burns at "
    "{{ .Value | humanize }}x. {{ end }}"
)
_TEXT = "At 1x a budget lasts exactly as long as its window."


def _series(severity: str, burn: str, job_class: str, running: str = "1x40") -> dict[str, str]:
    return {
        f'{SLO_BURN_RATE.name}{{{JOB}="llama",{SLO}="goodput",{SEVERITY}="{severity}"}}': burn,
        f'{JOB_INFO.name}{{{JOB}="llama",{JOB_CLASS}="{job_class}"}}': "1x40",
        f'{JOB_RUNNING.name}{{{JOB}="llama"}}': running,
    }


_SEEN = f"SLO goodput burns at 15x. {_TEXT}"
_FAST_WHAT = "an error budget goes fast"
_WHAT = "an error budget will not last"

FAST = Alert(
    name=ALERT_BUDGET_BURNING_FAST,
    expr=while_running(_PAGES),
    severity=Severity.PAGE,
    # The engine looks at a long and at a short window itself.
    for_seconds=30,
    keep_firing_seconds=300,
    summary=f"Job {JOB_TEMPLATE}: {_FAST_WHAT}",
    description=_WHICH + _TEXT,
    impact="Within hours the SLO's whole budget is gone: device-time is lost at this moment.",
    first_action="Run `stepwatch slo JOB SLO`: what ate the budget, and which incidents cost most.",
    cases=(
        Case(
            "two percent of the budget in an hour",
            _series("page", "_x3 15x37", "production"),
            300,
            (Fired({JOB: "llama"}, f"Job llama: {_FAST_WHAT}", _SEEN),),
        ),
        Case("no page for an experiment", _series("page", "15x40", "experiment"), 300),
        Case("no page for a slow burn", _series("ticket", "15x40", "production"), 300),
        Case("it resolves", _series("page", "15x10 stale", "production"), 600),
        Case("a late scrape", _series("page", "15x10 _x2 15x20", "production"), 180,
             (Fired({JOB: "llama"}, f"Job llama: {_FAST_WHAT}", _SEEN),)),
        Case("no page once the job ended", _series("page", "15x40", "production", "0x40"), 300),
    ),
)  # fmt: skip
SLOW = Alert(
    name=ALERT_BUDGET_BURNING,
    expr=while_running(f"({worst(SLO_BURN_RATE)} > 0)\nunless on ({JOB})\n({_PAGES})"),
    severity=Severity.TICKET,
    for_seconds=30,
    keep_firing_seconds=300,
    summary=f"Job {JOB_TEMPLATE}: {_WHAT}",
    description=_WHICH + _TEXT,
    impact="At this rate the SLO is missed before its window ends; device-time is lost meanwhile.",
    first_action="Run `stepwatch slo JOB SLO`: what ate the budget, and which incidents cost most.",
    cases=(
        Case(
            "ten percent of the budget in three days",
            _series("ticket", "_x3 15x37", "production"),
            300,
            (Fired({JOB: "llama"}, f"Job llama: {_WHAT}", _SEEN),),
        ),
        Case(
            "a fast burn of an experiment",
            _series("page", "15x40", "experiment"),
            300,
            (Fired({JOB: "llama"}, f"Job llama: {_WHAT}", _SEEN),),
        ),
        Case("no ticket beside the page", _series("page", "15x40", "production"), 300),
        Case("no ticket where nothing burns", _series("ticket", "_x40", "production"), 300),
        Case("no ticket once the job ended", _series("ticket", "15x40", "trial", "0x40"), 300),
    ),
)
ALERTS = (FAST, SLOW)
