"""One drill, from its fault to the end of its notification."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from stepwatch.signals.names import FindingKind

from . import alert_links
from .chain.pager import FIRING, Notification
from .chain.servers import DrillError
from .chain.site import Site, wait
from .faults import STEP, TICKET, Drill, Expectation, Mitigation
from .outside import OUTSIDE

VERDICT_SECONDS, SECOND_VERDICT_SECONDS, DELIVERY_SECONDS, RESOLUTION_SECONDS = (
    240.0,
    20.0,
    240.0,
    300.0,
)
"""Limits for events that may not occur, far beyond their usual time."""
NEVER = math.nan
_STALLS = tuple(
    kind.value for kind in (FindingKind.HANG, FindingKind.DESYNC, FindingKind.RANK_FAILED)
)
Tell = Callable[[str], None]


@dataclass
class Trial:
    """A drill that runs; `outcome` reads notifications that arrive later."""

    drill: Drill
    began: float
    incident: dict[str, Any] = field(default_factory=dict)
    expectation: Expectation | None = None
    alert: str = ""
    ended_at: float = NEVER
    verdict_count: int = 0
    problems: list[str] = field(default_factory=list)

    @property
    def is_page(self) -> bool:
        """Whether its end is notified soon: ends of tickets wait five minutes for each other."""
        return self.expectation is not None and self.expectation.severity != TICKET

    def notifications(self, site: Site, status: str) -> list[Notification]:
        """Return its alert's notifications with this status."""
        job = self.drill.job_name
        return [
            notification
            for notification in site.notifications()
            if (notification.job, notification.alert, notification.status)
            == (job, self.alert, status)
        ]


def run_drill(site: Site, drill: Drill, tell: Tell) -> Trial:
    """Train with the fault until an alert is notified, then follow the runbook until the fault is
    fixed.

    Raises:
        DrillError: the job does not train.
    """
    trial = start(site, drill, tell)
    tell("the fault is there")
    find(site, trial, tell)
    if trial.alert:
        _wait_for_alert(site, trial, tell)
        _check_accounting(site, trial)
    mitigate(site, trial, tell)
    finish(site, trial)
    return trial


def start(site: Site, drill: Drill, tell: Tell) -> Trial:
    """Start a drill's job, and wait until its fault has begun."""
    job = drill.job_name
    outside = OUTSIDE.get(drill.outside)
    if outside:
        outside.prepare(site, job)
    site.training.start(job, drill.faults, drill.flags, drill.job_class)
    site.wait_step(job, 1)
    site.claim_devices()
    tell("trains")
    if outside:
        site.wait_step(job, STEP)
        began = time.time()
        outside.begin(site, job)
        return Trial(drill, began)
    noted = wait(VERDICT_SECONDS, lambda: site.training.fault_starts(job))
    if not noted:
        raise DrillError(f"{job}: its fault did not begin; see {site.folder / job}")
    return Trial(drill, min(noted.values()))


def find(site: Site, trial: Trial, tell: Tell) -> None:
    """Wait for the verdict; with several faults for the first one, then a while for the next."""
    drill, job = trial.drill, trial.drill.job_name
    unnamed = next((expectation for expectation in drill.expectations if expectation.alert), None)
    if unnamed is not None:
        trial.expectation, trial.alert = unnamed, unnamed.alert
        return
    if not wait(VERDICT_SECONDS, lambda: _matches(site, drill)):
        verdicts = [_verdict(incident) for incident in site.incidents(job)]
        trial.problems.append(f"no right verdict; seen: {', '.join(verdicts) or 'none'}")
    if len(drill.expectations) > 1:
        wait(SECOND_VERDICT_SECONDS, lambda: len(_matches(site, drill)) == len(drill.expectations))
    matches = _matches(site, drill) or _candidates(site, drill)
    trial.verdict_count = len({expectation for _, expectation in _matches(site, drill)})
    if matches:
        incident, trial.expectation = matches[0]
        trial.incident = site.incident(incident["id"])
        trial.alert = trial.incident["alert"]
        tell(_verdict(incident))


def _matches(site: Site, drill: Drill) -> list[tuple[dict[str, Any], Expectation]]:
    return [pair for pair in _candidates(site, drill) if pair[1].matches(pair[0])]


def _candidates(site: Site, drill: Drill) -> list[tuple[dict[str, Any], Expectation]]:
    return [
        (incident, expectation)
        for incident in site.incidents(drill.job_name)
        for expectation in drill.expectations
        if expectation.fits(incident)
    ]


def _verdict(incident: dict[str, Any]) -> str:
    where = f" of rank {incident['rank']}" if incident["rank"] >= 0 else ""
    return f"{incident['kind']}{where} ({incident['cause']})"


def _wait_for_alert(site: Site, trial: Trial, tell: Tell) -> None:
    """Wait until a page has arrived or a ticket fires, and check its links."""
    job = trial.drill.job_name

    def delivered_alerts() -> list[dict[str, Any]]:
        firing = [
            alert
            for alert in site.servers.firing_alerts(job)
            if alert["labels"]["alertname"] == trial.alert
        ]
        return firing if not trial.is_page or trial.notifications(site, FIRING) else []

    firing = wait(DELIVERY_SECONDS, delivered_alerts)
    if not firing:
        trial.problems.append(f"{trial.alert} does not fire, or did not arrive")
        return
    tell("a page is on its way" if trial.is_page else "a ticket is on its way")
    trial.problems += alert_links.problems(
        firing[0]["annotations"], site.folder, site.servers.prometheus
    )


def _check_accounting(site: Site, trial: Trial) -> None:
    """Check that the job's SLOs and cost are accounted."""
    job = site.job(trial.drill.job_name)
    ratios = {slo["sli"]: slo["ratio"] for slo in job.get("slos", [])}
    if ratios.get("goodput") is None:
        trial.problems.append("its goodput is not known")
    if not job.get("cost") or not sum(filter(None, (job.get("device_seconds") or {}).values())):
        trial.problems.append("its cost is not accounted")


def mitigate(site: Site, trial: Trial, tell: Tell) -> None:
    """Follow the runbook, and wait until the incident is resolved."""
    drill, job = trial.drill, trial.drill.job_name
    outside = OUTSIDE.get(drill.outside)
    if drill.mitigation is Mitigation.RESTART:
        # Ranks that wait for each other do not end in time; others save first.
        stalls = trial.incident.get("kind") in _STALLS
        (site.training.kill if stalls else site.training.preempt)()
    if outside:
        outside.mend(site, job)
    if drill.mitigation is Mitigation.CONTINUE:
        site.training.resume()
    if drill.mitigation is Mitigation.RESTART:
        attempt = site.training.start(job, (), drill.flags, drill.job_class)
        site.wait_step(job, 1, attempt)
        site.claim_devices()
        tell("restarted")
    if bool(trial.incident) and wait(RESOLUTION_SECONDS, lambda: _is_resolved(site, trial)):
        trial.ended_at = time.time()
        tell("over")
    elif trial.incident:
        trial.problems.append("its incident is not over")


def _is_resolved(site: Site, trial: Trial) -> bool:
    return bool(site.incident(trial.incident["id"])["state"] != "open")


def finish(site: Site, trial: Trial) -> None:
    """End the job as a scheduler does, and clean up after its drill."""
    site.training.preempt()
    outside = OUTSIDE.get(trial.drill.outside)
    if outside:
        outside.tidy(site, trial.drill.job_name)
