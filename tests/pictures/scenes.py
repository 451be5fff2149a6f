"""What is photographed, each on real processes: demos, and a collector with a fleet."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from stepwatch.signals.clock import NANOSECONDS, ClockPair
from stepwatch.signals.records import Kind, make_rows
from stepwatch.signals.wire import Segment
from tests.collector.made import body, run_segments
from tests.collector.process import Process
from tests.collector.web.views.runs import send_hours
from tests.e2e.demos import demo_words
from tests.ports import free_port
from tests.waiting import until

from .camera import Camera

Scene = Callable[[Camera, Path], None]
STEPS, SECONDS = 40, 2.0
MORE_STEPS = 200
"""Steps that the jobs go on for while they are photographed: a job that is silent is unknown."""
JOBS, SLOW_JOBS, JOBS_AT_ONCE = 500, 6, 50
"""Jobs of the fleet, those of them with a slow rank, and those in one request."""
RANKS = 16_384
OBJECTIVE_JOB = "llama-7b"
AFTER_INCIDENT_SECONDS = 12.0
"""A demo goes on for a while after its incident, so that the curves show it."""


def job_with_incident(camera: Camera, folder: Path) -> None:
    """Photograph a demo's job, incident, runbook and node while rank 2 is slow."""
    with _demo("--steps", "110") as url:
        incident = until("the demo's incident", lambda: _open_incident(url))
        time.sleep(AFTER_INCIDENT_SECONDS)
        camera.take("job", f"{url}/jobs/demo", "canvas.matrix")
        camera.take("incident", f"{url}/incidents/{incident['id']}", ".track")
    # A picture of a section needs no fault that goes on.
    runbook = f"/runbooks/{incident['runbook']}?incident={incident['id']}"
    with _demo("--steps", "60", "--hold") as url:
        until("the demo's incident", lambda: _open_incident(url))
        camera.take("runbook", url + runbook.partition("?")[0], "main h1")
        until("the node's report", lambda: httpx.get(f"{url}/v1/nodes").json()["nodes"])
        camera.take("node", f"{url}/nodes/{incident['node']}", "main table")
        camera.take("nodes", f"{url}/nodes", "main table")


def healthy_job(camera: Camera, folder: Path) -> None:
    """Photograph a demo without a fault: nothing is red."""
    with _demo("--steps", "80", "--fault", "none") as url:
        until("forty steps", lambda: _job(url).get("step", 0) and _job(url)["step"] >= 40)
        camera.take("job-healthy", f"{url}/jobs/demo", "canvas.matrix")


def fleet(camera: Camera, folder: Path) -> None:
    """Photograph the fleet's views over 500 jobs and one of 16,384 ranks."""
    collector = Process(folder, interval=5.0)
    collector.start()
    collector.wait_ready()
    stopped = threading.Event()
    training = threading.Thread(target=_train, args=(collector, stopped))
    try:
        _simulate(collector.url)
        training.start()
        until("the incidents", lambda: len(_incidents(collector.url)) >= SLOW_JOBS, 300.0)
        for name, (path, awaited) in FLEET_VIEWS.items():
            camera.take(name, collector.url + path, awaited)
    finally:
        stopped.set()
        training.join()
        collector.end()


def objective(camera: Camera, folder: Path) -> None:
    """Photograph one objective, whose budget a stalled step and a slow rank have partly spent."""
    collector = Process(folder)
    collector.start()
    collector.wait_ready()
    try:
        send_hours(collector, OBJECTIVE_JOB)
        path = f"/slos?job={OBJECTIVE_JOB}&name=goodput"
        until("the incident", lambda: len(_incidents(collector.url)))
        camera.take("slo", collector.url + path, "#burndown .sign.bad")
    finally:
        collector.end()


FLEET_VIEWS = {
    "fleet": ("/", "#jobs tbody tr"),
    "job-16384": ("/jobs/pretraining-405b", "canvas.matrix"),
    "slos": ("/slos", "main table"),
    "compare": ("/compare?job=finetuning-007&job=finetuning-010", ".track"),
    "reports": ("/reports", "main table"),
    "sweeps": ("/sweeps?match=finetuning", "main table"),
    "self": ("/self", "main table"),
}
SCENES: dict[str, Scene] = {
    "job-with-incident": job_with_incident,
    "healthy-job": healthy_job,
    "fleet": fleet,
    "objective": objective,
}


@contextmanager
def _demo(*words: str) -> Iterator[str]:
    """Run a demo, and yield its page's address."""
    port = free_port()
    demo = subprocess.Popen(demo_words("--port", str(port), *words), stdout=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}"
    try:
        until("the demo's job", lambda: _job(url))
        yield url
    finally:
        demo.terminate()
        demo.wait()


def _job(url: str) -> dict[str, Any]:
    """Return the demo's job; empty before there is one."""
    try:
        answer = httpx.get(f"{url}/v1/jobs/demo", timeout=5.0)
    except httpx.HTTPError:
        return {}
    return dict(answer.json()) if answer.status_code == 200 else {}


def _incidents(url: str) -> list[dict[str, Any]]:
    return list(httpx.get(f"{url}/v1/incidents?state=open", timeout=30.0).json()["incidents"])


def _open_incident(url: str) -> dict[str, Any] | None:
    return next(iter(_incidents(url)), None)


def _simulate(url: str) -> None:
    """Send a run of 16,384 ranks of which one becomes slow."""
    words = [
        "simulate", "--ranks", str(RANKS), "--steps", "150", "--speed", "0", "--collector", url,
        "--job", "pretraining-405b", "--fault", "slow-compute:rank=5000,step=100",
    ]  # fmt: skip
    subprocess.run([sys.executable, "-m", "stepwatch.cli", *words], check=False, timeout=600)


def _train(collector: Process, stopped: threading.Event) -> None:
    """Send the small jobs' segments when they are due, until `stopped`; the first ones at once."""
    began = time.time() - STEPS * SECONDS
    clock = ClockPair(0, round(began * NANOSECONDS))
    runs = [_small_run(number) for number in range(JOBS)]
    for turn, segments in enumerate(zip(*runs, strict=True)):
        ended = began + 5 * (turn + 1) * SECONDS
        if stopped.wait(max(0.0, ended - time.time())):
            return
        for first in range(0, JOBS, JOBS_AT_ONCE):
            part = segments[first : first + JOBS_AT_ONCE]
            collector.send(body([item._replace(clock=clock) for item in part]))


def _small_run(number: int) -> list[Segment]:
    """Return a job's segments, each of five steps; a few jobs have a slow rank."""
    is_slow = number % (JOBS // SLOW_JOBS) == 7
    excess = {(number % 4, "forward"): 0.4 + 0.08 * (number % 9)} if is_slow else {}
    kind = ("pretraining", "finetuning", "evaluation")[number % 3]
    steps = STEPS + MORE_STEPS
    segments = run_segments(steps, 4, SECONDS, excess, slow_from=20, job=f"{kind}-{number:03d}")
    agent = make_rows(Kind.AGENT, 1, flush_seconds=5 * SECONDS)
    return [item._replace(tables={**item.tables, Kind.AGENT: agent}) for item in segments]
