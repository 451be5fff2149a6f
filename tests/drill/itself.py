"""What the chain itself must do: a canary, a silence, a window of maintenance, a preemption, and
that the death of each of its servers is noticed."""

from __future__ import annotations

import json
import math
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from typing import Any

from stepwatch.collector.job_states import GOING_ON
from stepwatch.signals.names import ALERT_HANG, ALERT_TELEMETRY_LOST
from tests.soak.processes import CLI

from . import held as one
from .chain.pager import FIRING, RESOLVED, heartbeats
from .chain.servers import DrillError
from .chain.site import Site, wait
from .chain.site_file import CANARY_JOB, HEARTBEAT_SECONDS, MAINTAINED_JOB, SILENCED_JOB
from .faults import CANARY, NAMED, PAGE, STEP, Drill
from .held import Held, Tell
from .scoreboard import Check
from .shown import row as shown_of

_NEVER = math.nan
_QUIET_SECONDS = 30.0
"""After an alert fires, in which a page would have come."""
_NOTICED_SECONDS = 600.0
_OVERDUE = 2.5
"""Heartbeats that are missed until whoever waits for them says so."""


def canary(site: Site, tell: Tell) -> Check:
    """A job that hangs on purpose pages a receiver of its own, and nobody else."""
    hang = NAMED["hang"]
    expected = tuple(each._replace(severity=CANARY) for each in hang.expected)
    held = one.hold(site, hang._replace(name="canary", job=CANARY_JOB, expected=expected), tell)
    row = shown_of(site, held, was_waited_for=False)
    others = {each.receiver for each in held.arrived(site, FIRING)} - {CANARY}
    problems = (*row.problems, *(f"it arrived at {each}, too" for each in sorted(others)))
    return Check(
        "canary", f"{ALERT_HANG} at the canary's receiver alone", row.sent_seconds, problems
    )


def silence(site: Site, tell: Tell) -> Check:
    """A silence keeps a page back, and no state; once it is over, the page comes."""
    words = ["--job", SILENCED_JOB, "--for", "1h", "--why", "the drill", "--by", "drill"]
    made = _stepwatch(site, *words)
    held = _hang(site, SILENCED_JOB, tell)
    problems = list(_kept_back(site, held, tell))
    if not wait(one.SENT_SECONDS, lambda: site.servers.suppressed(SILENCED_JOB)):
        problems.append("Alertmanager does not know of the silence")
    ended = time.time()
    _stepwatch(site, "--expire", str(made["id"]))
    arrived = wait(one.SENT_SECONDS, lambda: held.arrived(site, FIRING))
    if not arrived:
        problems.append("no page came after it was over")
    site.training.kill()
    after = arrived[0].at - ended if arrived else _NEVER
    return Check("silence", "no page, incident open; paged after it ended", after, tuple(problems))


def maintenance(site: Site, tell: Tell) -> Check:
    """In a window that a route mutes, pages are kept back, and no state."""
    held = _hang(site, MAINTAINED_JOB, tell)
    problems = tuple(_kept_back(site, held, tell))
    site.training.kill()
    return Check("maintenance", "no page in the window, incident open", _NEVER, problems)


def preemption(site: Site, tell: Tell) -> Check:
    """A job that is preempted saves, goes on where it was, and nobody is notified."""
    job = "drill-preempted"
    site.training.start(job, ())
    site.wait_step(job, STEP)
    tell("trains")
    site.training.preempt()
    wait(one.FOUND_SECONDS, lambda: site.job(job).get("state") not in GOING_ON)
    state, made = site.job(job).get("state"), site.job(job).get("step") or 0
    tell(f"it is {state} at step {made}")
    attempt = site.training.start(job, ())
    site.wait_step(job, made + 2, attempt)
    attempts = site.job(job)["attempts"]
    site.training.preempt()
    newest = next(each for each in attempts if each["attempt"] == attempt)
    problems = []
    if newest["resumed_from"] is None or newest["resumed_from"] < made - 1:
        problems.append(f"it made step {made}, and was resumed from {newest['resumed_from']}")
    problems += [f"notified: {each.alert}" for each in site.notified() if each.job == job]
    shown = f"{state} at step {made}, resumed from {newest['resumed_from']}, nobody notified"
    return Check("preemption", shown, _NEVER, tuple(problems))


def prometheus_dies(site: Site, tell: Tell) -> Check:
    """Prometheus is killed: the heartbeat stays away once Alertmanager holds the alert for over."""
    return _dies(site, "prometheus", site.servers.start_prometheus, tell)


def alertmanager_dies(site: Site, tell: Tell) -> Check:
    """Alertmanager is killed: the heartbeat stays away."""
    return _dies(site, "alertmanager", site.servers.start_alertmanager, tell)


