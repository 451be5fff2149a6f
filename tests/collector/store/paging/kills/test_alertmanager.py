"""Alertmanager is killed between a page and its resolve: one of each arrives at the pager."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.cli.response.alertmanager import Alertmanager, running
from tests.collector.store.paging.kills.chain import Chain, settled
from tests.collector.store.paging.pager import Pager, Step, listening
from tests.ports import free_port
from tests.postgresql import PostgresqlServer
from tests.waiting import until

_ROUTE = """
route:
  receiver: pager
  group_by: [incident]
  group_wait: 1s
  group_interval: 1s
receivers:
  - name: pager
    webhook_configs: [{{url: "{url}", send_resolved: true}}]
"""


@pytest.fixture
def pager() -> Iterator[Pager]:
    with listening(Step(200)) as receiver:
        yield receiver


def by_incident(pager: Pager) -> dict[str, list[str]]:
    """What the pager keeps by the key of Alertmanager's groups, which are incidents here."""
    actions_by_incident: dict[str, list[str]] = {}
    for sent in list(pager.taken):
        action = "trigger" if sent["status"] == "firing" else "resolve"
        incident_actions = actions_by_incident.setdefault(
            sent["groupLabels"].get("incident", ""), []
        )
        if incident_actions[-1:] != [action]:
            incident_actions.append(action)
    return actions_by_incident


@pytest.mark.long(
    "tests/collector/store/paging/kills/test_collector.py::test_killed_at_each_moment_of_a_page_and_of_its_resolve",
    "tests/collector/store/paging/kills/test_alertmanager.py::test_what_prometheus_reported_and_what_ended_meanwhile",
)
def test_killed_between_page_and_resolve(
    postgresql: PostgresqlServer, pager: Pager, tmp_path: Path
) -> None:
    """Once it is up again while the incident is open, and once it ends meanwhile."""
    address = f"127.0.0.1:{free_port()}"
    text = f'[receiver.alerts]\nkind = "alertmanager"\nurl = "http://{address}"\n'
    chain = Chain(tmp_path, postgresql, pager, text)
    configuration = _ROUTE.format(url=pager.url)

    def paged(count: int) -> bool:
        actions = by_incident(pager)
        return (
            sum(actions.get(incident_id) is not None for incident_id in chain.incidents()) == count
        )

    def knows(real: Alertmanager) -> bool:
        return {alert["labels"]["incident"] for alert in real.get("alerts")} >= set(
            chain.incidents()
        )

    try:
        chain.start()
        with running(tmp_path, configuration, address):
            chain.breaks("goes-on")
            chain.breaks("ends-meanwhile")
            until("both pages", lambda: paged(2))
        chain.ends("ends-meanwhile")
        until("its end", lambda: "ended" in chain.incidents().values())
        with running(tmp_path, configuration, address) as real:
            until("what is open is known again", lambda: knows(real))
            chain.ends("goes-on")
            settled(chain, lambda: by_incident(pager), 2)
        log = chain.collectors[0].log.read_text()
        assert "Traceback" not in log and address not in log.replace("listening on", "")
    finally:
        chain.close()


def test_what_prometheus_reported_and_what_ended_meanwhile(pager: Pager, tmp_path: Path) -> None:
    """Its log of notifications tells whom to send the end, if it was saved before the kill."""
    address = f"127.0.0.1:{free_port()}"
    configuration = _ROUTE.format(url=pager.url)
    often = "--data.maintenance-interval=1s"
    with running(tmp_path, configuration, address, often) as real:
        post(real, timedelta(hours=1))
        until("the page", lambda: by_incident(pager) == {"x": ["trigger"]})
        log = tmp_path / "alertmanager" / "nflog"
        until("a log that was saved", lambda: log.exists() and log.stat().st_size > 0)
    with running(tmp_path, configuration, address, often) as real:
        post(real, timedelta(0))
        until("its end", lambda: by_incident(pager) == {"x": ["trigger", "resolve"]})


def post(real: Alertmanager, ends_in: timedelta) -> None:
    """Send an alert as Prometheus does."""
    now = datetime.now(UTC)
    times = {"startsAt": now - timedelta(minutes=1), "endsAt": now + ends_in}
    alert: dict[str, Any] = {"labels": {"alertname": "TrainingHang", "incident": "x"}}
    alert |= {key: moment.isoformat() for key, moment in times.items()}
    httpx.post(f"{real.url}/api/v2/alerts", json=[alert], timeout=10.0).raise_for_status()
