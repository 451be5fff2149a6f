"""One stream into stepwatch's collector, VictoriaMetrics and Prometheus.

A simulated fleet is generated once. The collector receives its segments; the others receive the
same steps by remote write, 13 samples per rank and step, in requests of the same nodes. The
collector also receives three collectives per step, rank states, hosts and interfaces, and evaluates
the job each second; the others have no rules. Each is a process of its own: sending is not in its
processor time.
"""

from __future__ import annotations

import shutil
import signal
import sqlite3
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import httpx
import numpy as np

from stepwatch.cli.simulate.faults import SlowCompute
from stepwatch.cli.simulate.fleet import Fleet
from stepwatch.cli.simulate.plan import Plan
from stepwatch.signals import wire
from stepwatch.signals.arrays import Rows
from stepwatch.signals.errors import StepwatchError
from stepwatch.signals.records import Kind
from tests.ports import free_port
from tests.soak.processes import CLI, end, last_line, processor_seconds, spawn

from . import remote_write
from .result import Result

JOB = "peers"
PHASES = ("data", "forward", "backward", "optimizer", "other")
SECONDS = ("duration", *PHASES, "checkpoint", "eval", "collective", "pipeline_wait")
VALUES = ("tokens", "loss", "grad_norm")
SAMPLES = len(SECONDS) + len(VALUES)
RANKS, STEPS = 1024, 60
SLOW = 10
_SETTLE_SECONDS, _ANSWER_SECONDS, _QUERIES = 6.0, 60.0, 5
_FLUSH_SECONDS = 10.0
"""VictoriaMetrics 1.79 keeps acknowledged samples in memory for seconds: a kill -9 six seconds
after the last request lost all of them, one after sixteen seconds none.
"""
_PARTS = "|".join(PHASES)
_PROMQL = f'topk({SLOW}, sum by (rank) (avg_over_time(step_seconds{{part=~"{_PARTS}"}}[1h])))'


class Stream(NamedTuple):
    """The same steps twice: bodies of segments and of remote write; and the slowest ranks."""

    segments: list[bytes]
    writes: list[bytes]
    rank_steps: int
    slowest: set[int]


class Server(NamedTuple):
    """How to run a server in a folder and on a port, and which requests it takes."""

    name: str
    words: Callable[[Path, int], list[str]]
    store: str
    write: str
    headers: dict[str, str]
    slowest: Callable[[httpx.Client], set[int]]
    remote: bool
    flush_seconds: float = 0.0
    """Further wait after it has settled and before it is killed, so that nothing is lost."""


class Measurement(NamedTuple):
    """One server's figures."""

    cpu_seconds: float
    wall_seconds: float
    restart_seconds: float
    query_seconds: float
    correct: bool
    nbytes: int
    nbytes_before: int
    """Size before compaction; the same for servers that compact on their own."""


def measure(ranks: int = RANKS, steps: int = STEPS) -> Iterator[Result]:
    """Measure the installed servers one after another."""
    stream = make_stream(ranks, steps)
    installed = [server for server in SERVERS if _is_here(server)]
    measurements = {server.name: _measure(server, stream) for server in installed}
    yield from _rows(measurements, stream, ranks, steps)