def collectors_die(site: Site, tell: Tell) -> Check:
    """Both collectors are killed: one page on all jobs, and its end once they are back."""
    known = len(_of(site, "", FIRING))
    ended = len(_of(site, "", RESOLVED))
    began = time.time()
    for collector in site.collectors:
        collector.end(signal.SIGKILL)
    tell("killed")
    arrived = wait(_NOTICED_SECONDS, lambda: _of(site, "", FIRING)[known:])
    for collector in site.collectors:
        collector.start()
    problems = []
    if not arrived:
        problems.append(f"{ALERT_TELEMETRY_LOST} did not arrive")
    elif not wait(_NOTICED_SECONDS, lambda: len(_of(site, "", RESOLVED)) > ended):
        problems.append("its end did not arrive")
    if (times := len(_of(site, "", FIRING)) - known) > 1:
        problems.append(f"it arrived {times} times")
    after = arrived[0] - began if arrived else _NEVER
    shown = f"{ALERT_TELEMETRY_LOST} of every job as a page"
    return Check("collectors die", shown, after, tuple(problems))


def database_dies(site: Site, tell: Tell) -> Check:
    """PostgreSQL stops at once while a job trains: telemetry is missing, and later complete."""
    job = "drill-database"
    site.training.start(job, ())
    site.wait_step(job, STEP)
    with site.database.down():
        began = time.time()
        tell("stopped")
        arrived = wait(_NOTICED_SECONDS, lambda: _of(site, job, FIRING))
    tell("back")
    problems = [] if arrived else [f"{ALERT_TELEMETRY_LOST} did not arrive"]
    if arrived and not wait(_NOTICED_SECONDS, lambda: _of(site, job, RESOLVED)):
        problems.append("its end did not arrive")
    if lost := site.job(job).get("lost_records"):
        problems.append(f"{lost} records are lost")
    if (times := len(_of(site, job, FIRING))) > 1:
        problems.append(f"it arrived {times} times")
    site.training.preempt()
    after = arrived[0] - began if arrived else _NEVER
    shown = f"{ALERT_TELEMETRY_LOST}; no record is lost"
    return Check("database dies", shown, after, tuple(problems))


CHECKS: dict[str, Callable[[Site, Tell], Check]] = {
    "canary": canary,
    "silence": silence,
    "maintenance": maintenance,
    "preemption": preemption,
    "database-dies": database_dies,
    "collectors-die": collectors_die,
    "alertmanager-dies": alertmanager_dies,
    "prometheus-dies": prometheus_dies,
}
"""By the names that the command knows."""


def _of(site: Site, job: str, status: str) -> list[float]:
    """When pages arrived that telemetry of a job is missing; of the job "", that of all jobs."""
    return [
        each.at
        for each in site.notified()
        if (each.job, each.alert, each.status) == (job, ALERT_TELEMETRY_LOST, status)
    ]


def _hang(site: Site, job: str, tell: Tell) -> Held:
    drill: Drill = NAMED["hang"]._replace(name=job, job=job)
    held = one.start(site, drill, tell)
    one.find(site, held, tell)
    return held


def _kept_back(site: Site, held: Held, tell: Tell) -> Iterator[str]:
    """What is wrong where an alert fires, and its page is to be kept back."""
    job = held.drill.job_name
    if not held.incident or site.incident(held.incident["id"])["state"] != "open":
        yield "its incident is not open"
    if not wait(one.SENT_SECONDS, lambda: site.servers.firing(job)):
        yield f"{ALERT_HANG} does not fire"
    tell("the alert fires")
    time.sleep(_QUIET_SECONDS)
    if any(each.job == job and each.receiver == PAGE for each in site.notified()):
        yield "somebody was paged"


def _dies(site: Site, name: str, start: Callable[[], None], tell: Tell) -> Check:
    if not wait(_NOTICED_SECONDS, lambda: heartbeats(site.pager)):
        return Check(f"{name} dies", "no heartbeat ever came", _NEVER, ("no heartbeat came",))
    site.servers.kill(name)
    began = time.time()
    tell("killed")
    overdue = wait(_NOTICED_SECONDS, lambda: _is_overdue(site))
    after = time.time() - began if overdue else _NEVER
    problems = [] if overdue else ["the heartbeat went on"]
    start()
    known = len(heartbeats(site.pager))
    if not wait(_NOTICED_SECONDS, lambda: len(heartbeats(site.pager)) > known):
        problems.append("no heartbeat came after it was back")
    shown = f"the heartbeat of every {HEARTBEAT_SECONDS} s is overdue"
    return Check(f"{name} dies", shown, after, tuple(problems))


def _is_overdue(site: Site) -> bool:
    return time.time() - heartbeats(site.pager)[-1] > _OVERDUE * HEARTBEAT_SECONDS


def _stepwatch(site: Site, *words: str) -> dict[str, Any]:
    places = ("--collector", site.collectors[0].url, "--alertmanager", site.servers.alertmanager)
    done = subprocess.run(
        [*CLI, "silence", *words, *places, "--json"], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise DrillError(f"stepwatch silence: {done.stderr.strip()}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found
