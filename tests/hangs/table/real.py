"""Chosen rows on real Gloo ranks, with a real agent and collector, several jobs at a time."""

from __future__ import annotations

import math
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from stepwatch.agent.app import Agent, AgentOptions
from stepwatch.collector.runtime.service import Service
from stepwatch.collector.store import Store
from stepwatch.collector.web.api import make_api
from tests.agent.conftest import serving

from .made import answer_from
from .rows import WAITS_OF_LOOP, WORK_BEFORE_SECONDS, Answer, Kind, Row, Shape

WORLD, AT_ONCE = 3, 3
START_SECONDS, STALL_SECONDS, AFTER_SECONDS = 90.0, 150.0, 15.0
_CHUNK, _EVERY_SECONDS = bytes(1 << 15), 0.1
_NEVER = math.inf
CHOSEN = (
    Row(Kind.LEGAL, 10.0, Shape.NOTHING, marked=False, rank=2, in_loop=True),
    Row(Kind.LEGAL, 20.0, Shape.BYTES, marked=False, rank=0, in_loop=False),
    Row(Kind.LEGAL, 20.0, Shape.NOTHING, marked=False, rank=0, in_loop=False),
    Row(Kind.LEGAL, 40.0, Shape.CPU, marked=False, rank=2, in_loop=False),
    Row(Kind.LEGAL, 40.0, Shape.CHILDREN, marked=False, rank=0, in_loop=False),
    Row(Kind.LEGAL, 40.0, Shape.NOTHING, marked=True, rank=0, in_loop=False),
    Row(Kind.LEGAL, 120.0, Shape.BYTES, marked=False, rank=0, in_loop=False),
    Row(Kind.LEGAL, 120.0, Shape.CHILDREN, marked=False, rank=2, in_loop=False),
    Row(Kind.STALL, _NEVER, Shape.NOTHING, marked=False, rank=0, in_loop=False),
    Row(Kind.STALL, _NEVER, Shape.NOTHING, marked=True, rank=2, in_loop=False),
    Row(Kind.STALL, _NEVER, Shape.BYTES, marked=False, rank=2, in_loop=False),
    Row(Kind.STALL, _NEVER, Shape.CPU, marked=False, rank=0, in_loop=False),
    Row(Kind.STALL, _NEVER, Shape.CHILDREN, marked=False, rank=2, in_loop=False),
)
"""Both sides of every shape; waits without work stay below a minute."""


class Started(NamedTuple):
    """A job that plays a row: its launcher, its name, and the file with the times of its waits."""

    row: Row
    launcher: subprocess.Popen[bytes]
    job: str
    began: Path


def played(rows: Sequence[Row] = CHOSEN) -> Iterator[tuple[Row, Answer]]:
    """Play rows, `AT_ONCE` at a time."""
    for first in range(0, len(rows), AT_ONCE):
        with TemporaryDirectory() as folder:
            yield from _play(rows[first : first + AT_ONCE], Path(folder), first)


def _play(rows: Sequence[Row], folder: Path, number: int) -> list[tuple[Row, Answer]]:
    store = Store.sqlite(folder / "store.db")
    service = Service(store)
    with ExitStack() as stack:
        url = stack.enter_context(serving(make_api(service)))
        stack.enter_context(_agent(folder, url))
        jobs = [
            stack.enter_context(_started(row, folder, f"waits-{number}-{place}"))
            for place, row in enumerate(rows)
        ]
        end = time.monotonic() + START_SECONDS + max(map(_seconds, rows))
        while time.monotonic() < end and any(job.launcher.poll() is None for job in jobs):
            service.evaluate()
            time.sleep(1.0)
            if all(_is_over(job) for job in jobs):
                break
        return [(job.row, answer_from(store, job.job, _moments(job)[0])) for job in jobs]


@contextmanager
def _agent(folder: Path, url: str) -> Iterator[None]:
    agent = Agent(AgentOptions(folder / "rings", folder / "spool", url, "n1", port=None))
    thread = threading.Thread(target=agent.run)
    thread.start()
    try:
        yield
    finally:
        agent.stop()
        thread.join(120)


@contextmanager
def _started(row: Row, folder: Path, job: str) -> Iterator[Started]:
    began = folder / f"{job}.began"
    environ = {name: value for name, value in os.environ.items() if "STEPWATCH" not in name}
    environ |= {
        "PYTHONPATH": os.pathsep.join([str(Path.cwd()), *filter(None, sys.path)]),
        "STEPWATCH_RING_DIR": str(folder / "rings"),
        "OMP_NUM_THREADS": "1",
        "TABLE_JOB": job,
        "TABLE_BEGAN": str(began),
    }
    works = _works(row)
    with _sender(works, closes=row.kind is Kind.LEGAL) as port:
        words = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
        words += [f"--nproc-per-node={WORLD}", "-m", "tests.hangs.table.program", row.shape]
        words += [str(row.seconds), str(works), "marked" if row.marked else "not", str(row.rank)]
        words += [str(WAITS_OF_LOOP if row.in_loop else 1), str(port)]
        with open(folder / f"{job}.log", "wb") as log:
            launcher = subprocess.Popen(
                words, env=environ, stdout=log, stderr=log, start_new_session=True
            )
        try:
            yield Started(row, launcher, job, began)
        finally:
            _end(launcher)


def _end(launcher: subprocess.Popen[bytes]) -> None:
    """End the launcher and all its processes: its ranks have their own sessions."""
    listed = subprocess.run(["ps", "-eo", "pid=,ppid="], capture_output=True, text=True)
    parents = {int(pid): int(parent) for pid, parent in map(str.split, listed.stdout.splitlines())}
    ending = [launcher.pid]
    for pid in ending:  # the list grows meanwhile
        ending += [child for child, parent in parents.items() if parent == pid]
    for pid in ending:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    launcher.wait()


@contextmanager
def _sender(seconds: float, *, closes: bool) -> Iterator[int]:
    """Open a port that sends bytes to its client for some seconds, then closes or stays silent."""
    connections: list[socket.socket] = []

    def serve(server: socket.socket) -> None:
        while True:
            try:
                peer, _ = server.accept()
            except OSError:
                return
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                peer.sendall(_CHUNK)
                time.sleep(_EVERY_SECONDS)
            if closes:
                peer.close()
            connections.append(peer)

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=serve, args=(server,), daemon=True).start()
        try:
            yield server.getsockname()[1]
        finally:
            server.shutdown(socket.SHUT_RDWR)
            for peer in connections:
                peer.close()


def _works(row: Row) -> float:
    if row.shape is Shape.NOTHING:
        return 0.0
    return row.seconds if row.kind is Kind.LEGAL else WORK_BEFORE_SECONDS


def _seconds(row: Row) -> float:
    if row.kind is not Kind.LEGAL:
        return STALL_SECONDS
    return (WAITS_OF_LOOP if row.in_loop else 1) * (row.seconds + AFTER_SECONDS)


def _moments(started: Started) -> list[float]:
    """Return the wall times at which waits of a job began."""
    assert started.began.exists(), f"{started.job} did not come to its wait"
    return [float(line) for line in started.began.read_text().split()]


def _is_over(started: Started) -> bool:
    if started.launcher.poll() is not None:
        return True
    stalls = started.row.kind is not Kind.LEGAL and started.began.exists()
    return stalls and time.time() > _moments(started)[0] + STALL_SECONDS
