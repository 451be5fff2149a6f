"""Requirements of every alert."""

from __future__ import annotations

import re

import pytest

from stepwatch.alerts.catalogue import ALERTS
from stepwatch.alerts.expressions import lasting
from stepwatch.alerts.families import hang
from stepwatch.alerts.memory import SHARED
from stepwatch.alerts.situations import cases_of, samples
from stepwatch.alerts.spec import Alert, Severity, Situation
from stepwatch.cli import promql
from stepwatch.collector.incidents.grouping import RULES
from stepwatch.signals.names import ALERT_NAMES, ALERT_OF, METRICS, FindingKind

OWN_LABELS = {"StepwatchAgentDegraded": {"node"}}
"""Labels of alerts on stepwatch itself, where they have any."""
_LASTING = "count_over_time("


def ids(alert: Alert) -> str:
    return alert.name


def test_names_are_those_of_the_findings() -> None:
    assert {alert.name for alert in ALERTS} == ALERT_NAMES
    assert len({alert.name for alert in ALERTS}) == len(ALERTS)


@pytest.mark.parametrize("alert", ALERTS, ids=ids)
def test_an_alert_keeps_its_identity_while_values_change(alert: Alert) -> None:
    series = promql.exported(METRICS)
    for recording in (*SHARED, *alert.recordings):
        series, problems = promql.recorded(recording.name, recording.expr, series)
        assert problems == []
    reading = promql.read(alert.expr, series)
    assert reading.problems == []
    assert reading.labels == ({"job_name"} if alert.of_jobs else OWN_LABELS.get(alert.name, set()))


@pytest.mark.parametrize("alert", ALERTS, ids=ids)
def test_the_comparison_is_in_the_query_and_no_topk(alert: Alert) -> None:
    assert any(sign in alert.expr for sign in (">", "<"))
    assert "topk" not in alert.expr


@pytest.mark.parametrize("alert", ALERTS, ids=ids)
def test_absent_waits_for_two_scrapes(alert: Alert) -> None:
    if "absent(" in _without_what_lasts(alert.expr, 30):
        assert alert.for_seconds >= 30


def test_only_what_has_to_last_is_left_out_of_an_expression() -> None:
    lasts = lasting("absent(up)", 30)
    assert "absent(" not in _without_what_lasts(lasts, 30)
    assert "absent(" in _without_what_lasts(lasts, 60)
    assert "absent(" in _without_what_lasts(f"{lasts} or (absent(up))", 30)


def _without_what_lasts(expr: str, seconds: int) -> str:
    """Return the expression without its duration conditions, and without those that suppress an
    alert."""
    expr = re.sub(r"unless on \(\)\s+absent\(\w+\)", "", expr)
    while (start := expr.find(_LASTING)) >= 0:
        depth, end = 1, start + len(_LASTING)
        while depth:
            depth += {"(": 1, ")": -1}.get(expr[end], 0)
            end += 1
        inner = expr[start + len(_LASTING) : end - 1]
        span = re.search(r"\[(\d+)s:\d+s\]$", inner)
        replacement = "" if span and int(span[1]) >= seconds else inner
        expr = expr[:start] + replacement + expr[end:]
    return expr


@pytest.mark.parametrize("alert", ALERTS, ids=ids)
def test_it_fires_in_one_case_and_not_in_another(alert: Alert) -> None:
    expected = {True} if alert.never_silent else {True, False}
    assert {bool(case.fired) for case in alert.cases} == expected


@pytest.mark.parametrize("alert", ALERTS, ids=ids)
def test_it_has_a_case_of_each_situation(alert: Alert) -> None:
    cases = cases_of(alert)
    expected = {*Situation} - ({Situation.FLAPPING} if alert.never_silent else set())
    assert {case.situation for case in cases} | {Situation.PLAIN} >= expected
    assert len({case.name for case in cases}) == len(cases)


@pytest.mark.parametrize("alert", ALERTS, ids=ids)
def test_cases_that_are_made_are_what_they_say(alert: Alert) -> None:
    for case in cases_of(alert)[len(alert.cases) :]:
        series = " ".join(case.series.values())
        if case.situation is Situation.RESTART:
            assert "stale _ _" in series
        if case.situation is Situation.LATE and not alert.never_silent:
            assert "_ _" in series
        if case.situation is Situation.MISSING:
            assert series == "" and not case.fired


def test_the_notation_is_read_as_promtool_reads_it() -> None:
    assert samples("0x2 _x2 1+2x2 stale 5") == [
        "0",
        "0",
        "0",
        "_",
        "_",
        "1",
        "3",
        "5",
        "stale",
        "5",
    ]
    assert samples("9-4x1") == ["9", "5"]


def test_only_the_watchdog_is_never_silent() -> None:
    assert [alert.name for alert in ALERTS if alert.never_silent] == ["StepwatchWatchdog"]


@pytest.mark.parametrize("alert", ALERTS, ids=ids)
def test_it_outlives_a_short_gap(alert: Alert) -> None:
    assert alert.keep_firing_seconds >= 120


def test_a_ticket_never_hides_a_page() -> None:
    # A symptom opens no incident: if its cause is a ticket, another alert must page.
    severity = {alert.name: alert.severity for alert in ALERTS}
    hidden = {
        (rule.cause, symptom)
        for rule in RULES
        for symptom in rule.symptoms
        if severity[ALERT_OF[rule.cause]] is Severity.TICKET
        and severity[ALERT_OF[symptom]] is Severity.PAGE
    }
    without_progress = (FindingKind.HANG, FindingKind.DESYNC)
    # A save may block as long as the back-stop waits; a hang in it pages no sooner by itself.
    tickets = (*hang.LOST, FindingKind.CHECKPOINT_STALL)
    caught = {(kind, symptom) for kind in tickets for symptom in without_progress}
    # Only for a lost node: its job failed, and a job without a restart pages.
    lost_nodes = {(rule.cause, s) for rule in RULES if rule.because for s in rule.symptoms}
    caught |= {(FindingKind.RANK_FAILED, FindingKind.TELEMETRY_LOST)} & lost_nodes
    assert hidden <= caught
    assert hidden
