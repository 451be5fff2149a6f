"""Alerts as a Prometheus rules file and a promtool test file."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import yaml

from stepwatch.signals.names import JOB

from .links import JOB_TEMPLATE, Links
from .spec import Alert, Case, Fired

RULES_FILE = "training.rules.yaml"
TESTS_FILE = "training.rules.test.yaml"

GROUP = "stepwatch-training"
INTERVAL_SECONDS = 5
"""Between evaluations of the rules; half a second of a page's thirty."""

_NOTE = "# Written by `stepwatch build`; edit alerts/stepwatch/alerts and build again.\n"


class _Dumper(yaml.SafeDumper):
    """YAML with queries of several lines as blocks."""


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    style = "|" if "\n" in value else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _text)


def yaml_text(document: dict[str, Any], note: str = _NOTE) -> str:
    """A generated document with a note at its top."""
    # Wide lines: a folded template would be read with other white space than it was written.
    body: str = yaml.dump(document, Dumper=_Dumper, sort_keys=False, width=10_000)
    return note + body


def rules_text(alerts: Iterable[Alert], links: Links) -> str:
    """Text of the rules file."""
    group = {
        "name": GROUP,
        "interval": f"{INTERVAL_SECONDS}s",
        "rules": [_rule(alert, links) for alert in alerts],
    }
    return yaml_text({"groups": [group]})


def _rule(alert: Alert, links: Links) -> dict[str, Any]:
    return {
        "alert": alert.name,
        "expr": alert.expr,
        "for": f"{alert.for_seconds}s",
        "keep_firing_for": f"{alert.keep_firing_seconds}s",
        "labels": {"severity": alert.severity.value},
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
        "runbook_url": links.runbook_of(alert.name, job),
        "dashboard_url": links.dashboard_of(job),
    }


def tests_text(alerts: Iterable[Alert], links: Links) -> str:
    """Text of the promtool test file, with the cases in which each alert fires and does not."""
    tests = [_test(alert, case, links) for alert in alerts for case in alert.cases]
    return yaml_text(
        {
            "rule_files": [RULES_FILE],
            "evaluation_interval": f"{INTERVAL_SECONDS}s",
            "tests": tests,
        }
    )


def _test(alert: Alert, case: Case, links: Links) -> dict[str, Any]:
    question = {
        "eval_time": f"{case.at_seconds}s",
        "alertname": alert.name,
        "exp_alerts": [_expected(alert, fired, links) for fired in case.fired],
    }
    return {
        "name": f"{alert.name}: {case.name}",
        "interval": f"{case.interval_seconds}s",
        "input_series": [
            {"series": series, "values": values} for series, values in case.series.items()
        ],
        "alert_rule_test": [question],
    }


def _expected(alert: Alert, fired: Fired, links: Links) -> dict[str, Any]:
    job = fired.labels.get(JOB, "")
    return {
        "exp_labels": {"severity": alert.severity.value, **fired.labels},
        "exp_annotations": _annotations(alert, links, fired.summary, fired.description, job),
    }
