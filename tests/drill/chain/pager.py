"""Notifications that reached the pager's webhook, as rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tests.alerts.routes.sites import Pager

FIRING, RESOLVED = "firing", "resolved"
DEAD_MAN = "dead-man"


class Notification(NamedTuple):
    """One alert in one notification: its receiver, and its arrival in Unix seconds."""

    receiver: str
    job: str
    alert: str
    status: str
    arrived_at: float
    runbook: str


def notifications(pager: Pager) -> Iterator[Notification]:
    """Yield all notifications but the heartbeats."""
    for sent in list(pager.deliveries):
        receiver = sent.path.removeprefix("/")
        if receiver != DEAD_MAN:
            for alert in sent.body["alerts"]:
                labels = alert["labels"]
                yield Notification(
                    receiver, labels.get("job_name", ""), labels["alertname"], alert["status"],
                    sent.arrived_at, alert["annotations"].get("runbook_url", ""),
                )  # fmt: skip


def heartbeats(pager: Pager) -> list[float]:
    """Return when the alert that always fires arrived, in Unix seconds."""
    return [sent.arrived_at for sent in list(pager.deliveries) if sent.path == f"/{DEAD_MAN}"]
