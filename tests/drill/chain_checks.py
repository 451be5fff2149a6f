"""Checks of the chain itself: canary, silence, maintenance window, preemption, and an alert for the
death of each server.
"""

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

from . import trial as trials
from .chain.pager import FIRING, RESOLVED, heartbeats
from .chain.servers import DrillError
from .chain.site import Site, wait
from .chain.site_file import CANARY_JOB, HEARTBEAT_SECONDS, MAINTAINED_JOB, SILENCED_JOB
from .damaged_checkpoint import damaged_checkpoint
from .faults import CANARY, DRILLS_BY_NAME, PAGE, STEP, Drill
from .outcome import make_row
from .scoreboard import Check
from .trial import Tell, Trial

_NEVER = math.nan
_QUIET_SECONDS = 30.0
"""Wait after an alert fires, long enough for a page to arrive."""
_NOTICED_SECONDS = 600.0
_OVERDUE = 2.5
"""Missed heartbeats until the receiver alerts."""


def canary(site: Site, tell: Tell) -> Check:
    """A job that hangs on purpose pages its own receiver and no other."""
    hang = DRILLS_BY_NAME["hang"]
    expectations = tuple(expectation._replace(severity=CANARY) for expectation in hang.expectations)
    trial = trials.run_drill(
        site, hang._replace(name="canary", job=CANARY_JOB, expectations=expectations), tell
    )
    row = make_row(site, trial, was_waited_for=False)
    receivers = {notification.receiver for notification in trial.notifications(site, FIRING)} - {
        CANARY
    }
    problems = (
        *row.problems,
        *(f"it arrived at {receiver}, too" for receiver in sorted(receivers)),
    )
    return Check(
        "canary", f"{ALERT_HANG} at the canary's receiver alone", row.sent_seconds, problems
    )


def silence(site: Site, tell: Tell) -> Check:
    """A silence suppresses a page but no state; the page arrives after the silence."""
    words = ["--job", SILENCED_JOB, "--for", "1h", "--why", "the drill", "--by", "drill"]
    silence_document = _stepwatch(site, *words)
    trial = _hang(site, SILENCED_JOB, tell)
    problems = list(_suppression_problems(site, trial, tell))
    if not wait(trials.DELIVERY_SECONDS, lambda: site.servers.suppressed_alerts(SILENCED_JOB)):
        problems.append("Alertmanager does not know of the silence")
    ended = time.time()
    _stepwatch(site, "--expire", str(silence_document["id"]))
    arrived = wait(trials.DELIVERY_SECONDS, lambda: trial.notifications(site, FIRING))
    if not arrived:
        problems.append("no page came after it was over")
    site.training.kill()
    delay = arrived[0].arrived_at - ended if arrived else _NEVER
    return Check("silence", "no page, incident open; paged after it ended", delay, tuple(problems))


def maintenance(site: Site, tell: Tell) -> Check:
    """In a window that a route mutes, pages are suppressed, and states are not."""
    trial = _hang(site, MAINTAINED_JOB, tell)
    problems = tuple(_suppression_problems(site, trial, tell))
    site.training.kill()
    return Check("maintenance", "no page in the window, incident open", _NEVER, problems)


def preemption(site: Site, tell: Tell) -> Check:
    """A preempted job saves, resumes at its checkpoint, and notifies no receiver."""
    job = "drill-preempted"
    site.training.start(job, ())
    site.wait_step(job, STEP)
    tell("trains")
    site.training.preempt()
    wait(trials.VERDICT_SECONDS, lambda: site.job(job).get("state") not in GOING_ON)
    state, step_number = site.job(job).get("state"), site.job(job).get("step") or 0
    tell(f"it is {state} at step {step_number}")
    attempt = site.training.start(job, ())
    site.wait_step(job, step_number + 2, attempt)
    attempts = site.job(job)["attempts"]
    site.training.preempt()
    newest = next(candidate for candidate in attempts if candidate["attempt"] == attempt)
    problems = []
    resumed = (newest["resume"] or {}).get("step")
    if resumed is None or resumed < step_number - 1:
        problems.append(f"it made step {step_number}, and was resumed from {resumed}")
    problems += [
        f"notified: {notification.alert}"
        for notification in site.notifications()
        if notification.job == job
    ]
    shown = f"{state} at step {step_number}, resumed from {resumed}, no notification"
    return Check("preemption", shown, _NEVER, tuple(problems))


def prometheus_dies(site: Site, tell: Tell) -> Check:
    """Prometheus is killed: the heartbeat stops once Alertmanager resolves the alert."""
    return _dies(site, "prometheus", site.servers.start_prometheus, tell)


def alertmanager_dies(site: Site, tell: Tell) -> Check:
    """Alertmanager is killed: the heartbeat stops."""
    return _dies(site, "alertmanager", site.servers.start_alertmanager, tell)


