"""`stepwatch track` against a real collector whose job goes on."""

from __future__ import annotations

import itertools
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import httpx

from stepwatch.cli.main import main
from stepwatch.signals.records import Kind, LifecycleEvent
from tests.collector.made import JOB, body, lifecycle_rows, run_segments, segment
from tests.collector.process import Process
from tests.waiting import until

SEGMENTS = run_segments(100, excess={(2, "forward"): 0.2}, slow_from=30)
"""A job of 100 steps, five in a segment, with a straggler."""
STRAGGLES_UNTIL = 60
"""The straggler has an incident by this step."""


def send_steps(collector: Process, first: int, until_step: int) -> None:
    """The job makes these steps, and the collector has evaluated them."""
    collector.send(body(SEGMENTS[first // 5 : until_step // 5]))

    def is_evaluated() -> bool:
        job = httpx.get(f"{collector.url}/v1/jobs/{JOB}", timeout=10.0).json()
        has_straggler = until_step < STRAGGLES_UNTIL or bool(job.get("incidents"))
        return job.get("step") == until_step - 1 and has_straggler

    until(f"step {until_step} to be evaluated", is_evaluated)


def finish(collector: Process) -> None:
    """The job reaches its end after 100 steps."""
    rows = {Kind.LIFECYCLE: lifecycle_rows(LifecycleEvent.FINISH, range(4), time_s=21.0)}
    collector.send(body([segment(len(SEGMENTS) + 1, rows)]))


def words(collector: Process, to: str, *more: str) -> list[str]:
    return ["track", JOB, "--to", to, "--collector", collector.url, *more]


def track_once(collector: Process, to: str) -> None:
    assert main(words(collector, to, "--once")) == 0


@contextmanager
def tracking(collector: Process, to: str) -> Iterator[subprocess.Popen[str]]:
    """The command, which looks at the job all the time; killed at the end."""
    command = [sys.executable, "-m", "stepwatch.cli", *words(collector, to, "--every", "0.05")]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait(20)
        assert process.stderr is not None
        process.stderr.close()


def track_with_kills(
    collector: Process, to: str, written: Callable[[], int], kills: int, seed: int
) -> None:
    """Kill the command at random moments while the job goes on; start it again each time.

    Each time it writes at least once: `written` returns the number of points so far.
    """
    generator = random.Random(seed)
    edges = [100 * number // (kills + 1) // 5 * 5 for number in range(kills + 2)]
    for first, last in itertools.pairwise(edges):
        before = written()
        with tracking(collector, to) as process:
            send_steps(collector, first, first + 5)
            _until_more(written, before)
            for step in range(first + 5, last, 5):
                send_steps(collector, step, step + 5)
                time.sleep(generator.uniform(0.0, 0.5))
            assert process.poll() is None, "it runs until the kill"
    track_once(collector, to)


def _until_more(written: Callable[[], int], before: int) -> None:
    until("the command to write", lambda: written() > before)
