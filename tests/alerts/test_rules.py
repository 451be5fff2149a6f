"""The generated rules, checked by Prometheus' own promtool."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from stepwatch.alerts import rules
from stepwatch.alerts.catalogue import ALERTS
from stepwatch.alerts.links import Links
from stepwatch.alerts.memory import SHARED
from stepwatch.alerts.spec import Alert, Severity
from stepwatch.signals.names import FindingKind

METRIC_SPEAKS_TOO = {"TrainingStraggler", "TrainingTelemetryLost"}
"""Their cases are about metrics of their own."""

TESTS = (rules.TESTS_FILE, rules.LONG_TESTS_FILE)
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
LINKS = Links("https://example.org/runbooks/", "https://grafana.example.org/d/job")


def promtool(*words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    tool = shutil.which("promtool")
    assert tool, "promtool is missing; install it with: apt-get install prometheus"
    command = [tool, *words]
    # It keeps little: collecting its garbage less often takes a fifth of its time away.
    environ = {**os.environ, "GOGC": "800"}
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=600, check=False, env=environ
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path, ALERTS, lambda text: text)
    return tmp_path


def write(folder: Path, alerts: Sequence[Alert], change: Callable[[str], str]) -> None:
    """Write the rules of some alerts, changed, and their cases."""
    (folder / rules.RULES_FILE).write_text(change(rules.rules_text(alerts, LINKS)))
    for name, text in rules.tests_texts(alerts, LINKS).items():
        (folder / name).write_text(text)


def with_what_it_reads(alert: Alert) -> list[Alert]:
    """Return an alert, with the heartbeat alert if it needs it, which shows since when Prometheus
    runs."""
    exprs = [alert.expr, *(recording.expr for recording in alert.recordings)]
    looks = any("ALERTS{" in expr for expr in exprs)
    always = [alert_rule for alert_rule in ALERTS if alert_rule.never_silent and looks]
    return [alert, *always]


def test_promtool_accepts_the_rules(folder: Path) -> None:
    result = promtool("check", "rules", rules.RULES_FILE, folder=folder)
    assert result.returncode == 0, result.stdout + result.stderr
    # A page about jobs is two rules: the second is the ticket of classes that do not page.
    job_pages = [
        alert_rule
        for alert_rule in ALERTS
        if alert_rule.of_jobs and alert_rule.severity is Severity.PAGE
    ]
    recordings = len(SHARED) + sum(len(alert_rule.recordings) for alert_rule in ALERTS)
    # It is recorded once for both.
    assert f"{len(ALERTS) + 2 * len(job_pages) + recordings} rules found" in result.stdout


@pytest.mark.matrix  # the cases of each alert alone are in every run
def test_every_case_holds(folder: Path) -> None:
    result = promtool("test", "rules", *TESTS, folder=folder)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.name)
def test_the_cases_of_an_alert_need_no_other_rule(tmp_path: Path, alert: Alert) -> None:
    write(tmp_path, with_what_it_reads(alert), lambda text: text)
    result = promtool("test", "rules", *TESTS, folder=tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr


CHANGES = [
    ("_slowdown_ratio > 1.5", "_slowdown_ratio > 1.9", "TrainingStraggler"),
    ("_slowdown_ratio > 1.5", "_slowdown_ratio > 1.1", "TrainingStraggler"),
    ("for: 30s", "for: 0s", "TrainingStraggler"),
    ('kind="straggler"', 'kind="slow"', "TrainingStraggler"),
    ("_without_progress > 900", "_without_progress > 9000", "TrainingHang"),
    ("_without_progress > 900", "_without_progress > 300", "TrainingHang"),
    ('kind="hang"', 'kind="hung"', "TrainingHang"),
    ("_without_progress > 120", "_without_progress > 1200", "TrainingHang"),
    ("_without_progress > 120", "_without_progress > 60", "TrainingHang"),
    ('kind=~"rank-failed|memory', 'kind=~"rank-lost|memory', "TrainingHang"),
    ("_job_running == 1", "_job_running >= 0", "TrainingHang"),
    ('alertstate="firing"', 'alertstate="none"', "TrainingHang"),
    ("[300s])) == 0", "[300s])) >= 0", "TrainingHang"),
    ("[300s])) == 0", "[60s])) == 0", "TrainingHang"),
    ("_timestamp_seconds) > 60", "_timestamp_seconds) > 600", "TrainingTelemetryLost"),
    ("_coverage_ratio) < 0.9", "_coverage_ratio) < 0.5", "TrainingTelemetryLost"),
    ("(absent(stepwatch_collector_jobs))", "(vector(0) > 1)", "TrainingTelemetryLost"),
    ("time() - 3600", "time() - 30", "TrainingTelemetryLost"),
    ("time() - 3600", "time() - 7200", "TrainingTelemetryLost"),
    ("> 0) < time()", "> 0) <= time()", "TrainingTelemetryLost"),
    ("> 0) < time()", ">= 0) < time()", "TrainingTelemetryLost"),
    ("_info:last_timestamp_seconds\n", "_info:first\n", "TrainingTelemetryLost"),
    ("[60s:10s])) >= 6", "[60s:10s])) >= 1", "TrainingTelemetryLost"),
    ("_since_failure > 300", "_since_failure > 900", "TrainingNotRestarted"),
    ("_since_failure > 300", "_since_failure > 60", "TrainingNotRestarted"),
    ("unless on (job_name)", "and on (job_name)", "TrainingNotRestarted"),
    ("_job_running == 1)", "_job_running == 2)", "TrainingNotRestarted"),
    ("_in_a_row) >= 2", "_in_a_row) >= 3", "TrainingCheckpointUnverified"),
    ("_in_a_row) >= 2", "_in_a_row) >= 1", "TrainingCheckpointUnverified"),
    ("_job_running == 1", "_job_running >= 0", "TrainingCheckpointUnverified"),
    ("time() - 600)", "time() - 6000)", "TrainingNonFinite"),
    ("time() - 600)", "time() - 60)", "TrainingNonFinite"),
    ("or 0 * ", "or 9 * ", "TrainingNonFinite"),
    ("time() - 3600)", "time() - 300)", "TrainingNonFinite"),
    ("[60s:10s])) >= 6", "[60s:10s])) >= 1", "TrainingNonFinite"),
    (
        "\n        unless on (job_name, node)",
        "\n        or on (job_name, node)",
        "TrainingNonFinite",
    ),
    (
        "(stepwatch_node_rank_non_finite_records_total)\n",
        "(job_name_node:stepwatch_node_rank_non_finite_records_total:risen_timestamp_seconds)\n",
        "TrainingNonFinite",
    ),
    ('kind="non-finite"', 'kind="not-finite"', "TrainingNonFinite"),
    ("_capped) > 0", "_capped) > 9", "StepwatchCollectorDegraded"),
    ("_evaluation_seconds) > 10", "_evaluation_seconds) > 30", "StepwatchCollectorDegraded"),
    ("_dropped_total[600s])) > 0", "_dropped_total[600s])) > 99", "StepwatchAgentDegraded"),
    ("_probe_unknown) > 0", "_probe_unknown) > 1", "StepwatchAgentDegraded"),
    ("for: 120s", "for: 0s", "StepwatchAgentDegraded"),
    (">= 4", ">= 3", "TrainingCrashLoop"),
    (">= 4", ">= 5", "TrainingCrashLoop"),
    ("time() - 1800", "time() - 600", "TrainingCrashLoop"),
    ("time() - 1800", "time() - 7200", "TrainingCrashLoop"),
    ("last_failure_timestamp_seconds >", "never >", "TrainingCrashLoop"),
    ("last_known_timestamp_seconds >", "never >", "TrainingCrashLoop"),
    ("> 0.1 *", "> 0.6 *", "TrainingCostAnomaly"),
    ("vector(1) > 0", "vector(1) > 2", "StepwatchWatchdog"),
    ("production|unknown|", "unknown|", "TrainingHang"),
    ("production|unknown|", "production|of-no-page|", "TrainingHang"),
    ("first_action: 'Run", "first_action: 'Walk", "TrainingStraggler"),
]
FAST_ALERTS = ("TrainingStraggler", "TrainingNotRestarted")
"""Their cases last a few minutes; promtool takes seconds for hours of another alert."""
LONG = pytest.mark.long("tests/alerts/test_rules.py::test_a_changed_rule_fails_its_cases")


@pytest.mark.parametrize(
    ("right", "wrong", "alert"),
    [
        change if change[2] in FAST_ALERTS else pytest.param(*change, marks=LONG)
        for change in CHANGES
    ],
)
def test_a_changed_rule_fails_its_cases(tmp_path: Path, right: str, wrong: str, alert: str) -> None:
    # promtool evaluates every rule in every case: rules without one are left out.
    own_rules = with_what_it_reads(next(item for item in ALERTS if item.name == alert))
    assert right in rules.rules_text(own_rules, LINKS)
    write(tmp_path, own_rules, lambda text: text.replace(right, wrong))
    assert alert in first_failure(tmp_path)


def first_failure(folder: Path) -> str:
    """Return promtool's output on the first case that fails, the shortest first: most need no
    other."""
    documents = [yaml.load((folder / name).read_text(), _LOADER) for name in TESTS]
    cases = [(document, case) for document in documents for case in document["tests"] or ()]
    for document, case in sorted(cases, key=lambda dated_case: _seconds(dated_case[1])):
        (folder / "case.yaml").write_text(yaml.safe_dump({**document, "tests": [case]}))
        result = promtool("test", "rules", "case.yaml", folder=folder)
        if result.returncode:
            return result.stdout + result.stderr
    pytest.fail("every case holds")


def _seconds(case: dict[str, Any]) -> int:
    return max(
        int(test_case["eval_time"].removesuffix("s")) for test_case in case["alert_rule_test"]
    )


READ_A_KIND = [
    alert for alert in ALERTS if 'kind="' in alert.expr and alert.name not in METRIC_SPEAKS_TOO
]


@pytest.mark.parametrize("alert", READ_A_KIND, ids=lambda alert: alert.name)
def test_every_alert_of_a_verdict_reads_its_own_kind(tmp_path: Path, alert: Alert) -> None:
    def rename_kinds(text: str) -> str:
        for kind in FindingKind:
            text = text.replace(f'kind="{kind.value}"', f'kind="not-{kind.value}"')
        return text

    write(tmp_path, [alert], rename_kinds)
    result = promtool("test", "rules", *TESTS, folder=tmp_path)
    assert f"{alert.name}: the detector opened an incident" in result.stdout + result.stderr


def test_links_lead_to_the_given_places() -> None:
    groups = yaml.safe_load(rules.rules_text(ALERTS, LINKS))["groups"]
    for rule in (rule for group in groups for rule in group["rules"] if "alert" in rule):
        annotations = rule["annotations"]
        address, _, query = annotations["runbook_url"].partition("?")
        assert address == f"https://example.org/runbooks/{rule['alert']}"
        assert query == ("job={{ $labels.job_name }}" if "job_class" in rule["labels"] else "")
        job = "?var-job={{ $labels.job_name }}" if query else ""
        assert annotations["dashboard_url"] == f"https://grafana.example.org/d/job{job}"


def test_the_same_alerts_give_the_same_bytes() -> None:
    assert rules.rules_text(ALERTS, LINKS) == rules.rules_text(ALERTS, LINKS)
    assert rules.tests_texts(ALERTS, LINKS) == rules.tests_texts(ALERTS, LINKS)