def make_stream(ranks: int, steps: int) -> Stream:
    """Return one-second steps that end now; the ten slowest ranks take 1.2 to 1.65 times as
    long."""
    chosen = [ranks * (2 * index + 1) // (2 * SLOW) for index in range(SLOW)]
    faults = tuple(
        SlowCompute(rank=rank, step=0, factor=1.2 + 0.05 * index)
        for index, rank in enumerate(chosen)
    )
    plan = Plan(ranks=ranks, nodes=ranks // 8, steps=steps, speed=0, job=JOB, faults=faults)
    epoch_ns = time.time_ns() - round(1.1 * plan.expected_seconds * 1e9)
    segments, writes, heads = [], [], _heads(ranks)
    for flush in Fleet(plan, epoch_ns, spool=1).flushes():
        segments.append(b"".join(flush.segments))
        writes.append(_write_request([*map(wire.decode, flush.segments)], heads))
    return Stream(segments, [body for body in writes if body], ranks * steps, set(chosen))


def _heads(ranks: int) -> list[list[bytes]]:
    """Return the labels of each rank's series, in the order of `SECONDS` and `VALUES`."""
    heads = []
    for rank in range(ranks):
        about = {"job": JOB, "rank": str(rank), "node": f"sim-{rank // 8:05d}"}
        parts = [{"__name__": "step_seconds", "part": name, **about} for name in SECONDS]
        parts += [{"__name__": f"step_{name}", **about} for name in VALUES]
        heads.append([remote_write.labels(labels) for labels in parts])
    return heads


def _write_request(segments: list[wire.Segment], heads: list[list[bytes]]) -> bytes:
    """Return the STEP rows of some segments as one request; empty without any."""
    series = []
    for segment in segments:
        rows = segment.tables.get(Kind.STEP)
        if rows is None:
            continue
        offset = segment.clock.wall_ns - segment.clock.monotonic_ns
        for rank in np.unique(rows["rank"]).tolist():
            series += _series(rows[rows["rank"] == rank], offset, heads[rank])
    return remote_write.frame(b"".join(series)) if series else b""


def _series(rows: Rows, offset: int, heads: list[bytes]) -> list[bytes]:
    times = ((rows["time_ns"].astype(np.int64) + offset) // 1_000_000).tolist()
    columns = [(rows[f"{name}_ns"] / 1e9).tolist() for name in SECONDS]
    columns += [rows[name].astype(np.float64).tolist() for name in VALUES]
    return [
        remote_write.timeseries(head, zip(values, times, strict=True))
        for head, values in zip(heads, columns, strict=True)
    ]


def _measure(server: Server, stream: Stream) -> Measurement:
    folder = Path(tempfile.mkdtemp(prefix="stepwatch-peers-"))
    process: subprocess.Popen[bytes] | None = None
    port = free_port()
    words = server.words(folder, port)
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60.0) as client:
            process = _start(words, folder, client)
            cpu, wall = _feed(server, stream, client, process)
            query, correct = _query(server, stream, client)
            time.sleep(server.flush_seconds)
            end(process, signal.SIGKILL)
            began = time.monotonic()
            process = spawn(folder / "log", *words)
            _wait_until(lambda: server.slowest(client) == stream.slowest, process, folder)
            restart = time.monotonic() - began
            time.sleep(_SETTLE_SECONDS)  # a collector saves the state of jobs that it evaluates
            end(process, signal.SIGTERM)
        raw_bytes = _bytes(folder / server.store)
        if not server.remote:
            _put_together(folder)
        return Measurement(
            cpu, wall, restart, query, correct, _bytes(folder / server.store), raw_bytes
        )
    finally:
        if process is not None:
            end(process, signal.SIGKILL)
        shutil.rmtree(folder)


def _start(words: list[str], folder: Path, client: httpx.Client) -> subprocess.Popen[bytes]:
    process = spawn(folder / "log", *words)
    _wait_until(lambda: client.get("/metrics").status_code == 200, process, folder)
    return process


def _feed(
    server: Server, stream: Stream, client: httpx.Client, process: subprocess.Popen[bytes]
) -> tuple[float, float]:
    """Return processor and wall seconds from the first request until the server has settled."""
    used_before, began = processor_seconds(process.pid), time.monotonic()
    for body in stream.writes if server.remote else stream.segments:
        _send(server, body, client)
    wall = time.monotonic() - began
    time.sleep(_SETTLE_SECONDS)
    return processor_seconds(process.pid) - used_before, wall


def _send(server: Server, body: bytes, client: httpx.Client) -> None:
    """Send until the server accepts: Prometheus answers 503 until it is ready."""
    deadline = time.monotonic() + _ANSWER_SECONDS
    while True:
        answer = client.post(server.write, content=body, headers=server.headers)
        if answer.status_code != 503 or time.monotonic() > deadline:
            answer.raise_for_status()
            return
        time.sleep(0.05)


def _query(server: Server, stream: Stream, client: httpx.Client) -> tuple[float, bool]:
    """Return the seconds of the query, and whether it named the slow ranks."""
    times, correct = [], True
    for _ in range(_QUERIES):
        began = time.monotonic()
        correct &= server.slowest(client) == stream.slowest
        times.append(time.monotonic() - began)
    return statistics.median(times), correct


def _wait_until(holds: Callable[[], bool], process: subprocess.Popen[bytes], folder: Path) -> None:
    deadline = time.monotonic() + _ANSWER_SECONDS
    while not _holds(holds):
        if process.poll() is not None or time.monotonic() > deadline:
            raise StepwatchError(f"it does not answer: {last_line(folder / 'log')}")
        time.sleep(0.02)


def _holds(holds: Callable[[], bool]) -> bool:
    try:
        return holds()
    except (httpx.HTTPError, KeyError, ValueError):
        return False


def _bytes(place: Path) -> int:
    return sum(file.stat().st_size for file in _files(place))


def _put_together(folder: Path) -> None:
    """Compact as a collector does ten minutes later, and free unused pages."""
    place = str(folder / "store.db")
    process = spawn(folder / "log", *CLI, "store", "compact", "--store", place)
    process.wait(_ANSWER_SECONDS)
    with closing(sqlite3.connect(place)) as connection:
        connection.execute("VACUUM")


def _files(place: Path) -> Iterator[Path]:
    if place.is_dir():
        yield from (file for file in place.rglob("*") if file.is_file())
    else:
        yield from place.parent.glob(f"{place.name}*")


def _query_promql(client: httpx.Client) -> set[int]:
    answer = client.get("/api/v1/query", params={"query": _PROMQL})
    return {int(series["metric"]["rank"]) for series in answer.json()["data"]["result"]}


def _query_shares(client: httpx.Client) -> set[int]:
    """Return the slowest ranks by the phase shares in the job's document, all steps so far."""
    ranks = client.get(f"/v1/jobs/{JOB}").json()["ranks"]
    by_share = sorted(ranks, key=lambda rank: sum(rank["phase_share"][name] for name in PHASES))
    return {rank["rank"] for rank in by_share[-SLOW:]}


def _collector(folder: Path, port: int) -> list[str]:
    return [*CLI, "collector", "--store", str(folder / "store.db"), "--port", str(port)]


def _victoria_metrics(folder: Path, port: int) -> list[str]:
    return [
        "victoria-metrics",
        f"-httpListenAddr=127.0.0.1:{port}",
        f"-storageDataPath={folder / 'data'}",
        "-search.latencyOffset=0s",
    ]


def _prometheus(folder: Path, port: int) -> list[str]:
    (folder / "empty.yml").write_text("")
    return [
        "prometheus",
        f"--web.listen-address=127.0.0.1:{port}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--config.file={folder / 'empty.yml'}",
        "--web.enable-remote-write-receiver",
    ]


SERVERS = (
    Server("stepwatch", _collector, "store.db", "/v1/segments", {}, _query_shares, remote=False),
    Server(
        "VictoriaMetrics", _victoria_metrics, "data", "/api/v1/write",
        remote_write.HEADERS, _query_promql, remote=True, flush_seconds=_FLUSH_SECONDS,
    ),
    Server(
        "Prometheus", _prometheus, "data", "/api/v1/write",
        remote_write.HEADERS, _query_promql, remote=True,
    ),
)  # fmt: skip


def _is_here(server: Server) -> bool:
    return shutil.which(server.words(Path(tempfile.gettempdir()), 0)[0]) is not None


def _rows(
    measurements: dict[str, Measurement], stream: Stream, ranks: int, steps: int
) -> Iterator[Result]:
    size = f"{ranks:,} ranks x {steps} steps"

    def row(title: str, shown: Callable[[Measurement], str], more: str = "") -> Result:
        measured = shown(measurements["stepwatch"])
        peers = [
            f"{name} {shown(measurements[name])}" for name in measurements if name != "stepwatch"
        ]
        missing = [server.name for server in SERVERS if server.name not in measurements]
        peers += [f"{name} is not installed" for name in missing]
        return Result(f"{title}, {size}", measured, "beside peers", "; ".join(peers) + more)

    count = stream.rank_steps
    workload = f"; each was given {SAMPLES} samples a rank-step, ours also collectives and states"
    yield row(
        "rank-steps per CPU-second, settled",
        lambda peer: f"{count / peer.cpu_seconds:,.0f}", workload + ", evaluated each second",
    )  # fmt: skip
    raw_bytes = measurements["stepwatch"].nbytes_before / count
    yield row(
        "bytes at rest per rank-step", lambda peer: f"{peer.nbytes / count:.0f} B",
        f"; ours {raw_bytes:.0f} B until segments are put together",
    )  # fmt: skip
    younger = f"; VictoriaMetrics was killed {_SETTLE_SECONDS + _FLUSH_SECONDS:.0f} s after the "
    younger += "last write: at 6 s it loses what it acknowledged"
    yield row("kill -9 to the right answer", lambda peer: f"{peer.restart_seconds:.1f} s", younger)
    yield row(
        "ten slowest ranks of the last hour",
        lambda peer: f"{peer.query_seconds * 1e3:.0f} ms{'' if peer.correct else ', WRONG ranks'}",
        "; the same ranks" if all(peer.correct for peer in measurements.values()) else "",
    )
