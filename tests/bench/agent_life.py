"""An agent over a year of jobs: its memory and descriptors after 100, 1,000 ... 10,000 ended jobs.

Real agent, real processes: a job is one process that writes the rings of eight ranks for two
seconds, in full size. The collector stores nothing, so that only the agent is measured.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from stepwatch.signals import wire
from stepwatch.signals.blackbox import Identity, RingWriter
from stepwatch.signals.processes import pid_namespace, start_ticks
from stepwatch.signals.records import Kind, LifecycleEvent, Phase
from tests.ports import free_port
from tests.services import ROOT
from tests.soak.processes import CLI, end, spawn

from .result import Result

RANKS, STEPS = 8, 4
LIVES_SECONDS = 2.0
JOBS_A_SECOND = 12.0
"""Starts; a busy node of a cluster starts about ten jobs an hour."""
MARKS = (100, 1_000, 4_000, 7_000, 10_000)
"""At 4,000 jobs all bounded memory of ended jobs (names, ring positions, copies) is full."""
MOST_SECONDS = 1_800.0
SETTLE_SECONDS = 10.0
_TICKS = os.sysconf("SC_CLK_TCK")


class _Takes(BaseHTTPRequestHandler):
    """A collector that accepts every segment."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        """Accept all segments."""
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        count = sum(1 for _ in wire.split(body)) if body else 0
        verdicts = ",".join(['{"verdict":"accepted","reason":""}'] * count)
        self._say(f'{{"verdicts":[{verdicts}],"formats":[2,3],"nodes":true}}')

    def do_GET(self) -> None:
        """No job has an incident."""
        self._say('{"incidents":[]}')

    def _say(self, text: str) -> None:
        self.send_response(200)
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_: object) -> None:
        """Log nothing."""


def measure() -> Iterator[Result]:
    """Start jobs until 10,000 have run or half an hour is over."""
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), *filter(None, sys.path)])
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Takes)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    place = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with tempfile.TemporaryDirectory(dir=place) as rings, tempfile.TemporaryDirectory() as folder:
        words = [
            *CLI, "agent", "--collector", f"http://127.0.0.1:{server.server_port}",
            "--ring-dir", rings, "--spool", f"{folder}/spool", "--port", str(free_port()),
            "--node", "node-0", "--kernel-log", "/dev/null",
        ]  # fmt: skip
        agent = spawn(Path(folder) / "agent.log", *words)
        try:
            yield from _lives(agent, Path(rings), Path(folder))
        finally:
            end(agent, signal.SIGTERM, 10.0)
            server.shutdown()


def _lives(agent: subprocess.Popen[bytes], rings: Path, folder: Path) -> Iterator[Result]:
    time.sleep(SETTLE_SECONDS)
    jobs_before, used = 0, _processor_seconds(agent.pid)
    yield Result("agent-life, no job yet", _footprint(agent.pid, rings, folder), "", "")
    began = time.monotonic()
    for mark in MARKS:
        jobs = _jobs(rings, jobs_before, mark, began + MOST_SECONDS)
        time.sleep(SETTLE_SECONDS)
        now = _processor_seconds(agent.pid)
        cost_ms = (now - used) / max(1, jobs - jobs_before) * 1000
        title = f"agent-life, {jobs} jobs of {RANKS} ranks"
        yield Result(
            title, _footprint(agent.pid, rings, folder), "flat", f"{cost_ms:.1f} ms of CPU a job"
        )
        jobs_before, used = jobs, now
        if jobs < mark:
            return


def _jobs(rings: Path, first: int, last: int, deadline: float) -> int:
    """Start jobs `first` to `last` at an even pace and wait for their ends; return how many."""
    living: deque[tuple[float, int]] = deque()
    begun, number = time.monotonic(), first
    while number < last and time.monotonic() < deadline:
        now = time.monotonic()
        if now - begun >= (number - first) / JOBS_A_SECOND:
            living.append((now + LIVES_SECONDS, _job(rings, number)))
            number += 1
        else:
            time.sleep(0.005)
        while living and living[0][0] < now:
            os.waitpid(living.popleft()[1], 0)
    for _, pid in living:
        os.waitpid(pid, 0)
    return number


def _job(rings: Path, number: int) -> int:
    """Fork one job and return its process. Every second job is killed, the others end."""
    pid = os.fork()
    if pid:
        return pid
    try:
        rings_of_job = [_rank(rings, f"job-{number}", rank) for rank in range(RANKS)]
        time.sleep(LIVES_SECONDS)
        if number % 2:
            for ring in rings_of_job:
                ring.close()
    finally:
        os._exit(0)


def _rank(rings: Path, job: str, rank: int) -> RingWriter:
    pid, drawn = os.getpid(), int.from_bytes(os.urandom(7), "little")
    identity = Identity(
        job, 0, rank, RANKS, "node-0", pid, drawn,
        process_start=start_ticks(pid), pid_namespace=pid_namespace(),
    )  # fmt: skip
    ring = RingWriter(rings / job / "0" / str(rank), identity, time.monotonic_ns())
    ring.write(Kind.LIFECYCLE, 0, time.monotonic_ns(), LifecycleEvent.START, RANKS, b"node-0")
    for step in range(1, STEPS + 1):
        phases = [1_000_000] * (len(Phase) + 2)
        body = (sum(phases), *phases, 64, 4, 0, 1.0 / step, 0.5)
        ring.write(Kind.STEP, step, time.monotonic_ns(), *body)
    return ring


def _footprint(pid: int, rings: Path, folder: Path) -> str:
    descriptors = len(os.listdir(f"/proc/{pid}/fd"))
    family = [pid, *_descendants(pid)]
    resident = _memory([pid], "Rss:"), _memory(family, "Pss:")
    shared, spooled = _disk_bytes(rings), _disk_bytes(folder / "spool")
    megabytes = [nbytes / 1e6 for nbytes in resident]
    return (
        f"{descriptors} descriptors, {megabytes[0]:.1f} MB RSS ({megabytes[1]:.1f} MB PSS "
        f"with its {len(family) - 1} probe processes), {shared / 1e6:.1f} MB of rings, "
        f"{spooled / 1e6:.1f} MB in the spool"
    )


def _disk_bytes(folder: Path) -> int:
    """Return the bytes of the files below a folder, some of which may vanish meanwhile."""
    nbytes = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                nbytes += os.lstat(os.path.join(place, name)).st_blocks * 512
    return nbytes


def _descendants(pid: int) -> list[int]:
    children = map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
    return [descendant for child in children for descendant in (child, *_descendants(child))]


def _memory(pids: list[int], field: str) -> float:
    return sum(
        float(line.split()[1]) * 1024
        for pid in pids
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        if line.startswith(field)
    )


def _processor_seconds(pid: int) -> float:
    """Return the processor seconds of the agent alone: the cost of probes does not depend on
    jobs."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:13])) / _TICKS
