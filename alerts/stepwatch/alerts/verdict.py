"""Alerts on incidents by kind: common rules and tests, with the texts as data."""

from __future__ import annotations

from typing import NamedTuple

from stepwatch.collector.incidents.lifecycle import REOPEN_WITHIN_SECONDS
from stepwatch.signals.names import (
    ALERT_OF,
    INCIDENT_OPEN,
    JOB,
    JOB_RUNNING,
    KIND,
    SECONDS_SINCE_FAILURE,
    FindingKind,
)

from .expressions import RUNNING, and_on_job, either, incident, while_running
from .links import JOB_TEMPLATE
from .spec import Alert, Case, Fired, Severity, Situation

LASTING_SECONDS = 30
"""How long a ticket's incident must be open: two scrapes at the usual 15 s. A page fires at once,
since the detector has already waited.
"""

KEEP_FIRING_SECONDS = int(REOPEN_WITHIN_SECONDS)
"""A closed incident may reopen within that time: one alert, not two."""


class AlertText(NamedTuple):
    """Texts for the alert on one incident kind.

    `headline` follows "Job NAME: ". No text has a template, so that all instances read the same.
    `when_failed`: a job that all ranks left, one with a failure, alerts like a running job.
    """

    kind: FindingKind
    severity: Severity
    headline: str
    description: str
    impact: str
    first_action: str
    when_failed: bool = False


def alert(text: AlertText) -> Alert:
    """Return the alert that fires while a running job has an open incident of the kind."""
    condition = incident(text.kind)
    return Alert(
        name=ALERT_OF[text.kind],
        expr=and_on_job(condition, _ALIVE) if text.when_failed else while_running(condition),
        severity=text.severity,
        for_seconds=0 if text.severity is Severity.PAGE else LASTING_SECONDS,
        keep_firing_seconds=KEEP_FIRING_SECONDS,
        summary=_summary(text, JOB_TEMPLATE),
        description=text.description,
        impact=text.impact,
        first_action=text.first_action,
        cases=_cases(text),
    )


_ALIVE = either(RUNNING, f"{SECONDS_SINCE_FAILURE.name} >= 0")
"""Running jobs, and failed jobs that were not restarted yet."""


def _summary(text: AlertText, job: str) -> str:
    return f"Job {job}: {text.headline}"


def _cases(text: AlertText) -> tuple[Case, ...]:
    fired = (Fired({JOB: "llama"}, _summary(text, "llama"), text.description),)
    cases: tuple[Case, ...] = (
        Case("the detector opened an incident", _series(text.kind, "0x3 1x76"), 120, fired),
        Case(
            "the alert stays while the incident closes and reopens",
            _closing(text.kind),
            240,
            fired,
            situation=Situation.FLAPPING,
        ),
        Case(
            "the collector is restarted",
            _restarted(text.kind),
            240,
            fired,
            situation=Situation.RESTART,
        ),
        Case(
            "no alert while only another kind is open",
            _series(_different_kind(text.kind), "1x80"),
            300,
        ),
        Case("no alert after the job ended", _series(text.kind, "1x80", running="0x80"), 300),
        Case(
            "no alert while nothing is known",
            {_running(): "1x80"},
            300,
            situation=Situation.MISSING,
        ),
    )
    if text.severity is Severity.PAGE:
        return cases
    brief = _series(text.kind, "0x3 1 0x76")
    if text.when_failed:
        failed = _series(text.kind, "0x3 1x76", running="1x4 0x75")
        failed[f'{SECONDS_SINCE_FAILURE.name}{{{JOB}="llama"}}'] = "_x4 0+15x75"
        cases = (*cases, Case("all ranks ended, and no new attempt began", failed, 120, fired))
    return (*cases, Case("no alert after an incident of one scrape", brief, 120))


def _closing(kind: FindingKind) -> dict[str, str]:
    return _series(kind, "0x3 1x5 0x8 1x62")


def _restarted(kind: FindingKind) -> dict[str, str]:
    return _series(kind, "0x3 1x7 stale _x3 1x60", running="1x10 stale _x3 1x60")


def _different_kind(kind: FindingKind) -> FindingKind:
    kinds = list(FindingKind)
    return kinds[(kinds.index(kind) + 1) % len(kinds)]


def _series(kind: FindingKind, open_incidents: str, running: str = "1x80") -> dict[str, str]:
    name = f'{INCIDENT_OPEN.name}{{{JOB}="llama",{KIND}="{kind.value}"}}'
    return {name: open_incidents, _running(): running}


def _running() -> str:
    return f'{JOB_RUNNING.name}{{{JOB}="llama"}}'
