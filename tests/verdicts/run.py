"""One run from its launch to a settled verdict."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from stepwatch.faults.injector import SEPARATOR
from stepwatch.signals import places
from tests.ports import free_port
from tests.simulated_device.build import library

from .cases import Case
from .plan import Plan
from .scoring import Outcome, Verdict
from .site import Site, is_alive, kill

POLL_SECONDS = 0.25
STRIKE_SECONDS = 60.0
"""Longest wait for a fault to trigger; a run that takes longer is broken."""
VERDICT_SECONDS = 25.0
"""Longest wait for a verdict after the trigger: beyond twice the goal it is a miss."""
SETTLE_SECONDS = 3.0
"""Wait after the first verdict: a second one from the same facts would open in this time."""
AFTER_END_SECONDS = 3.5
"""Wait after a healthy run: agent and collector poll once a second each."""


class Ran(NamedTuple):
    """The result of a case; `problem` is empty if the run follows its plan."""

    case: Case
    outcome: Outcome
    step_seconds: float
    wall_seconds: float
    problem: str
    looked_at: float = math.inf
    """Unix seconds of the last look at the verdicts; after that the ranks are killed."""


def run(case: Case, site: Site, settle_seconds: float = SETTLE_SECONDS) -> Ran:
    """Run one case until `settle_seconds` after its first verdict."""
    if case.plan.workload == "device":
        library()  # before the ranks start, because all of them would wait for it
    began = time.monotonic()
    folder = site.folder / case.plan.job
    folder.mkdir()
    log = folder / "faults.log"
    plan = replace(
        case.plan,
        port=free_port(),
        folder=str(folder),
        environ={
            places.ENV_FAULTS: SEPARATOR.join(case.plan.faults),
            places.ENV_FAULT_LOG: str(log),
        },
    )
    pids = site.launch(plan)
    try:
        with neighbours(plan):
            problem = _follow(case, site, pids, log, settle_seconds)
        all_alive = case.truth is None or all(map(is_alive, pids))
        incidents, looked_at = site.incidents(plan.job), time.time()
        job = site.job(plan.job) or {}
    finally:
        kill(pids)
    step = (job.get("step_seconds") or {}).get("p50") or math.nan
    verdicts = tuple(map(verdict, filter(stands_alone, incidents)))
    if plan.workload == "device" and all_alive and job.get("step_seconds_clock") != "device":
        problem = problem or "its steps were not timed on the devices"
    outcome = Outcome(case.truth, struck_at(log), verdicts)
    return Ran(case, outcome, step, time.monotonic() - began, problem, looked_at)


def struck_at(log: Path) -> float:
    """Return the Unix seconds at which the first fault triggered; infinite if none did."""
    lines = log.read_text().splitlines() if log.exists() else []
    return min((float(json.loads(line)["at"]) for line in lines), default=math.inf)


def stands_alone(incident: dict[str, Any]) -> bool:
    """Return whether an incident is not a symptom of another."""
    return not incident.get("merged_into")


def verdict(incident: dict[str, Any]) -> Verdict:
    """Return an incident of the collector's API in the form for scoring."""
    return Verdict(**{name: incident[name] for name in Verdict._fields})


def _follow(case: Case, site: Site, pids: list[int], log: Path, settle_seconds: float) -> str:
    """Wait until the verdict is settled; return a problem of the run itself."""
    if case.truth is None:
        while any(map(is_alive, pids)):
            time.sleep(POLL_SECONDS)
        time.sleep(AFTER_END_SECONDS)
        return "" if _finished(site, case.plan.job) else "the run did not finish"
    deadline = time.monotonic() + STRIKE_SECONDS
    while not log.exists():
        if time.monotonic() > deadline or not any(map(is_alive, pids)):
            return "the fault never triggered"
        time.sleep(POLL_SECONDS)
    triggered = time.monotonic()
    while time.monotonic() < triggered + VERDICT_SECONDS:
        if any(map(stands_alone, site.incidents(case.plan.job))):
            time.sleep(settle_seconds)
            return ""
        time.sleep(POLL_SECONDS)
    return ""


def _finished(site: Site, job: str) -> bool:
    job_state = site.job(job)
    return job_state is not None and job_state["state"] == "finished"


@contextmanager
def neighbours(plan: Plan) -> Iterator[None]:
    """Run processes that take the ranks' processors for a while."""
    busy = "import time; end = time.monotonic() + 4\nwhile time.monotonic() < end: pass"
    wait = f"import time; time.sleep({2 + plan.seed % 3}); exec({busy!r})"
    started = [subprocess.Popen([sys.executable, "-c", wait]) for _ in range(plan.neighbours)]
    try:
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()
