"""Data model of an alert: its rule, and the cases in which it fires or does not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from stepwatch.signals.names import JOB_INFO


class Severity(Enum):
    """Who is notified: a page wakes somebody, a ticket waits for working hours."""

    PAGE = "page"
    TICKET = "ticket"


class Situation(Enum):
    """What a case is about, beside that its alert fires or does not."""

    PLAIN = "plain"
    FLAPPING = "flapping"
    MISSING = "missing data"
    RESTART = "a restart of what exports"
    LATE = "late scrapes"


INTERVAL_SECONDS = 5
"""Between evaluations of the rules; a sixth of a page's thirty."""

UNPAGED = "of-no-page"
"""In cases: a class that pages nowhere."""


@dataclass(frozen=True)
class Fired:
    """An alert that a case expects, with the annotations that its rule fills in from values.

    `labels` are those of the alert without `alertname` and `severity`, and without the class of the
    job.
    """

    labels: Mapping[str, str]
    summary: str
    description: str


@dataclass(frozen=True)
class Case:
    """One promtool test; without `fired` it expects no alert.

    `series` maps a series to its values, one per `interval_seconds`, as promtool has them: `1x40`
    is 1 and forty times more 1, `stale` is its end; `job_class`, where it is not empty, is that of
    every job, exported all the time; see
    https://prometheus.io/docs/prometheus/latest/configuration/unit_testing_rules/#series.
    `at_seconds` is the moment at which promtool evaluates the rule.
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
    """One recording rule: the series `name` is the result of `expr`, in base units.

    `name` is `labels:metric:operation`; the series carries these labels alone.
    """

    name: str
    expr: str


@dataclass(frozen=True)
class Alert:
    """One alert rule and its tests.

    `severity` is that of a job whose class pages; a page about a job of another class is a ticket.
    `classes` names the series with the class of each job: the collector's, and where the alert
    outlives a job's place in the metrics one with the class that it had. `recordings` are evaluated
    just before the rule, in their order; each may read those before it, and its own newest sample.
    `of_jobs` is False for an alert on stepwatch itself. `never_silent` is True for the one that
    always fires.

    `expr` is PromQL that holds the comparison. `for_seconds` is how long it must hold before the
    alert fires, `keep_firing_seconds` how long the alert outlives it. `summary` and `description`
    are Prometheus templates. `cases` hold at least one that fires and one that does not.
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
