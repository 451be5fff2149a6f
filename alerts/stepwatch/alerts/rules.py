"""Writes alerts as a Prometheus rules file and a promtool test file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import yaml

from stepwatch.signals.names import JOB, JOB_CLASS, JOB_INFO

from .expressions import with_page, without_page
from .links import JOB_TEMPLATE, Links
from .memory import LAST_CLASSES, SHARED, holding
from .situations import cases_of
from .spec import INTERVAL_SECONDS, UNPAGED, Alert, Case, Fired, Recording, Severity

RULES_FILE = "training.rules.yaml"
TESTS_FILE = "training.rules.test.yaml"
LONG_TESTS_FILE = "training.rules.days.test.yaml"
"""Cases that last hours or days: promtool evaluates all rules at each step, here at each sample."""

GROUP = "stepwatch"
"""A group name's first part; the second is its alert."""
LONG_INTERVAL_SECONDS = 300
_LONG_SECONDS = 7200

MEMORY_GROUP = f"{GROUP}-memory"
"""The group for recordings that several alerts share."""

_KNOWN = f'{{{JOB}=%[1]q,{JOB_CLASS}!=""}}'
_CLASS = (
    f"{{{{ with printf `max by ({JOB_CLASS}) ({JOB_INFO.name}{_KNOWN}) or on () "
    f"max by ({JOB_CLASS}) ({LAST_CLASSES.name}{_KNOWN})` $labels.{JOB} "
    f"| query | sortByLabel `{JOB_CLASS}` }}}}{{{{ . | first | label `{JOB_CLASS}` }}}}"
    "{{ end }}"
)
"""Template for the label with the job's class: empty, so no label, if unknown.

The class of a job that left the metrics is remembered: without it the alert would be another one,
and page again.
"""
_NOTE = "# Written by `stepwatch build`; edit alerts/stepwatch/alerts and build again.\n"


class _Dumper(yaml.SafeDumper):
    """YAML with multi-line queries as blocks."""


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    style = "|" if "\n" in value else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _text)


def yaml_text(document: dict[str, Any], note: str = _NOTE) -> str:
    """Return a generated document with a note at its top."""
    # Wide lines: folding would change a template's white space.
    body: str = yaml.dump(document, Dumper=_Dumper, sort_keys=False, width=10_000)
    return note + body


class Classes(NamedTuple):
    """Classes whose jobs page, and labels for every alert."""

    paged: tuple[str, ...] = ("production",)
    labels: Mapping[str, str] = {}


USUAL = Classes()
"""Defaults without a site file."""


def rules_text(alerts: Iterable[Alert], links: Links, classes: Classes = USUAL) -> str:
    """Return the rules file's text; a page about jobs is two rules, the second a ticket.

    Each alert has its own group: Prometheus evaluates a group's rules in order, so no alert waits
    for others. An alert's own recordings are in its group, shared ones in a separate group.
    """
    groups = [_group(MEMORY_GROUP, _recorded(SHARED))]
    for alert in alerts:
        rules = (_rule(alert, links, classes, severity) for severity in _severities(alert))
        groups.append(_group(f"{GROUP}-{alert.name}", [*_recorded(_recordings(alert)), *rules]))
    return yaml_text({"groups": groups})


