"""Rings with known records, a real collector on a free port, and a count of what it stored."""

from __future__ import annotations

import os
import ssl
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from stepwatch.agent.app import Agent, AgentOptions
from stepwatch.agent.probes import Probe
from stepwatch.collector.runtime.service import Service
from stepwatch.collector.store import Store
from stepwatch.collector.web.api import make_api
from stepwatch.signals import places, wire
from stepwatch.signals.blackbox import Identity, RingWriter
from stepwatch.signals.processes import start_ticks
from stepwatch.signals.records import CheckpointEvent, Kind, LifecycleEvent, Phase
from stepwatch.signals.wire import Rows

from .fake_proc import Proc
from .scripted_driver import driver, library

__all__ = ["driver", "library"]

Start = Callable[..., subprocess.Popen[bytes]]
"""Starts a process of this Python with such words, and what is to be in its environment."""

Moods = list[tuple[int, dict[str, str], bytes]]
"""Answers (status, headers, body) to give instead of the collector's own, one per request."""


class Rank:
    """Writes steps without training; `process` (id, start in ticks) is this one unless given."""

    def __init__(
        self,
        root: Path,
        rank: int = 0,
        *,
        job: str = "job",
        capacity: int = 512,
        process: tuple[int, int] | None = None,
    ) -> None:
        pid, start = process or (os.getpid(), start_ticks(os.getpid()))
        identity = Identity(
            job, 0, rank, 4, "node-1", pid, 1000 + rank, capacity, process_start=start
        )
        self.ring = RingWriter(root / job / "0" / str(rank), identity)
        self.job = job
        self.step = 0

    def steps(self, count: int) -> None:
        for _ in range(count):
            self.step += 1
            phases = [1_000_000 * (self.step % 7)] * (len(Phase) + 2)
            body = (sum(phases), *phases, 64, 4, 0, 1.0 / self.step, 0.5)
            self.ring.write(Kind.STEP, self.step, time.monotonic_ns(), *body)

    def facts(self) -> None:
        moment = time.monotonic_ns()
        self.ring.write(Kind.LIFECYCLE, self.step, moment, LifecycleEvent.START, 4, b"node-1")
        event = CheckpointEvent.VERIFIED
        self.ring.write(Kind.CHECKPOINT, self.step, moment, event, 0, 0, 0, b"", 0)


@contextmanager
def collector(place: Path, port: int = 0, moods: Moods | None = None) -> Iterator[str]:
    """A real collector over the store at `place`; yields its URL."""
    store = Store.sqlite(place)
    api = make_api(Service(store))

    async def moody(scope: Any, receive: Any, send: Callable[[Any], Awaitable[None]]) -> None:
        if not moods:
            await api(scope, receive, send)
            return
        status, headers, body = moods.pop(0)
        raw = [(key.encode(), value.encode()) for key, value in headers.items()]
        await send({"type": "http.response.start", "status": status, "headers": raw})
        await send({"type": "http.response.body", "body": body})

    try:
        with serving(moody, port) as url:
            yield url
    finally:
        store.close()


@contextmanager
def serving(
    application: Any, port: int = 0, certificate: ssl.SSLContext | None = None
) -> Iterator[str]:
    """A web application on a loopback port, with `certificate` over TLS; yields its URL."""
    opened = places.listen("127.0.0.1", port, False, "--token-file")
    config = uvicorn.Config(application, log_level="error", lifespan="off", ws="none")
    config.load()
    config.ssl = certificate
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [opened]})
    thread.start()
    try:
        scheme = "http" if certificate is None else "https"
        yield f"{scheme}://127.0.0.1:{opened.getsockname()[1]}"
    finally:
        server.should_exit = True
        if certificate is not None:
            # TLS waits 30 s for the last message of a client that keeps its connection.
            thread.join(0.5)
            for connection in list(server.server_state.connections):
                connection.loop.call_soon_threadsafe(connection.transport.abort)
        thread.join(10)
        opened.close()


