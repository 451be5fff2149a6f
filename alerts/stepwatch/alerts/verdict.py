"""Alerts that say what a detector found: one shape of rule and tests, the words as data."""

from __future__ import annotations

from typing import NamedTuple

from stepwatch.collector.incidents.lifecycle import REOPEN_WITHIN_SECONDS
from stepwatch.signals.names import (
    ALERT_OF,
    INCIDENT_OPEN,
    JOB,
    JOB_RUNNING,
    KIND,
    FindingKind,
)

from .expressions import incident, while_running
from .links import JOB_TEMPLATE
from .spec import Alert, Case, Fired, Severity

LASTING_SECONDS = 30
"""How long the incident of a ticket must be open: two scrapes at the usual 15 s. A page waits for
nothing, since the detector has waited already."""

KEEP_FIRING_SECONDS = int(REOPEN_WITHIN_SECONDS)
"""A closed incident may reopen for that long: one alert, not two."""


class Told(NamedTuple):
    """What an alert tells about an open incident of one kind.

    `headline` follows "Job NAME: "; no text holds a template, so that it says the same to all.
    """

    kind: FindingKind
    severity: Severity
    headline: str
    description: str
    impact: str
    first_action: str


def alert(told: Told) -> Alert:
    """The alert that fires while a running job has an open incident of the kind."""
    return Alert(
        name=ALERT_OF[told.kind],
        expr=while_running(incident(told.kind)),
        severity=told.severity,
        for_seconds=0 if told.severity is Severity.PAGE else LASTING_SECONDS,
        keep_firing_seconds=KEEP_FIRING_SECONDS,
        summary=_summary(told, JOB_TEMPLATE),
        description=told.description,
        impact=told.impact,
        first_action=told.first_action,
        cases=_cases(told),
    )


def _summary(told: Told, job: str) -> str:
    return f"Job {job}: {told.headline}"


def _cases(told: Told) -> tuple[Case, ...]:
    fired = (Fired({JOB: "llama"}, _summary(told, "llama"), told.description),)
    cases = (
        Case("the detector opened an incident", _series(told.kind, "0x3 1x76"), 120, fired),
        Case("it goes on while the incident closes and reopens", _closing(told.kind), 240, fired),
        Case("silent while only another kind is open", _series(_other(told.kind), "1x80"), 300),
        Case("silent after the job ended", _series(told.kind, "1x80", running="0x80"), 300),
        Case("silent while nothing is known", {_running(): "1x80"}, 300),
    )
    if told.severity is Severity.PAGE:
        return cases
    brief = _series(told.kind, "0x3 1 0x76")
    return (*cases, Case("silent after an incident of one scrape", brief, 120))


def _closing(kind: FindingKind) -> dict[str, str]:
    return _series(kind, "0x3 1x5 0x8 1x62")


def _other(kind: FindingKind) -> FindingKind:
    kinds = list(FindingKind)
    return kinds[(kinds.index(kind) + 1) % len(kinds)]


def _series(kind: FindingKind, open_incidents: str, running: str = "1x80") -> dict[str, str]:
    name = f'{INCIDENT_OPEN.name}{{{JOB}="llama",{KIND}="{kind.value}"}}'
    return {name: open_incidents, _running(): running}


def _running() -> str:
    return f'{JOB_RUNNING.name}{{{JOB}="llama"}}'