def _group(name: str, rules: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return {"name": name, "interval": f"{INTERVAL_SECONDS}s", "rules": rules}


def _recorded(recordings: Iterable[Recording]) -> list[dict[str, Any]]:
    return [{"record": recording.name, "expr": recording.expr} for recording in recordings]


def _severities(alert: Alert) -> tuple[Severity, ...]:
    by_class = alert.of_jobs and alert.severity is Severity.PAGE
    return (Severity.PAGE, Severity.TICKET) if by_class else (alert.severity,)


def _recordings(alert: Alert) -> tuple[Recording, ...]:
    """Return the recordings before its rules; a condition that two rules read is recorded once."""
    if len(_severities(alert)) == 1:
        return alert.recordings
    return (*alert.recordings, holding(alert.expr, _condition(alert)))


def _condition(alert: Alert) -> str:
    return f"{JOB}:{alert.name}:condition"


def _rule(alert: Alert, links: Links, classes: Classes, severity: Severity) -> dict[str, Any]:
    expr = alert.expr
    if len(_severities(alert)) > 1:
        part = with_page if severity is Severity.PAGE else without_page
        expr = part(_condition(alert), classes.paged, alert.classes)
    job_class = {JOB_CLASS: _CLASS} if alert.of_jobs else {}
    return {
        "alert": alert.name,
        "expr": expr,
        "for": f"{alert.for_seconds}s",
        "keep_firing_for": f"{alert.keep_firing_seconds}s",
        "labels": {"severity": severity.value, **job_class, **classes.labels},
        "annotations": _annotations(alert, links, alert.summary, alert.description, JOB_TEMPLATE),
    }


def _annotations(
    alert: Alert, links: Links, summary: str, description: str, job: str
) -> dict[str, str]:
    return {
        "summary": summary,
        "description": description,
        "impact": alert.impact,
        "first_action": alert.first_action,
        "runbook_url": links.runbook_of(alert.name, job)
        if alert.of_jobs
        else links.runbook(alert.name),
        "dashboard_url": links.dashboard_of(job) if alert.of_jobs else links.dashboard,
    }


def _links(alert: Alert, links: Links, job: str) -> dict[str, str]:
    if not alert.of_jobs:
        return {"runbook_url": links.runbook(alert.name), "dashboard_url": links.dashboard}
    return {
        "runbook_url": links.runbook_of(alert.name, job),
        "dashboard_url": links.dashboard_of(job),
    }


def tests_texts(alerts: Iterable[Alert], links: Links, classes: Classes = USUAL) -> dict[str, str]:
    """Return the promtool test files' texts, with firing and silent cases for each alert."""
    short: list[dict[str, Any]] = []
    long: list[dict[str, Any]] = []
    for alert in alerts:
        for case in (*cases_of(alert), *_of_classes(alert, classes)):
            tests = long if case.at_seconds > _LONG_SECONDS else short
            tests.append(_test(alert, case, links, classes))
    return {
        TESTS_FILE: _tests_text(short, INTERVAL_SECONDS),
        LONG_TESTS_FILE: _tests_text(long, LONG_INTERVAL_SECONDS),
    }


def _tests_text(tests: list[dict[str, Any]], interval_seconds: int) -> str:
    return yaml_text(
        {
            "rule_files": [RULES_FILE],
            "evaluation_interval": f"{interval_seconds}s",
            "tests": tests,
        }
    )


def _of_classes(alert: Alert, classes: Classes) -> Iterator[Case]:
    """Yield the first firing case on a job, with known job classes."""
    fires = next(
        (case for case in alert.cases if any(JOB in fired.labels for fired in case.fired)), None
    )
    if fires is not None and alert.of_jobs:
        for job_class in (*classes.paged[:1], UNPAGED):
            name = f"{fires.name}; the job is of class {job_class}"
            yield replace(fires, name=name, job_class=job_class)


def _test(alert: Alert, case: Case, links: Links, classes: Classes) -> dict[str, Any]:
    question = {
        "eval_time": f"{case.at_seconds}s",
        "alertname": alert.name,
        "exp_alerts": [_expected(alert, fired, links, case, classes) for fired in case.fired],
    }
    series = _with_class(case) if case.job_class else case.series
    return {
        "name": f"{alert.name}: {case.name}",
        "interval": f"{case.interval_seconds}s",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "alert_rule_test": [question],
    }


def _with_class(case: Case) -> dict[str, str]:
    """Return the case's series, with the job class in those that carry it."""
    label = f'{JOB_CLASS}="{case.job_class}"'
    series = {
        name.replace("}", f",{label}}}") if name.startswith(JOB_INFO.name) else name: values
        for name, values in case.series.items()
    }
    if not any(name.startswith(JOB_INFO.name) for name in series):
        for job in sorted({fired.labels.get(JOB, "") for fired in case.fired}):
            series[f'{JOB_INFO.name}{{{JOB}="{job}",{label}}}'] = "1x400"
    return series


def _expected(
    alert: Alert, fired: Fired, links: Links, case: Case, classes: Classes
) -> dict[str, Any]:
    job = fired.labels.get(JOB, "")
    ticket = case.job_class == UNPAGED
    severity = Severity.TICKET if ticket else alert.severity
    job_class = {JOB_CLASS: case.job_class} if case.job_class else {}
    return {
        "exp_labels": {
            "severity": severity.value,
            **job_class,
            **classes.labels,
            **fired.labels,
        },
        "exp_annotations": _annotations(alert, links, fired.summary, fired.description, job),
    }
