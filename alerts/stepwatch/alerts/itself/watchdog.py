"""StepwatchWatchdog: it always fires, so that its absence reveals a broken alert path."""

from __future__ import annotations

from stepwatch.alerts.spec import Alert, Case, Fired, Severity, Situation
from stepwatch.signals.names import ALERT_WATCHDOG, COLLECTOR_JOBS

_SUMMARY = "The alert that always fires"
_DESCRIPTION = "A receiver that misses it has lost Prometheus, Alertmanager or the way to them."

ALERT = Alert(
    name=ALERT_WATCHDOG,
    expr="vector(1) > 0",
    # It is routed by name and must never page.
    severity=Severity.TICKET,
    for_seconds=0,
    keep_firing_seconds=120,
    summary=_SUMMARY,
    description=_DESCRIPTION,
    impact="None while it arrives. Without it no other alert arrives either.",
    first_action="None while it arrives. If it stopped, check Prometheus and Alertmanager.",
    cases=(
        Case(
            "nothing is scraped",
            {},
            60,
            (Fired({}, _SUMMARY, _DESCRIPTION),),
            situation=Situation.MISSING,
        ),
        Case(
            "a collector is restarted",
            {COLLECTOR_JOBS.name: "1x4 stale _x4 1x10"},
            120,
            (Fired({}, _SUMMARY, _DESCRIPTION),),
            situation=Situation.RESTART,
        ),
    ),
    of_jobs=False,
    never_silent=True,
)
