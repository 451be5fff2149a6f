"""Alerts sent through a real Alertmanager with the generated configuration, to a real server."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from stepwatch.alerts.catalogue import ALERTS
from stepwatch.alerts.links import Links
from tests.alerts.routes.sites import Pager, alertmanager, site_of, write_config
from tests.waiting import until

LINKS = Links("https://wiki.example.org/runbooks", "https://grafana.example.org/d/job")


@pytest.fixture(scope="module")
def pager() -> Iterator[Pager]:
    pager = Pager()
    yield pager
    pager.close()


@pytest.fixture(scope="module")
def url(pager: Pager, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of an Alertmanager whose receivers all lead to the pager."""
    folder: Path = tmp_path_factory.mktemp("alertmanager")
    with alertmanager(write_config(site_of(pager.url, folder), folder, quick=True)) as url:
        yield url


def post(url: str, *alerts: tuple[str, ...], ended: bool = False) -> None:
    """Send alerts as Prometheus does: name, severity and job of each, and another label."""
    now = datetime.now(UTC)
    body = [_alert(*alert) for alert in alerts]
    for alert in body:
        alert["startsAt"] = (now - timedelta(minutes=1) if ended else now).isoformat()
        alert["endsAt"] = (now if ended else now + timedelta(hours=1)).isoformat()
    httpx.post(f"{url}/api/v2/alerts", json=body).raise_for_status()


def _alert(name: str, severity: str, job: str, *more: str) -> dict[str, Any]:
    (alert,) = [catalogued for catalogued in ALERTS if catalogued.name == name]
    labels = dict(pair.split("=") for pair in more)
    return {
        "labels": {"alertname": name, "severity": severity, "job_name": job, **labels},
        "annotations": {
            "summary": f"Job {job}: <what> it is",
            "description": "what it means",
            "impact": alert.impact,
            "first_action": alert.first_action,
            "runbook_url": LINKS.runbook_of(name, job),
            "dashboard_url": LINKS.dashboard_of(job),
        },
    }


def pages_of(pager: Pager, job: str) -> list[dict[str, Any]]:
    """Return PagerDuty's notifications about one job."""
    pages = pager.bodies("/pagerduty")
    return [page for page in pages if job in str(page["payload"].get("component", ""))]


def test_a_page_arrives_once_with_all_it_must_say_and_resolves(pager: Pager, url: str) -> None:
    hang = ("TrainingHang", "page", "llama-7b")
    post(url, hang)
    post(url, hang)
    until("the page", lambda: pages_of(pager, "llama-7b"))
    post(url, hang, ended=True)
    until("its end", lambda: len(pages_of(pager, "llama-7b")) > 1)
    page, end = pages_of(pager, "llama-7b")
    assert (page["event_action"], end["event_action"]) == ("trigger", "resolve")
    assert page["dedup_key"] == end["dedup_key"]
    assert page["routing_key"] == "routing-key"
    assert page["payload"]["summary"] == "[PAGE] Job llama-7b: <what> it is"
    assert page["payload"]["severity"] == "critical"
    details = page["payload"]["custom_details"]
    (alert,) = [alert_rule for alert_rule in ALERTS if alert_rule.name == "TrainingHang"]
    assert details["impact"] == alert.impact
    assert details["first_action"] == alert.first_action
    assert details["runbook"] == "https://wiki.example.org/runbooks/TrainingHang?job=llama-7b"
    assert details["dashboard"] == "https://grafana.example.org/d/job?var-job=llama-7b"
    assert [link["href"] for link in page["links"]] == [details["runbook"], details["dashboard"]]


def test_symptoms_do_not_arrive_beside_their_cause(pager: Pager, url: str) -> None:
    cause = ("TrainingDesync", "page", "llama-13b")
    symptom = ("TrainingHang", "page", "llama-13b")
    post(url, cause, symptom, ("TrainingHang", "page", "llama-70b"))
    until("the cause", lambda: pages_of(pager, "llama-13b"))
    # The same alert of another job is not a symptom: it was sent last, so all are out.
    until("the other job", lambda: pages_of(pager, "llama-70b"))
    post(url, cause, ended=True)
    # Nothing explains the hang any more: only now it is worth a page.
    hung = until("the symptom, alone", lambda: [e for e in pages_of(pager, "llama-13b") if hang(e)])
    assert [hang(page) for page in pages_of(pager, "llama-13b")].index(True) >= 1
    assert len(hung) == 1
    post(url, symptom, ("TrainingHang", "page", "llama-70b"), ended=True)


def hang(page: dict[str, Any]) -> bool:
    """Is the page about a hang?"""
    return bool(page["payload"]["class"] == "TrainingHang")


def test_alerts_of_one_job_and_cause_are_one_notification(pager: Pager, url: str) -> None:
    slow = ("TrainingStraggler", "ticket", "llama-1b")
    post(url, (*slow, "cluster=eu-1"), (*slow, "cluster=us-1"))
    (sent,) = until("the ticket", lambda: pager.bodies("/slack"))
    (attachment,) = sent["attachments"]
    assert attachment["title"] == "[TICKET] TrainingStraggler: 2 alerts on job llama-1b"
    for word in ("Impact: ", "First action: ", "Runbook: https://wiki", "Dashboard: https://graf"):
        assert attachment["text"].count(word) == 2
    assert sent["channel"] == "#t"
    buttons = {button["text"]: button["url"] for button in attachment["actions"]}
    assert buttons["Runbook"].endswith("/TrainingStraggler?job=llama-1b")


def test_a_receiver_of_json_gets_labels_annotations_and_the_token(pager: Pager, url: str) -> None:
    post(url, ("TrainingHang", "page", "bert", "job_class=research"))
    until("the incident", lambda: pager.bodies("/incident-io"))
    (sent,) = [delivery for delivery in pager.deliveries if delivery.path == "/incident-io"]
    assert sent.authorization == "Bearer bearer"
    (alert,) = sent.body["alerts"]
    assert alert["labels"]["job_class"] == "research"
    assert {"impact", "first_action", "runbook_url", "dashboard_url"} <= set(alert["annotations"])


def test_the_dead_man_keeps_on_arriving(pager: Pager, url: str) -> None:
    watchdog = {"labels": {"alertname": "StepwatchWatchdog", "severity": "ticket"}}
    httpx.post(f"{url}/api/v2/alerts", json=[watchdog]).raise_for_status()
    until("three heartbeats", lambda: len(pager.bodies("/dead-man")) >= 3)
    (path,) = {delivery.path for delivery in pager.deliveries if "Watchdog" in str(delivery.body)}
    assert path == "/dead-man"
