"""One drill, from the fault to the end of its notification."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from stepwatch.signals.names import FindingKind

from . import linked
from .chain.pager import FIRING, Notified
from .chain.servers import DrillError
from .chain.site import Site, wait
from .faults import STEP, TICKET, Drill, Expected, Mitigation
from .outside import OUTSIDE

FOUND_SECONDS, SECOND_SECONDS, SENT_SECONDS, OVER_SECONDS = 240.0, 20.0, 240.0, 300.0
"""How long is waited for what does not come: far beyond what it takes."""
NEVER = math.nan
_STANDS = tuple(
    kind.value for kind in (FindingKind.HANG, FindingKind.DESYNC, FindingKind.RANK_FAILED)
)
Tell = Callable[[str], None]


@dataclass
class Held:
    """A drill under way; what arrives later is looked at in `shown`."""

    drill: Drill
    began: float
    incident: dict[str, Any] = field(default_factory=dict)
    expected: Expected | None = None
    alert: str = ""
    over: float = NEVER
    named: int = 0
    problems: list[str] = field(default_factory=list)

    @property
    def of_page(self) -> bool:
        """Whether its end is notified soon: ends of tickets wait five minutes for each other."""
        return self.expected is not None and self.expected.severity != TICKET

    def arrived(self, site: Site, status: str) -> list[Notified]:
        """Notifications of its alert."""
        job = self.drill.job_name
        return [
            each
            for each in site.notified()
            if (each.job, each.alert, each.status) == (job, self.alert, status)
        ]


def hold(site: Site, drill: Drill, tell: Tell) -> Held:
    """Train with the fault until somebody is notified, do what the runbook says until it is over.

    Raises:
        DrillError: the job does not train.
    """
    held = start(site, drill, tell)
    tell("the fault is there")
    find(site, held, tell)
    if held.alert:
        _sent(site, held, tell)
        _account(site, held)
    mitigate(site, held, tell)
    finish(site, held)
    return held


def start(site: Site, drill: Drill, tell: Tell) -> Held:
    """Start the job of a drill, and wait until the fault is there."""
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
        return Held(drill, began)
    noted = wait(FOUND_SECONDS, lambda: site.training.began(job))
    if not noted:
        raise DrillError(f"{job}: its fault did not begin; see {site.folder / job}")
    return Held(drill, min(noted.values()))


def find(site: Site, held: Held, tell: Tell) -> None:
    """Wait for the verdict: of several faults the first that is named, then a while for more."""
    drill, job = held.drill, held.drill.job_name
    unnamed = next((each for each in drill.expected if each.alert), None)
    if unnamed is not None:
        held.expected, held.alert = unnamed, unnamed.alert
        return
    if not wait(FOUND_SECONDS, lambda: _right(site, drill)):
        seen = [_verdict(each) for each in site.incidents(job)]
        held.problems.append(f"no right verdict; seen: {', '.join(seen) or 'none'}")
    if len(drill.expected) > 1:
        wait(SECOND_SECONDS, lambda: len(_right(site, drill)) == len(drill.expected))
    right = _right(site, drill) or _fitting(site, drill)
    held.named = len({expected for _, expected in _right(site, drill)})
    if right:
        incident, held.expected = right[0]
        held.incident = site.incident(incident["id"])
        held.alert = held.incident["alert"]
        tell(_verdict(incident))


def _right(site: Site, drill: Drill) -> list[tuple[dict[str, Any], Expected]]:
    return [pair for pair in _fitting(site, drill) if pair[1].is_right(pair[0])]


def _fitting(site: Site, drill: Drill) -> list[tuple[dict[str, Any], Expected]]:
    return [
        (incident, expected)
        for incident in site.incidents(drill.job_name)
        for expected in drill.expected
        if expected.fits(incident)
    ]


def _verdict(incident: dict[str, Any]) -> str:
    where = f" of rank {incident['rank']}" if incident["rank"] >= 0 else ""
    return f"{incident['kind']}{where} ({incident['cause']})"


def _sent(site: Site, held: Held, tell: Tell) -> None:
    """Wait until a page has arrived, or a ticket is on its way, and look at what it links to."""
    job = held.drill.job_name

    def sent() -> list[dict[str, Any]]:
        firing = [
            each for each in site.servers.firing(job) if each["labels"]["alertname"] == held.alert
        ]
        return firing if not held.of_page or held.arrived(site, FIRING) else []

    firing = wait(SENT_SECONDS, sent)
    if not firing:
        held.problems.append(f"{held.alert} does not fire, or did not arrive")
        return
    tell("somebody is paged" if held.of_page else "a ticket is on its way")
    held.problems += linked.problems(firing[0]["annotations"], site.folder, site.servers.prometheus)


def _account(site: Site, held: Held) -> None:
    """Whether the SLOs of the job and what it cost are known."""
    job = site.job(held.drill.job_name)
    ratios = {each["sli"]: each["ratio"] for each in job.get("slos", [])}
    if ratios.get("goodput") is None:
        held.problems.append("its goodput is not known")
    if not job.get("cost") or not sum(filter(None, (job.get("device_seconds") or {}).values())):
        held.problems.append("its cost is not accounted")


def mitigate(site: Site, held: Held, tell: Tell) -> None:
    """Do what the runbook says, and wait until the incident is over."""
    drill, job = held.drill, held.drill.job_name
    outside = OUTSIDE.get(drill.outside)
    if drill.mitigation is Mitigation.RESTART:
        # Ranks that wait for each other do not end in time; others save first.
        stands = held.incident.get("kind") in _STANDS
        (site.training.kill if stands else site.training.preempt)()
    if outside:
        outside.mend(site, job)
    if drill.mitigation is Mitigation.CONTINUE:
        site.training.resume()
    if drill.mitigation is Mitigation.RESTART:
        attempt = site.training.start(job, (), drill.flags, drill.job_class)
        site.wait_step(job, 1, attempt)
        site.claim_devices()
        tell("restarted")
    if bool(held.incident) and wait(OVER_SECONDS, lambda: _is_over(site, held)):
        held.over = time.time()
        tell("over")
    elif held.incident:
        held.problems.append("its incident is not over")


def _is_over(site: Site, held: Held) -> bool:
    return bool(site.incident(held.incident["id"])["state"] != "open")


def finish(site: Site, held: Held) -> None:
    """End the job as a scheduler does, and what its drill has left."""
    site.training.preempt()
    outside = OUTSIDE.get(held.drill.outside)
    if outside:
        outside.tidy(site, held.drill.job_name)