def tables_in(place: Path, job: str = "job") -> Iterator[dict[Kind, Rows]]:
    """Tables of every segment in a store."""
    store = Store.sqlite(place)
    for payload, *_ in store.segments(job):
        yield dict(wire.decode(payload).tables)
    store.close()


def spooled(agent: Agent) -> list[dict[Kind, Rows]]:
    """Tables of every segment that an agent holds."""
    return [dict(wire.decode(data).tables) for _, data in agent.spool.oldest(1000)]


def stored_steps(place: Path, job: str = "job") -> Counter[tuple[int, int]]:
    """How often each (rank, step) lies in a store."""
    counts: Counter[tuple[int, int]] = Counter()
    for tables in tables_in(place, job):
        if Kind.STEP in tables:
            rows = tables[Kind.STEP]
            counts.update(zip(rows["rank"].tolist(), rows["step"].tolist(), strict=True))
    return counts


def once(ranks: int, steps: int) -> Counter[tuple[int, int]]:
    """Every step of every rank, exactly once."""
    return Counter({(rank, step): 1 for rank in range(ranks) for step in range(1, steps + 1)})


@pytest.fixture(autouse=True)
def no_crashes(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """No process of a probe is ended by a signal, but by one that kills."""
    yield
    messages = [record.getMessage() for record in caplog.get_records("call")]
    crashed = [line for line in messages if "was ended by SIG" in line and "SIGKILL" not in line]
    assert not crashed, "a process of a probe crashed"


@pytest.fixture
def make_agent(tmp_path: Path) -> Iterator[Callable[..., Agent]]:
    """Builds agents that read `tmp_path/rings` and spool to `tmp_path/spool`; nothing runs."""
    agents: list[Agent] = []

    def make(url: str = "http://127.0.0.1:9", **options: Any) -> Agent:
        # What the kernel of the machine logs meanwhile is none of theirs.
        values = {"port": None, "kernel_log": tmp_path / "kmsg", **options}
        agent = Agent(AgentOptions(tmp_path / "rings", tmp_path / "spool", url, "n1", **values))
        agents.append(agent)
        for probe in agent.readings.probes:  # every round reads every probe
            probe.every_seconds = 0.0  # type: ignore[misc]
        return agent

    yield make
    for agent in agents:
        agent.close()


@pytest.fixture
def rank(tmp_path: Path) -> Iterator[Rank]:
    """A rank whose ring lies in `tmp_path/rings`."""
    new_rank = Rank(tmp_path / "rings")
    yield new_rank
    new_rank.ring.close()


@pytest.fixture
def proc(tmp_path: Path) -> Proc:
    folder = tmp_path / "proc"
    folder.mkdir()
    return Proc(folder)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts processes that end with the test."""
    running: list[subprocess.Popen[bytes]] = []

    def begin(*words: str, **environ: str) -> subprocess.Popen[bytes]:
        environment = {
            **os.environ,
            places.ENV_RING_DIR: str(tmp_path / "rings"),
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            **environ,
        }
        with open(tmp_path / "log", "ab") as log:
            process = subprocess.Popen(
                [sys.executable, *words], env=environment, stdout=log, stderr=log
            )
        running.append(process)
        return process

    yield begin
    for process in running:
        process.kill()
        process.wait(10)


def round_of(agent: Agent) -> None:
    """What one turn of the polling loop does."""
    agent.tail.discover()
    agent.flush()


def use_probe(agent: Agent, probe: Probe) -> None:
    """Let `agent` read this probe in place of the one that has its name, in every round."""
    probe.every_seconds = 0.0  # type: ignore[misc]
    other_probes = [
        candidate for candidate in agent.readings.probes if candidate.name != probe.name
    ]
    agent.readings.probes = [*other_probes, probe]


def give_up(_seconds: float) -> bool:
    """A wait that never waits: `drain` stops at the first failure."""
    return True
