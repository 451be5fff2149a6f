"""Many small jobs, each from its own agent: processor time a job-second, and fault to verdict.

Each job has eight ranks with a step a second, and a connection of its own. Its agent flushes each
second, or as seldom as the collector asks for. Five jobs get a fault.
"""

from __future__ import annotations

import asyncio
import random
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx

from stepwatch.cli.simulate.faults import parse
from stepwatch.cli.simulate.fleet import Fleet
from stepwatch.cli.simulate.plan import Plan
from stepwatch.signals import wire
from stepwatch.signals.clock import NANOSECONDS
from stepwatch.signals.pacing import FLUSH_HEADER
from tests.soak.processes import Collector, processor_seconds

from .result import Result

COUNTS = (1, 10, 100, 500, 1000)
"""A collector holds at most 1,000 jobs."""
WITH_FAULTS = 500
"""The number of jobs among which five have a fault."""
FAULTS = ("slow-compute", "slow-data", "slow-compute", "hang", "kill")
_RANK, _FAULT_STEP = 3, 75
_WARM_SECONDS, _MEASURED_SECONDS, _VERDICT_SECONDS = 45.0, 30.0, 60.0
_START_SECONDS = 10.0
"""Over this long the jobs begin, each at a moment of its own."""


class Sent(NamedTuple):
    """Requests until now: answered, refused for lack of room, and the newest asked interval."""

    answered: int = 0
    refused: int = 0
    asked_seconds: float = 0.0


class Measured(NamedTuple):
    """Processor seconds of a job-second, the requests, and seconds from fault to incident."""

    job_second: float
    sent: Sent
    longest_wait: float
    verdict_seconds: list[float | None]


def measure() -> Iterator[Result]:
    """Measure each number of jobs on a new collector."""
    for count in COUNTS:
        yield from _rows(count, measured(count, FAULTS if count == WITH_FAULTS else ()))


def _rows(count: int, result: Measured) -> Iterator[Result]:
    words = f"{count:,} job{'s' * (count > 1)} of 8 ranks"
    asked = f"agents flush each {max(result.sent.asked_seconds, 1.0):g} s"
    yield Result(
        f"{words}: processor, a job-second",
        f"{1e3 * result.job_second:.2f} ms",
        "0.5 ms",
        f"{asked}; {result.sent.refused} of {result.sent.answered} requests refused; "
        f"every job evaluated within {result.longest_wait:.1f} s",
    )
    if result.verdict_seconds:
        known = sorted(seconds for seconds in result.verdict_seconds if seconds is not None)
        shown = ", ".join(f"{seconds:.1f}" for seconds in known)
        yield Result(
            f"{words}: fault to incident",
            f"{known[-1]:.1f} s" if len(known) == len(FAULTS) else f"{len(known)} of {len(FAULTS)}",
            "p90 10 s",
            f"five faults: {shown} s",
        )