def collectors_die(site: Site, tell: Tell) -> Check:
    """Both collectors are killed: one page for all jobs, resolved after their restart."""
    pages_before = len(_page_times(site, "", FIRING))
    ended = len(_page_times(site, "", RESOLVED))
    began = time.time()
    for collector in site.collectors:
        collector.end(signal.SIGKILL)
    tell("killed")
    arrived = wait(_NOTICED_SECONDS, lambda: _page_times(site, "", FIRING)[pages_before:])
    for collector in site.collectors:
        collector.start()
    problems = []
    if not arrived:
        problems.append(f"{ALERT_TELEMETRY_LOST} did not arrive")
    elif not wait(_NOTICED_SECONDS, lambda: len(_page_times(site, "", RESOLVED)) > ended):
        problems.append("its end did not arrive")
    if (times := len(_page_times(site, "", FIRING)) - pages_before) > 1:
        problems.append(f"it arrived {times} times")
    delay = arrived[0] - began if arrived else _NEVER
    shown = f"{ALERT_TELEMETRY_LOST} of every job as a page"
    return Check("collectors die", shown, delay, tuple(problems))


def database_dies(site: Site, tell: Tell) -> Check:
    """PostgreSQL stops during a training: telemetry is missing, and complete again later."""
    job = "drill-database"
    site.training.start(job, ())
    site.wait_step(job, STEP)
    with site.database.down():
        began = time.time()
        tell("stopped")
        arrived = wait(_NOTICED_SECONDS, lambda: _page_times(site, job, FIRING))
    tell("back")
    problems = [] if arrived else [f"{ALERT_TELEMETRY_LOST} did not arrive"]
    if arrived and not wait(_NOTICED_SECONDS, lambda: _page_times(site, job, RESOLVED)):
        problems.append("its end did not arrive")
    if lost := site.job(job).get("lost_records"):
        problems.append(f"{lost} records are lost")
    if (times := len(_page_times(site, job, FIRING))) > 1:
        problems.append(f"it arrived {times} times")
    site.training.preempt()
    delay = arrived[0] - began if arrived else _NEVER
    shown = f"{ALERT_TELEMETRY_LOST}; no record is lost"
    return Check("database dies", shown, delay, tuple(problems))


CHECKS: dict[str, Callable[[Site, Tell], Check]] = {
    "canary": canary,
    "silence": silence,
    "maintenance": maintenance,
    "preemption": preemption,
    "damaged-checkpoint": damaged_checkpoint,
    "database-dies": database_dies,
    "collectors-die": collectors_die,
    "alertmanager-dies": alertmanager_dies,
    "prometheus-dies": prometheus_dies,
}
"""Checks by the names on the command line."""


def _page_times(site: Site, job: str, status: str) -> list[float]:
    """Return when pages about a job's missing telemetry arrived; job "" stands for all jobs."""
    return [
        notification.arrived_at
        for notification in site.notifications()
        if (notification.job, notification.alert, notification.status)
        == (job, ALERT_TELEMETRY_LOST, status)
    ]


def _hang(site: Site, job: str, tell: Tell) -> Trial:
    drill: Drill = DRILLS_BY_NAME["hang"]._replace(name=job, job=job)
    trial = trials.start(site, drill, tell)
    trials.find(site, trial, tell)
    return trial


def _suppression_problems(site: Site, trial: Trial, tell: Tell) -> Iterator[str]:
    """Yield each problem with an alert that fires but must not page."""
    job = trial.drill.job_name
    if not trial.incident or site.incident(trial.incident["id"])["state"] != "open":
        yield "its incident is not open"
    if not wait(trials.DELIVERY_SECONDS, lambda: site.servers.firing_alerts(job)):
        yield f"{ALERT_HANG} does not fire"
    tell("the alert fires")
    time.sleep(_QUIET_SECONDS)
    if any(
        notification.job == job and notification.receiver == PAGE
        for notification in site.notifications()
    ):
        yield "a page arrived"


def _dies(site: Site, name: str, start: Callable[[], None], tell: Tell) -> Check:
    if not wait(_NOTICED_SECONDS, lambda: heartbeats(site.pager)):
        return Check(f"{name} dies", "no heartbeat ever came", _NEVER, ("no heartbeat came",))
    site.servers.kill(name)
    began = time.time()
    tell("killed")
    overdue = wait(_NOTICED_SECONDS, lambda: _is_overdue(site))
    delay = time.time() - began if overdue else _NEVER
    problems = [] if overdue else ["the heartbeat went on"]
    start()
    heartbeats_before = len(heartbeats(site.pager))
    if not wait(_NOTICED_SECONDS, lambda: len(heartbeats(site.pager)) > heartbeats_before):
        problems.append("no heartbeat came after it was back")
    shown = f"the heartbeat of every {HEARTBEAT_SECONDS} s is overdue"
    return Check(f"{name} dies", shown, delay, tuple(problems))


def _is_overdue(site: Site) -> bool:
    return time.time() - heartbeats(site.pager)[-1] > _OVERDUE * HEARTBEAT_SECONDS


def _stepwatch(site: Site, *words: str) -> dict[str, Any]:
    places = ("--collector", site.collectors[0].url, "--alertmanager", site.servers.alertmanager)
    completed = subprocess.run(
        [*CLI, "silence", *words, *places, "--json"], capture_output=True, text=True, check=False
    )
    if completed.returncode:
        raise DrillError(f"stepwatch silence: {completed.stderr.strip()}")
    document: dict[str, Any] = json.loads(completed.stdout)
    return document
