"""What open page tabs cost a collector of running jobs: its processor time with and without."""

from __future__ import annotations

import asyncio
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import NamedTuple

import httpx

from stepwatch.signals.clock import NANOSECONDS, ClockPair
from stepwatch.signals.records import Kind, LifecycleEvent
from stepwatch.signals.wire import Segment
from tests.collector.made import body, lifecycle_rows, segment, state_rows, step_rows
from tests.soak.processes import Collector, processor_seconds

from .result import Result

JOBS, RANKS = 20, 8
TABS = 200
VIEWS = ("fleet", "job")
"""Half of the tabs show the fleet, half one of the jobs."""
STEP_SECONDS = 1.0
_PHASE_SECONDS, _PHASES, _WARM_SECONDS = 20.0, 3, 15.0


class _Cost(NamedTuple):
    """Shares of a core, and bytes that one tab of each kind read in a minute."""

    without: float
    with_tabs: float
    fleet_bytes: float
    job_bytes: float


def measure() -> Iterator[Result]:
    """Measure one collector before the first tab, and with tabs: answers outlive the last one."""
    with tempfile.TemporaryDirectory() as folder:
        cost = _measured(Path(folder))
    yield Result(
        f"{TABS} page tabs, {JOBS} running jobs: collector", f"{cost.with_tabs:.1%}",
        f"5% of a core above {cost.without:.1%}", f"without a tab {cost.without:.1%} of a core",
    )  # fmt: skip
    yield Result(
        "one idle tab in a minute", f"{cost.job_bytes / 1000:.0f} kB", "100 kB",
        f"on a job; on the fleet of {JOBS} jobs {cost.fleet_bytes / 1000:.0f} kB",
    )  # fmt: skip


def _measured(folder: Path) -> _Cost:
    collector = Collector(folder, "collector", str(folder / "store.db"))
    finished = threading.Event()
    sender = threading.Thread(target=send_steps, args=(collector.url, finished))
    try:
        collector.start()
        sender.start()
        time.sleep(_WARM_SECONDS)
        without = median(share_of(collector.pid) for _ in range(_PHASES))
        phases = [asyncio.run(_with_tabs(collector)) for _ in range(_PHASES)]
        return _Cost(without, *(median(figures) for figures in zip(*phases, strict=True)))
    finally:
        finished.set()
        sender.join()
        collector.end(signal.SIGKILL)


def share_of(pid: int, seconds: float = _PHASE_SECONDS) -> float:
    """Return the share of a core that a process takes for some seconds."""
    before, began = processor_seconds(pid), time.monotonic()
    time.sleep(seconds)
    return (processor_seconds(pid) - before) / (time.monotonic() - began)


async def _with_tabs(collector: Collector) -> tuple[float, float, float]:
    read = dict.fromkeys(VIEWS, 0)
    topics = ["fleet" if tab % 2 == 0 else f"job:job-{tab % JOBS}" for tab in range(TABS)]
    tabs = [asyncio.create_task(read_stream(collector.port, topic, read)) for topic in topics]
    await asyncio.sleep(3.0)  # the beginning is not what an idle tab reads
    read.update(dict.fromkeys(VIEWS, 0))
    share = await asyncio.to_thread(share_of, collector.pid)
    minute = 60.0 / _PHASE_SECONDS / (TABS / 2)
    figures = share, read["fleet"] * minute, read["job"] * minute
    for tab in tabs:
        tab.cancel()
    ended = await asyncio.gather(*tabs, return_exceptions=True)
    assert all(isinstance(outcome, asyncio.CancelledError) for outcome in ended), ended
    return figures


async def read_stream(port: int, topic: str, read: dict[str, int]) -> None:
    """Read a stream until the task is cancelled; add its bytes to those of its view.

    Raises:
        EOFError: the stream has ended.
    """
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET /v1/events?topic={topic} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
    try:
        while part := await reader.read(65536):
            read["fleet" if topic == "fleet" else "job"] += len(part)
        raise EOFError("a stream has ended")
    finally:
        writer.close()


def send_steps(url: str, finished: threading.Event) -> None:
    """Send each job's newest step, once a step, until the end."""
    began = time.time()
    with httpx.Client() as client:
        step = 0
        while not finished.wait(max(0.0, began + step * STEP_SECONDS - time.time())):
            segments = [_segment(f"job-{job}", step, began) for job in range(JOBS)]
            client.post(f"{url}/v1/segments", content=body(segments), timeout=60.0)
            step += 1


def _segment(job: str, step: int, began: float) -> Segment:
    end = (step + 1) * STEP_SECONDS
    tables = {
        Kind.STEP: step_rows([step], range(RANKS), STEP_SECONDS),
        Kind.RANK_STATE: state_rows(range(RANKS), RANKS, end, step),
    }
    if not step:
        tables[Kind.LIFECYCLE] = lifecycle_rows(LifecycleEvent.START, range(RANKS), RANKS)
    clock = ClockPair(0, round((began - STEP_SECONDS) * NANOSECONDS))
    return segment(step + 1, tables, job)._replace(clock=clock)