def measured(count: int, faults: tuple[str, ...]) -> Measured:
    """Measure a new collector with `count` jobs, the first ones with a fault."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        collector = Collector(folder, "collector", str(folder / "store.db"))
        try:
            collector.start()
            return asyncio.run(_watched(collector, count, faults))
        finally:
            collector.end(signal.SIGKILL)


async def _watched(collector: Collector, count: int, faults: tuple[str, ...]) -> Measured:
    agents = [
        _Agent(collector.port, job, faults[job] if job < len(faults) else "")
        for job in range(count)
    ]
    tasks = [asyncio.create_task(agent.run()) for agent in agents]
    await asyncio.sleep(_START_SECONDS + _WARM_SECONDS)
    before, began = processor_seconds(collector.pid), time.monotonic()
    await asyncio.sleep(_MEASURED_SECONDS)
    spent = processor_seconds(collector.pid) - before
    job_second = spent / (time.monotonic() - began) / count
    wait = await asyncio.to_thread(_longest_wait, collector.url)
    verdicts: list[float | None] = []
    if faults:
        await asyncio.sleep(_VERDICT_SECONDS)
        verdicts = [
            await asyncio.to_thread(agent.verdict_seconds, collector.url)
            for agent in agents[: len(faults)]
        ]
    for task in tasks:
        task.cancel()
    ended = await asyncio.gather(*tasks, return_exceptions=True)
    errors = [error for error in ended if isinstance(error, Exception)]
    if errors:
        raise errors[0]
    answered = sum(agent.sent.answered for agent in agents)
    refused = sum(agent.sent.refused for agent in agents)
    asked = max(agent.sent.asked_seconds for agent in agents)
    return Measured(job_second, Sent(answered, refused, asked), wait, verdicts)


def _longest_wait(url: str) -> float:
    text = httpx.get(f"{url}/metrics", timeout=60.0).text
    name = "stepwatch_collector_evaluation_seconds "
    lines = (line for line in text.splitlines() if line.startswith(name))
    return float(next(lines).removeprefix(name))


class _Agent:
    """One job's agent: a connection that sends its segments when they are due."""

    def __init__(self, port: int, job: int, fault: str) -> None:
        self.job = f"job-{job}"
        self.sent = Sent()
        self._connection = _Connection(port)
        words = f"{fault}:rank={_RANK},step={_FAULT_STEP}"
        self._plan = Plan(
            ranks=8,
            nodes=1,
            step_seconds=1.0,
            seconds=3600.0,
            job=self.job,
            faults=tuple(filter(None, [parse(words)])) if fault else (),
            seed=job,
            flush_seconds=1.0,
        )
        self._began_ns = 0
        self._fleet: Fleet | None = None

    async def run(self) -> None:
        """Send until the task is cancelled."""
        await asyncio.sleep(random.Random(self._plan.seed).uniform(0.0, _START_SECONDS))
        self._began_ns = time.time_ns()
        self._fleet = Fleet(self._plan, self._began_ns, self._plan.seed)
        for flush in self._fleet.flushes():
            due = (self._began_ns + flush.true_ns) / NANOSECONDS
            await asyncio.sleep(max(0.0, due - time.time()))
            await self._send(b"".join(flush.segments))
            self.sent = self.sent._replace(answered=self.sent.answered + 1)

    async def _send(self, body: bytes) -> None:
        """Send a request until it is accepted, and note the interval that is asked for."""
        while True:
            try:
                status, headers = await self._connection.post("/v1/segments", body)
            except (asyncio.IncompleteReadError, ConnectionError):
                self._connection.close()  # the collector closes a connection after a while
                continue
            asked_seconds = float(headers.get(FLUSH_HEADER, 0.0))
            self.sent = self.sent._replace(asked_seconds=asked_seconds)
            if self._fleet is not None:
                self._fleet.asked_seconds = asked_seconds
            if status == 200:
                return
            self.sent = self.sent._replace(refused=self.sent.refused + 1)
            await asyncio.sleep(float(headers.get("retry-after", 1)) * random.uniform(1.0, 1.5))

    def verdict_seconds(self, url: str) -> float | None:
        """Return the seconds from the fault to the first incident after it; None without one."""
        answer = httpx.get(f"{url}/v1/incidents", params={"job": self.job}, timeout=60.0).json()
        incidents: list[dict[str, Any]] = answer["incidents"]
        if self._fleet is None or not self._fleet.began_ns:
            return None
        (began,) = self._fleet.began_ns.values()
        fault_s = (self._began_ns + began) / NANOSECONDS
        delays = [item["opened_at"] - fault_s for item in incidents]
        return min((delay for delay in delays if delay > 0), default=None)


class _Connection:
    """A kept connection; it costs the sender a tenth of what an HTTP client does."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def post(self, path: str, body: bytes) -> tuple[int, dict[str, str]]:
        """Return the status and the headers of the answer.

        Raises:
            ConnectionError: the connection ended.
            asyncio.IncompleteReadError: it ended before the answer.
        """
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._port)
        reader, writer = self._streams
        head = (
            f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\n"
            f"content-type: {wire.MEDIA_TYPE}\r\ncontent-length: {len(body)}\r\n\r\n"
        )
        writer.write(head.encode() + body)
        status, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().strip().split("\r\n")
        pairs = (line.partition(":") for line in lines)
        headers = {name.lower(): value.strip() for name, _, value in pairs}
        await reader.readexactly(int(headers.get("content-length", 0)))
        return int(status.split()[1]), headers

    def close(self) -> None:
        """Close it; the next request opens a new one."""
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None
