"""The generated configuration, checked and route-tested by Alertmanager's own amtool."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from stepwatch.alerts.catalogue import ALERTS
from stepwatch.alerts.routes import config, inhibition
from stepwatch.alerts.routes.site import parse_site
from stepwatch.alerts.spec import Severity
from stepwatch.signals.names import ALERT_NAMES
from tests.alerts.routes.sites import amtool, site_of, write_config


@pytest.fixture
def site(tmp_path: Path) -> dict[str, Any]:
    return site_of("http://127.0.0.1:9", tmp_path)


def document(site: dict[str, Any]) -> dict[str, Any]:
    """The configuration as Alertmanager reads it."""
    text = config.config_text(parse_site(yaml.safe_dump(site), "site.yaml"), "site.yaml")
    config_yaml: dict[str, Any] = yaml.safe_load(text)
    return config_yaml


def test_amtool_accepts_it(site: dict[str, Any], tmp_path: Path) -> None:
    site["alerting"]["receivers"]["platform"]["email"] = {
        "to": "sre@example.org",
        "from": "stepwatch@example.org",
        "smarthost": "mail.example.org:587",
        "auth_username": "stepwatch",
        "auth_password_file": "/secrets/smtp",
    }
    site["alerting"]["schedules"] = {
        "nights": {"zone": "Europe/Berlin", "times": [{"from": "18:00", "until": "08:00"}]}
    }
    site["alerting"]["routes"][0]["mute"] = ["nights"]
    result = amtool("check-config", str(write_config(site, tmp_path)))
    assert result.returncode == 0, result.stdout + result.stderr
    assert "1 templates" in result.stdout


@pytest.mark.parametrize(
    ("labels", "receiver"),
    [
        ("alertname=StepwatchWatchdog severity=ticket", config.DEAD_MAN),
        ("alertname=TrainingHang severity=page job_name=llama-7b", "oncall"),
        ("alertname=TrainingHang severity=ticket job_name=llama-7b", "channel"),
        ("alertname=TrainingHang severity=page job_name=bert job_class=research", "research"),
        ("alertname=TrainingHang severity=ticket job_name=bert job_class=research", "platform"),
        ("alertname=TrainingHang severity=page job_name=bert job_class=trial", "platform"),
        # The first owner that fits gives the team: llama-7b is not of team research.
        ("alertname=X severity=page job_name=llama-7b job_class=research", "oncall"),
        # Without a job it has no owner, though `*` of an owner or a route fits an empty name.
        ("alertname=TrainingTelemetryLost severity=page", "platform"),
        ("alertname=StepwatchCollectorDegraded severity=ticket", "platform"),
        ("alertname=TrainingHang severity=page job_name=bert job_class=experiment", "oncall"),
    ],
)
def test_amtool_routes_an_alert_to(
    site: dict[str, Any], tmp_path: Path, labels: str, receiver: str
) -> None:
    site["alerting"]["routes"] += [
        {"team": "research", "classes": ["experiment"], "page": "oncall"},
        {"team": "research", "classes": ["trial"], "page": "platform"},
        {"team": "research", "page": "oncall", "ticket": "channel"},
        {"jobs": ["*"], "page": "oncall", "ticket": "channel"},
    ]
    file = write_config(site, tmp_path)
    words = [f"--verify.receivers={receiver}", *labels.split()]
    result = amtool("config", "routes", "test", f"--config.file={file}", *words)
    assert result.returncode == 0, result.stdout + result.stderr


def test_a_symptom_is_kept_back_on_the_same_job_alone() -> None:
    rules = inhibition.inhibit_rules()
    assert rules
    assert {tuple(rule["equal"]) for rule in rules} == {("job_name",)}


def test_jobs_of_one_name_on_two_clusters_are_two(site: dict[str, Any]) -> None:
    site["alerting"]["labels"] = {"cluster": "eu-1"}
    site_config = document(site)
    assert "cluster" in site_config["route"]["group_by"]
    assert all("cluster" in rule["equal"] for rule in site_config["inhibit_rules"])


def test_no_ticket_keeps_a_page_back() -> None:
    pages = {alert.name for alert in ALERTS if alert.severity is Severity.PAGE}
    for rule in inhibition.inhibit_rules():
        if 'severity="ticket"' not in rule["target_matchers"]:
            assert 'severity="page"' in rule["source_matchers"]
            assert rule["source_matchers"][0].split('"')[1] in pages


def test_alerts_do_not_keep_each_other_back() -> None:
    symptoms = inhibition.symptoms_of()
    assert (
        set(symptoms) | {name for targets in symptoms.values() for name in targets} <= ALERT_NAMES
    )

    def reachable(name: str, visited: frozenset[str]) -> frozenset[str]:
        for symptom in symptoms.get(name, ()):
            visited = visited if symptom in visited else reachable(symptom, visited | {symptom})
        return visited

    assert [name for name in symptoms if name in reachable(name, frozenset())] == []


def test_secrets_are_files_and_nothing_else(site: dict[str, Any]) -> None:
    receivers = document(site)["receivers"]
    by_name = {receiver["name"]: receiver for receiver in receivers}
    assert by_name["oncall"]["pagerduty_configs"][0]["routing_key_file"].endswith("/key")
    (hook,) = by_name["research"]["webhook_configs"]
    assert hook["http_config"]["authorization"]["credentials_file"].endswith("/token")
    text = yaml.safe_dump(receivers)
    assert "bearer" not in text and "routing-key" not in text


def test_the_dead_man_is_not_notified_of_an_end(site: dict[str, Any]) -> None:
    site_config = document(site)
    (dead_man,) = [
        receiver for receiver in site_config["receivers"] if receiver["name"] == config.DEAD_MAN
    ]
    assert dead_man["webhook_configs"][0]["send_resolved"] is False
    assert site_config["route"]["routes"][0]["receiver"] == config.DEAD_MAN
    assert "mute_time_intervals" not in site_config["route"]["routes"][0]


def test_the_dead_man_is_notified_at_every_interval(site: dict[str, Any]) -> None:
    site["alerting"]["dead_man"]["every"] = "5m"
    heartbeat = document(site)["route"]["routes"][0]
    assert (heartbeat["group_interval"], heartbeat["repeat_interval"]) == ("5m", "150000ms")


def test_a_later_target_uses_what_it_has(site: dict[str, Any], tmp_path: Path) -> None:
    site["alerting"]["target"] = "0.29.0"
    site["alerting"]["receivers"]["platform"]["webhook"] = {"url_file": "/secrets/hook"}
    by_name = {receiver["name"]: receiver for receiver in document(site)["receivers"]}
    assert by_name["platform"]["webhook_configs"][0]["url_file"] == "/secrets/hook"
    (native,) = by_name["research"]["incidentio_configs"]
    assert native["alert_source_token_file"].endswith("/token")
    # Debian's 0.25 knows neither: without the option it must not be given them.
    result = amtool("check-config", str(write_config(site, tmp_path)))
    assert result.returncode != 0
    assert "incidentio_configs not found" in result.stdout


@pytest.mark.parametrize(
    ("shell", "expression"),
    [("llama-*", r"llama\-.*"), ("a?b", "a.b"), ("[!x]y.z", r"[^x]y\.z"), ("plain", "plain")],
)
def test_a_pattern_becomes_a_regular_expression(shell: str, expression: str) -> None:
    assert config.pattern(shell) == expression
