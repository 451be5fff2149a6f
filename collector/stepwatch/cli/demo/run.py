"""Run a demo from start to report."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import time
import uuid
from pathlib import Path
from typing import Any

from stepwatch.cli.demo.plan import JOB, Plan
from stepwatch.cli.demo.progress import Progress
from stepwatch.cli.demo.report import incident_note, report_json, report_text
from stepwatch.cli.interruptions import terminable, undisturbed
from stepwatch.cli.processes import Processes
from stepwatch.cli.source import plain_document
from stepwatch.collector.job_states import ENDED
from stepwatch.signals import places
from stepwatch.signals.errors import StepwatchError
from stepwatch.signals.http import Client, HttpError

FLUSH_SECONDS = 0.5
POLL_SECONDS = 0.5
_START_SECONDS = 30.0
_SETTLE_SECONDS = 15.0
_LOOK_AGAIN_SECONDS = 4.0
"""How long a hanging run continues after its incident has opened."""


class DemoError(StepwatchError):
    """A part of the demo did not start or did not end as expected."""


def run_demo(plan: Plan, json_file: Path | None) -> int:
    """Run `plan`, print its report, and return the exit code; no process or ring remains.

    Raises:
        DemoError: a part failed; the message quotes its last line.
    """
    demo = Demo(plan)
    with terminable():
        try:
            with Progress(plan.steps) as progress:
                job = demo.run(progress)
            page = f"{demo.url}/jobs/{JOB}"
            if json_file is not None:
                json_file.write_text(json.dumps(report_json(job, page), indent=1) + "\n")
            print(report_text(job, plan, page))
            if plan.hold:
                _hold(page)
            return 0
        finally:
            demo.close()


class Demo:
    """Collector, agent and trainer of one demo."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.url = f"http://127.0.0.1:{plan.port}"
        self._client = Client(self.url, seconds=5.0)
        self._processes = Processes(
            uuid.uuid4().hex, plan.folder, {places.ENV_RING_DIR: str(plan.rings)}
        )
        self._began = time.monotonic()

    def run(self, progress: Progress) -> dict[str, Any]:
        """Start all processes, follow the run to its end, and return the newest job document."""
        self._start_servers()
        progress.note(f"{self._elapsed():4.0f} s  page at {self.url}/jobs/{JOB}")
        trainer = self._processes.start("trainer", *self._trainer_words())
        self._follow(trainer, progress)
        self._processes.stop("trainer", 10.0)
        job = self._settled(finished=trainer.returncode == 0)
        if trainer.returncode != 0 and not self.plan.hangs:
            raise DemoError(f"the trainer failed: {self._processes.last_line('trainer')}")
        return job

    def close(self) -> None:
        """End every process and remove all files that the plan does not keep."""
        with undisturbed():
            self._client.close()
            self._processes.stop_all()
            shutil.rmtree(self.plan.rings, ignore_errors=True)
            if not self.plan.keeps_files:
                shutil.rmtree(self.plan.folder, ignore_errors=True)

    def _start_servers(self) -> None:
        plan = self.plan
        server = self._processes.start(
            "collector", "collector", "--store", str(plan.store), "--port", str(plan.port)
        )
        deadline = time.monotonic() + _START_SECONDS
        while not self._answers():
            if server.poll() is not None or time.monotonic() > deadline:
                reason = self._processes.last_line("collector")
                raise DemoError(f"the collector did not start: {reason}")
            time.sleep(0.1)
        self._processes.start(
            "agent", "agent", "--collector", self.url, "--ring-dir", str(plan.rings),
            "--spool", str(plan.folder / "spool"), "--port", "0",
            "--flush-seconds", str(FLUSH_SECONDS),
        )  # fmt: skip

    def _trainer_words(self) -> list[str]:
        plan = self.plan
        words = ["train", "--job", JOB, "--steps", str(plan.steps)]
        words += ["--run-dir", str(plan.folder / "run")]
        if plan.data is not None:
            words += ["--data", str(plan.data)]
        if plan.loses_rank:
            words += ["--restarts", "1"]
        for fault in plan.fault_texts:
            words += ["--fault", fault]
        return words

    def _follow(self, trainer: subprocess.Popen[bytes], progress: Progress) -> None:
        """Watch until the trainer ends, or until it hangs and the incident is open."""
        opened: dict[str, float] = {}
        while trainer.poll() is None:
            job = self._job()
            progress.show(job, self._elapsed())
            for incident in job["incidents"] if job else ():
                if incident["id"] not in opened:
                    opened[incident["id"]] = time.monotonic()
                    progress.note(incident_note(incident, self._elapsed()))
                hang = incident["kind"] in ("hang", "pause") and self.plan.hangs
                if hang and time.monotonic() - opened[incident["id"]] > _LOOK_AGAIN_SECONDS:
                    progress.note(
                        f"{self._elapsed():4.0f} s  it will not end by itself: stopping it"
                    )
                    return
            if self._elapsed() > self.plan.timeout_seconds:
                raise DemoError(
                    f"not finished after {self.plan.timeout_seconds:.0f} s; see --timeout"
                )
            time.sleep(POLL_SECONDS)

    def _settled(self, finished: bool) -> dict[str, Any]:
        """Return the job after its last records have arrived."""
        deadline = time.monotonic() + _SETTLE_SECONDS
        while True:
            job = self._job()
            over = job is not None and job["state"] in ENDED and job["open_incidents"] == 0
            if job is not None and (over or not finished or time.monotonic() > deadline):
                return job
            if time.monotonic() > deadline:
                reason = self._processes.last_line("trainer")
                raise DemoError(f"nothing arrived at the collector; the trainer reported: {reason}")
            time.sleep(POLL_SECONDS)

    def _job(self) -> dict[str, Any] | None:
        try:
            response = self._client.get(f"/v1/jobs/{JOB}")
        except HttpError:
            return None
        if response.status_code != 200:
            return None
        job: dict[str, Any] = plain_document(response.json())
        return job

    def _answers(self) -> bool:
        try:
            return self._client.get("/healthz").status_code == 200
        except HttpError:
            return False

    def _elapsed(self) -> float:
        return time.monotonic() - self._began


def _hold(page: str) -> None:
    print(f"\nthe page stays at {page} until Ctrl-C", flush=True)
    try:
        signal.pause()
    except KeyboardInterrupt:
        print()
