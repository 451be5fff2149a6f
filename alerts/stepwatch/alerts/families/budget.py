"""TrainingBudgetBurning: an SLO's error budget burns fast, and a person must act."""

from __future__ import annotations

from stepwatch.alerts.expressions import BY_JOB, while_running, worst
from stepwatch.alerts.links import JOB_TEMPLATE
from stepwatch.alerts.memory import recorded_name
from stepwatch.alerts.spec import Alert, Case, Fired, Recording, Severity, Situation
from stepwatch.alerts.thresholds import WASTE_RATIO, WASTE_SHARE
from stepwatch.signals.names import (
    ALERT_BUDGET_BURNING,
    ALERT_BUDGET_BURNING_FAST,
    ALERT_COST_ANOMALY,
    JOB,
    JOB_RUNNING,
    SEVERITY,
    SLI,
    SLI_GOOD,
    SLI_TOTAL,
    SLO,
    SLO_BURN_RATE,
)

_FAST = f'max {BY_JOB} ({SLO_BURN_RATE.name}{{{SEVERITY}="{Severity.PAGE.value}"}}) > 0'
_WHICH = (
    f"{{{{ range printf `max by ({SLO}) ({SLO_BURN_RATE.name}{{{JOB}=%q}})` $labels.{JOB} "
    f"| query | sortByLabel `{SLO}` }}}}SLO {{{{ .Labels.{SLO} }}}} burns at "
    "{{ .Value | humanize }}x. {{ end }}"
)
_TEXT = "At 1x a budget lasts exactly as long as its window."


def _series(severity: str, burn: str, running: str = "1x40") -> dict[str, str]:
    return {
        f'{SLO_BURN_RATE.name}{{{JOB}="llama",{SLO}="goodput",{SEVERITY}="{severity}"}}': burn,
        f'{JOB_RUNNING.name}{{{JOB}="llama"}}': running,
    }


_SEEN = f"SLO goodput burns at 15x. {_TEXT}"
_FAST_WHAT = "an error budget burns fast"
_WHAT = "an error budget will not last"
_FIRST_ACTION = (
    "Run `stepwatch slo JOB SLO`: it shows spending by cause, and the costliest incidents."
)

FAST = Alert(
    name=ALERT_BUDGET_BURNING_FAST,
    expr=while_running(_FAST),
    severity=Severity.PAGE,
    # The SLO engine already uses a long and a short window.
    for_seconds=30,
    keep_firing_seconds=300,
    summary=f"Job {JOB_TEMPLATE}: {_FAST_WHAT}",
    description=_WHICH + _TEXT,
    impact="The SLO's whole budget is gone within hours: device-time is lost now.",
    first_action=_FIRST_ACTION,
    cases=(
        Case(
            "two percent of the budget in an hour",
            _series("page", "_x3 15x37"),
            300,
            (Fired({JOB: "llama"}, f"Job llama: {_FAST_WHAT}", _SEEN),),
        ),
        Case("no page for a slow burn", _series("ticket", "15x40"), 300),
        Case("it resolves", _series("page", "15x10 stale"), 600),
        Case("a late scrape", _series("page", "15x10 _x2 15x20"), 180,
             (Fired({JOB: "llama"}, f"Job llama: {_FAST_WHAT}", _SEEN),),
             situation=Situation.LATE),
        Case("it burns now and then", _series("page", "15x10 stale _x3 15x3 stale _x3 15x20"), 420,
             (Fired({JOB: "llama"}, f"Job llama: {_FAST_WHAT}", _SEEN),),
             situation=Situation.FLAPPING),
        Case("no page once the job ended", _series("page", "15x40", "0x40"), 300),
    ),
)  # fmt: skip
SLOW = Alert(
    name=ALERT_BUDGET_BURNING,
    expr=while_running(f"({worst(SLO_BURN_RATE)} > 0)\nunless on ({JOB})\n({_FAST})"),
    severity=Severity.TICKET,
    for_seconds=30,
    keep_firing_seconds=300,
    summary=f"Job {JOB_TEMPLATE}: {_WHAT}",
    description=_WHICH + _TEXT,
    impact="At this rate the SLO is missed before its window ends.",
    first_action=_FIRST_ACTION,
    cases=(
        Case(
            "ten percent of the budget in three days",
            _series("ticket", "_x3 15x37"),
            300,
            (Fired({JOB: "llama"}, f"Job llama: {_WHAT}", _SEEN),),
        ),
        Case(
            "it burns now and then",
            _series("ticket", "15x10 stale _x3 15x3 stale _x3 15x20"),
            420,
            (Fired({JOB: "llama"}, f"Job llama: {_WHAT}", _SEEN),),
            situation=Situation.FLAPPING,
        ),
        Case("no ticket beside the page", _series("page", "15x40"), 300),
        Case("no ticket where nothing burns", _series("ticket", "_x40"), 300),
        Case("no ticket once the job ended", _series("ticket", "15x40", "0x40"), 300),
    ),
)

