"""Data model for alerts: the rule, and the cases in which it fires or stays silent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from stepwatch.signals.names import JOB_INFO


class Severity(Enum):
    """Urgency: a page wakes a person, a ticket waits for working hours."""

    PAGE = "page"
    TICKET = "ticket"


class Situation(Enum):
    """The situation that a case tests."""

    PLAIN = "plain"
    FLAPPING = "flapping"
    MISSING = "missing data"
    RESTART = "a restart of the exporter"
    LATE = "late scrapes"


INTERVAL_SECONDS = 5
"""Seconds between rule evaluations, a sixth of a page's thirty."""

UNPAGED = "of-no-page"
"""In cases: a class that pages nowhere."""


@dataclass(frozen=True)
class Fired:
    """An alert that a case expects, with its annotations filled in.

    `labels` are the alert's labels without `alertname`, `severity` and the job's class.
    """

    labels: Mapping[str, str]
    summary: str
    description: str


@dataclass(frozen=True)
class Case:
    """One promtool test; without `fired` it expects no alert.

    `series` maps a series to its values in promtool notation, one per `interval_seconds`: `1x40` is
    1 and forty more 1, `stale` ends the series. A `job_class` that is not empty applies to every
    job and is always exported. See
    https://prometheus.io/docs/prometheus/latest/configuration/unit_testing_rules/#series.
    `at_seconds` is the evaluation time.
    """

    name: str
    series: Mapping[str, str]
    at_seconds: int
    fired: tuple[Fired, ...] = ()
    interval_seconds: int = 15
    job_class: str = ""
    situation: Situation = Situation.PLAIN


@dataclass(frozen=True)
class Recording:
    """A recording rule: the series `name` is the result of `expr`, in base units.

    `name` is `labels:metric:operation`; the series carries only these labels.
    """

    name: str
    expr: str


@dataclass(frozen=True)
class Alert:
    """An alert rule and its tests.

    `severity` is for a job whose class pages; for other classes a page becomes a ticket. `classes`
    names the series with each job's class: the collector's and, if the alert outlives the job's
    metrics, a remembered one. `recordings` are evaluated just before the rule, in order; each may
    read earlier ones and its own newest sample. `of_jobs` is False for an alert on stepwatch
    itself. `never_silent` is True for the alert that always fires.

    `expr` is PromQL that includes the comparison. `for_seconds` is how long it must hold before the
    alert fires, `keep_firing_seconds` how long the alert outlives it. `summary` and `description`
    are Prometheus templates. `cases` contain at least one that fires and one that does not.
    """

    name: str
    expr: str
    severity: Severity
    for_seconds: int
    keep_firing_seconds: int
    summary: str
    description: str
    impact: str
    first_action: str
    cases: tuple[Case, ...]
    recordings: tuple[Recording, ...] = ()
    classes: tuple[str, ...] = (JOB_INFO.name,)
    of_jobs: bool = True
    never_silent: bool = False
