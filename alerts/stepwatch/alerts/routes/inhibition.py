"""Alert inhibition: a cause suppresses its symptoms on the same job.

The relations come from the findings' grouping rules, so that alerts and incidents agree.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from stepwatch.alerts.catalogue import ALERTS
from stepwatch.alerts.spec import Severity
from stepwatch.collector.incidents.grouping import RULES
from stepwatch.signals.names import (
    ALERT_BUDGET_BURNING,
    ALERT_BUDGET_BURNING_FAST,
    ALERT_COST_ANOMALY,
    ALERT_CRASH_LOOP,
    ALERT_HANG,
    ALERT_NOT_RESTARTED,
    ALERT_OF,
    ALERT_RANK_FAILED,
    ALERT_STRAGGLER,
    JOB,
    SEVERITY,
)

_OF_BUDGETS = (ALERT_BUDGET_BURNING_FAST, ALERT_BUDGET_BURNING)
_BEYOND_FINDINGS = {
    ALERT_NOT_RESTARTED: (ALERT_RANK_FAILED, ALERT_HANG, *_OF_BUDGETS),
    ALERT_HANG: _OF_BUDGETS,
    ALERT_RANK_FAILED: _OF_BUDGETS,
    ALERT_STRAGGLER: _OF_BUDGETS,
    ALERT_BUDGET_BURNING_FAST: (ALERT_BUDGET_BURNING,),
    ALERT_CRASH_LOOP: (ALERT_RANK_FAILED, ALERT_NOT_RESTARTED, ALERT_COST_ANOMALY, *_OF_BUDGETS),
}
"""Symptoms for alerts without a finding."""


def symptoms_of() -> dict[str, tuple[str, ...]]:
    """Return the alerts that each alert explains, sorted, without mutual explanations."""
    symptoms: dict[str, set[str]] = {name: set(names) for name, names in _BEYOND_FINDINGS.items()}
    for rule in RULES:
        # Skip rules for specific causes or places: alert labels do not show those.
        if rule.because or rule.symptom_causes or rule.where != "anywhere":
            continue
        cause = ALERT_OF[rule.cause]
        symptoms.setdefault(cause, set()).update(ALERT_OF[symptom] for symptom in rule.symptoms)
    return {name: tuple(sorted(names - {name})) for name, names in sorted(symptoms.items())}


def inhibit_rules(labels: Iterable[str] = ()) -> list[dict[str, Any]]:
    """Return the entry `inhibit_rules`; a ticket suppresses only tickets, never a page.

    `labels` are the site's labels, such as the cluster: jobs with different values are different.
    """
    equal = [JOB, *labels]
    pages = {alert.name for alert in ALERTS if alert.severity is Severity.PAGE}
    rules = []
    for cause, symptoms in symptoms_of().items():
        paging = [name for name in symptoms if name in pages]
        if symptoms:
            rules.append(_rule(cause, symptoms, [], [_only(Severity.TICKET)], equal))
        if cause in pages and paging:
            rules.append(_rule(cause, paging, [_only(Severity.PAGE)], [], equal))
    return rules


def _rule(
    cause: str, symptoms: Iterable[str], source: list[str], target: list[str], equal: list[str]
) -> dict[str, Any]:
    return {
        "source_matchers": [f'alertname="{cause}"', *source],
        "target_matchers": [f'alertname=~"{"|".join(symptoms)}"', *target],
        "equal": equal,
    }


def _only(severity: Severity) -> str:
    return f'{SEVERITY}="{severity.value}"'