_HOUR, _DAY = 3600, 86400


_GOODPUT = f'{{{SLI}="goodput"}}'
WASTED_SO_FAR = Recording(
    recorded_name((JOB,), SLI_TOTAL, "wasted"),
    f"max {BY_JOB} ({SLI_TOTAL.name}{_GOODPUT})\n- max {BY_JOB} ({SLI_GOOD.name}{_GOODPUT})",
)
"""Unproductive device-seconds since the job began."""
# A difference between two sums reads two samples per series at any range.
_NOW, _HOUR_AGO, _DAY_BEFORE = (
    f"{WASTED_SO_FAR.name}{end}" for end in ("", f" offset {_HOUR}s", f" offset {_HOUR + _DAY}s")
)
_IN_HOUR = f"({_NOW} - {_HOUR_AGO})"
_SPENT_IN_HOUR = " - ".join(
    f"max {BY_JOB} ({SLI_TOTAL.name}{_GOODPUT}{end})" for end in ("", f" offset {_HOUR}s")
)


def _sums(good: str, running: str = "1x400") -> dict[str, str]:
    """Return cumulative sums every five minutes; the total grows by 300 device-seconds."""
    return {
        f'{SLI_TOTAL.name}{{{JOB}="llama",{SLI}="goodput"}}': "0+300x400",
        f'{SLI_GOOD.name}{{{JOB}="llama",{SLI}="goodput"}}': good,
        f'{JOB_RUNNING.name}{{{JOB}="llama"}}': running,
    }


_WASTES = "wastes more device-time than it did"
_WASTE_TEXT = (
    f"In the last hour more than {WASTE_SHARE:.0%} of it was unproductive, and more than "
    f"{WASTE_RATIO:g} times as much as in the day before."
)
_WASTED = (Fired({JOB: "llama"}, f"Job llama {_WASTES}", _WASTE_TEXT),)
_AT_30_HOURS = 30 * _HOUR
_EVERY_SECOND = "0+297x336 " + " ".join(str(99792 + 300 * (n // 2)) for n in range(60))

COST = Alert(
    name=ALERT_COST_ANOMALY,
    expr=while_running(
        # A chained comparison costs half as much as two comparisons with `and`.
        f"({_IN_HOUR} > {WASTE_SHARE:g} * ({_SPENT_IN_HOUR}))\n"
        f"> {WASTE_RATIO * _HOUR / _DAY:g} * ({_HOUR_AGO} - {_DAY_BEFORE})"
    ),
    recordings=(WASTED_SO_FAR,),
    severity=Severity.TICKET,
    for_seconds=600,
    keep_firing_seconds=1800,
    summary=f"Job {JOB_TEMPLATE} {_WASTES}",
    description=_WASTE_TEXT,
    impact="The same work costs more: restarts, stalls or slow ranks take paid device-time.",
    first_action="Run `stepwatch report`: it shows device-time and money by cause.",
    cases=(
        Case(
            "from one percent to half", _sums("0+297x336 99942+150x60"), _AT_30_HOURS, _WASTED, 300
        ),
        Case(
            "every second five minutes are wasted",
            _sums(_EVERY_SECOND),
            _AT_30_HOURS,
            _WASTED,
            300,
            situation=Situation.FLAPPING,
        ),
        Case("no ticket where it always is so", _sums("0+150x400"), _AT_30_HOURS, (), 300),
        Case("no ticket for a little more", _sums("0+297x336 99942+280x60"), _AT_30_HOURS, (), 300),
        Case("no ticket while the day before is unknown", _sums("0+150x400"), 5 * _HOUR, (), 300),
        Case(
            "a restart of the collector",
            _sums("0+297x336 99942+150x20 stale _x1 103242+150x30"),
            _AT_30_HOURS,
            _WASTED,
            300,
            situation=Situation.RESTART,
        ),
        Case(
            "no ticket once the job ended",
            _sums("0+297x336 99942+150x60", running="0x400"),
            _AT_30_HOURS,
            (),
            300,
        ),
    ),
)
ALERTS = (FAST, SLOW, COST)
