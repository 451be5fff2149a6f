"""What every alert must have."""

from __future__ import annotations

import pytest

from stepwatch.alerts.catalogue import ALERTS
from stepwatch.alerts.spec import Alert
from stepwatch.cli import promql
from stepwatch.signals.names import ALERT_OF, METRICS


def ids(alert: Alert) -> str:
    return alert.name


def test_names_are_those_of_the_findings() -> None:
    assert {alert.name for alert in ALERTS} == set(ALERT_OF.values())
    assert len({alert.name for alert in ALERTS}) == len(ALERTS)


@pytest.mark.parametrize("alert", ALERTS, ids=ids)
def test_an_alert_keeps_its_identity_while_values_change(alert: Alert) -> None:
    reading = promql.read(alert.expr, promql.exported(METRICS))
    assert reading.problems == []
    assert reading.labels == {"job_name"}


@pytest.mark.parametrize("alert", ALERTS, ids=ids)
def test_the_comparison_is_in_the_query_and_no_topk(alert: Alert) -> None:
    assert any(sign in alert.expr for sign in (">", "<"))
    assert "topk" not in alert.expr


@pytest.mark.parametrize("alert", ALERTS, ids=ids)
def test_absent_waits_for_two_scrapes(alert: Alert) -> None:
    if "absent(" in alert.expr:
        assert alert.for_seconds >= 30


@pytest.mark.parametrize("alert", ALERTS, ids=ids)
def test_it_fires_in_one_case_and_is_silent_in_another(alert: Alert) -> None:
    assert {bool(case.fired) for case in alert.cases} == {True, False}


@pytest.mark.parametrize("alert", ALERTS, ids=ids)
def test_it_outlives_a_short_gap(alert: Alert) -> None:
    assert alert.keep_firing_seconds >= 120
