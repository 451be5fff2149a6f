"""A drill's outcome, once its notifications have arrived."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from .chain.pager import FIRING, RESOLVED, Notification
from .chain.site import Site
from .faults import PAGE, Expectation
from .trial import NEVER, Trial


class Row(NamedTuple):
    """A drill's outcome. Seconds count from the fault's start as its rank logged it; NaN if the
    event did not occur. `problems` lists deviations from the expectation, `also` the other
    notifications."""

    name: str
    kind: str
    cause: str
    rank: int
    severity: str
    found_seconds: float
    sent_seconds: float
    over_seconds: float
    notifications: int
    end_seconds: float
    problems: tuple[str, ...]
    also: tuple[str, ...] = ()


def make_row(site: Site, trial: Trial, was_waited_for: bool) -> Row:
    """Return a drill's row after its notifications have arrived."""
    arrived = trial.notifications(site, FIRING)
    ends = trial.notifications(site, RESOLVED)
    expectation = trial.expectation or trial.drill.expectations[0]
    problems = [*trial.problems, *_delivery_problems(trial, expectation, arrived)]
    if was_waited_for and trial.is_page and arrived and not ends:
        problems.append("its end did not arrive")
    also, wrong = _other_alerts(site, trial, expectation)
    incident = trial.incident
    opened = incident.get("opened_at", NEVER)
    return Row(
        trial.drill.name, incident.get("kind", trial.alert or "none"), incident.get("cause", ""),
        incident.get("rank", -1), expectation.severity, opened - trial.began,
        arrived[0].arrived_at - trial.began if arrived else NEVER, trial.ended_at - trial.began,
        len(arrived), ends[0].arrived_at - trial.began if ends else NEVER,
        (*problems, *wrong), tuple(also),
    )  # fmt: skip


def _delivery_problems(
    trial: Trial, expectation: Expectation, arrived: Sequence[Notification]
) -> Iterator[str]:
    if not arrived:
        yield f"{trial.alert or 'nothing'} did not arrive"
        return
    receivers = {notification.receiver for notification in arrived}
    if receivers != {expectation.severity}:
        yield f"it arrived as {', '.join(sorted(receivers))}"
    if len(arrived) > 1:
        yield f"it arrived {len(arrived)} times"


def _other_alerts(
    site: Site, trial: Trial, expectation: Expectation
) -> tuple[list[str], list[str]]:
    """Return the job's other tickets, and its other pages that no fault here explains."""
    allowed = {alert for expectation in trial.drill.expectations for alert in expectation.alerts}
    other_alerts = {
        (notification.alert, notification.receiver)
        for notification in site.notifications()
        if notification.job == trial.drill.job_name
        and notification.alert != trial.alert
        and notification.status == FIRING
    }
    also = [f"{alert} ({receiver})" for alert, receiver in sorted(other_alerts)]
    wrong = [
        f"also a page: {alert}"
        for alert, receiver in sorted(other_alerts)
        if receiver == PAGE and alert not in allowed
    ]
    return also, wrong
