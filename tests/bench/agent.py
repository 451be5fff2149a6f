"""The agent of an eight-rank node: processor time, memory, a scrape, a backlog, a hung probe.

The ranks only write, and the hardware is scripted (`node_hardware`). Processor time includes the
agent's probe processes; the scripted driver itself takes about 0.1 us per call.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import httpx
from prometheus_client.parser import text_string_to_metric_families

from stepwatch.agent.app import Agent, AgentOptions
from stepwatch.agent.keys import AttemptKey, Tables
from stepwatch.agent.spool import Spool
from stepwatch.signals import names, wire
from stepwatch.signals.names import Metric
from stepwatch.signals.records import Kind
from tests.agent.probes.nvml.scripted import COMPILER
from tests.ports import free_port
from tests.services import ROOT
from tests.soak.processes import CLI, Collector, end, spawn

from . import node_hardware as hardware
from .result import Result, microseconds

RANKS, HERTZ = 8, 10.0
WARM_SECONDS, MEASURED_SECONDS = 15.0, 60.0
BACKLOG_SECONDS = 600
SCRAPES = 50
_TICKS = os.sysconf("SC_CLK_TCK")


def measure() -> Iterator[Result]:
    """Measure a node without devices, a full node, and an agent with a backlog."""
    load = f"{RANKS} ranks x {HERTZ:.0f} steps/s"
    with _node(full=False) as plain:
        share, megabytes = plain.measure()
        conditions = f"without hardware {share:.2%}"
        beside = f"without hardware {megabytes:.0f} MB"
    if COMPILER is None:
        conditions += "; no C compiler for the scripted driver"
        yield Result(f"agent, processor time, {load}", conditions, "1 % of a core", "")
        return
    with _node(full=True) as busy:
        addition = microseconds(_additions, 100_000, 9) * 1000
        share, megabytes = busy.measure()
        later = microseconds(_additions, 100_000, 9) * 1000
        setup = f"{load}, {hardware.DEVICES} devices with GPM, {busy.parts}"
        conditions += (
            f"; an addition in a loop took {addition:.0f} and {later:.0f} ns before and after"
        )
        conditions += f"; load {os.getloadavg()[0]:.0f} on {os.cpu_count()} cores"
        yield Result(f"agent, processor time, {setup}", f"{share:.2%}", "1 % of a core", conditions)
        yield Result("agent, memory with its probes (PSS)", f"{megabytes:.0f} MB", "80 MB", beside)
        seconds, kilobytes = busy.measure_scrape()
        comparison = (
            f"{kilobytes:.0f} kB; a file of that size served by http.server the same way takes "
        )
        comparison += f"{_file_cost(busy.folder, round(kilobytes * 1000)) * 1000:.1f} ms"
        yield Result("agent, one scrape (median)", f"{seconds * 1000:.1f} ms", "20 ms", comparison)
        yield busy.with_hung_driver()
        yield busy.catch_up()


def _additions(count: int) -> int:
    total = 0
    for number in range(count):
        total += number
    return total


class Node:
    """A collector, an agent as shipped, and a process that writes the rings."""

    def __init__(self, folder: Path, *, full: bool) -> None:
        self.folder = folder
        self.collector = Collector(folder, "collector", str(folder / "store.db"))
        self.metrics = f"http://127.0.0.1:{free_port()}"
        self.driver = hardware.devices(folder) if full else None
        words = [
            *CLI, "agent", "--collector", self.collector.url, "--ring-dir", str(folder / "rings"),
            "--spool", str(folder / "spool"), "--port", self.metrics.rsplit(":", 1)[1],
            "--node", "node-0", "--kernel-log", "/dev/null",
        ]  # fmt: skip
        self._words = hardware.wrap(folder, words) if full else words
        self.parts = f"{hardware.PORTS} ports, {hardware.DISKS} disks"
        if self._words == words:
            self.parts = "no ports and disks: that needs root and mkfs.ext4"
        self._ranks: subprocess.Popen[bytes] | None = None
        self._agent: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start all processes, and wait until records arrive."""
        self.collector.start()
        rings = str(self.folder / "rings")
        command = (sys.executable, "-m", "tests.bench.node_ranks", rings, str(RANKS), str(HERTZ))
        os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), *filter(None, sys.path)])
        self._ranks = spawn(self.folder / "ranks.log", *command)
        self._start_agent()
        while not self.value(names.AGENT_RECORDS) > 0:
            time.sleep(0.2)

    def _start_agent(self) -> None:
        self._agent = spawn(self.folder / "agent.log", *self._words)

    def measure(self) -> tuple[float, float]:
        """Return the share of a core that the agent and its probes use, and their memory in
        megabytes."""
        time.sleep(WARM_SECONDS)
        assert self._agent is not None
        used_before, began = _processor_seconds(self._agent.pid), time.monotonic()
        time.sleep(MEASURED_SECONDS)
        used = _processor_seconds(self._agent.pid) - used_before
        return used / (time.monotonic() - began), _memory(self._agent.pid) / 1e6

    def measure_scrape(self) -> tuple[float, float]:
        """Return the seconds of a scrape, and its size in kilobytes."""
        return _request_cost(f"{self.metrics}/metrics")

    def catch_up(self) -> Result:
        """Measure how many times faster than real time a backlog is sent, while the ranks continue
        to write."""
        assert self._agent is not None
        end(self._agent, signal.SIGTERM, 10.0)
        self._fill_spool()
        self._start_agent()
        backlog, began = float("nan"), time.monotonic()
        while not backlog >= BACKLOG_SECONDS / 2:
            began, backlog = time.monotonic(), self.value(names.AGENT_SPOOL_SEGMENTS)
        while self.value(names.AGENT_SPOOL_SEGMENTS) > 1:
            time.sleep(0.01)
        seconds = time.monotonic() - began
        return Result(
            "agent, catching up ten minutes", f"{backlog / seconds:.0f} x real time", "50 x",
            f"{backlog:.0f} segments in {seconds:.1f} s; live ones, which are sent in order, wait "
            "no longer",
        )  # fmt: skip

    def _fill_spool(self) -> None:
        """Fill the spool as ten minutes without a collector would, with records of this moment."""
        where = self.folder / "rings"
        with tempfile.TemporaryDirectory() as place:
            nobody = f"http://127.0.0.1:{free_port()}"
            agent = Agent(AgentOptions(where, Path(place), nobody, "node-0", None), probes=[])
            for _ in range(2):
                agent.poll()
                agent.flush()
                time.sleep(1.0)
            sample = wire.decode(agent.spool.oldest(2)[-1][1])
            agent.close()
        spool = Spool(self.folder / "spool", "node-0")
        tables: Tables = dict(sample.tables)
        del tables[Kind.CURSOR]
        for number in range(BACKLOG_SECONDS):
            tables[Kind.STEP]["step"] += round(HERTZ) if number else 0
            spool.put(AttemptKey("earlier", 0), sample.clock, tables)
        spool.close()

    def with_hung_driver(self) -> Result:
        """Measure the records read per second while driver calls hang."""
        usual = self._records_a_second()
        assert self.driver is not None
        self.driver.devices[0]["hang"] = 1
        self.driver.write()
        hung = self._records_a_second()
        return Result(
            "agent, records read while the driver hangs", f"{hung / usual:.2f} x",
            "1.00 x", f"{usual:.0f} records a second before, for 20 s each",
        )  # fmt: skip

    def value(self, metric: Metric) -> float:
        """Return the sum of an agent metric's series; NaN while the agent does not answer."""
        try:
            text = httpx.get(f"{self.metrics}/metrics", timeout=5.0).text
        except httpx.HTTPError:
            return float("nan")
        return sum(
            sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name == metric.name
        )

    def close(self) -> None:
        """End all processes."""
        for process in (self._agent, self._ranks):
            if process is not None:
                end(process, signal.SIGTERM, 10.0)
        self.collector.end()

    def _records_a_second(self) -> float:
        records_before, began = self.value(names.AGENT_RECORDS), time.monotonic()
        time.sleep(20.0)
        return (self.value(names.AGENT_RECORDS) - records_before) / (time.monotonic() - began)


@contextlib.contextmanager
def _node(*, full: bool) -> Iterator[Node]:
    environment: Mapping[str, str] = dict(os.environ)
    with tempfile.TemporaryDirectory() as place:
        node = Node(Path(place), full=full)
        try:
            node.start()
            yield node
        finally:
            node.close()
            os.environ.clear()
            os.environ |= environment


def _family(pid: int) -> list[int]:
    """Return a process and its descendants."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(descendant for child in children for descendant in _family(int(child)))]


def _processor_seconds(pid: int) -> float:
    """Return the processor seconds of a process and its descendants, reaped children included.

    Live processes count by the scheduler's nanoseconds: a tick is 1 % of a second.
    """
    seconds = 0.0
    for process in _family(pid):
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        seconds += sum(map(int, fields[13:15])) / _TICKS
        for task in Path(f"/proc/{process}/task").iterdir():
            seconds += int((task / "schedstat").read_text().split()[0]) / 1e9
    return seconds


def _memory(pid: int) -> float:
    """Return the bytes of a process and its descendants, with shared pages counted once (PSS)."""
    lines = (
        line
        for process in _family(pid)
        for line in Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
        if line.startswith("Pss:")
    )
    return sum(float(line.split()[1]) * 1024 for line in lines)


def _request_cost(url: str) -> tuple[float, float]:
    """Return the median seconds of a request, and the kilobytes of its answer."""
    seconds = []
    with httpx.Client() as client:
        for _ in range(SCRAPES):
            began = time.perf_counter()
            size = len(client.get(url).content)
            seconds.append(time.perf_counter() - began)
    return sorted(seconds)[SCRAPES // 2], size / 1000


def _file_cost(folder: Path, size: int) -> float:
    """Return the median seconds to fetch a file of `size` bytes from Python's plain server."""
    (folder / "plain").mkdir()
    (folder / "plain" / "metrics").write_bytes(b"x" * size)
    port = free_port()
    words = (sys.executable, "-m", "http.server", "--bind", "127.0.0.1", str(port))
    server = spawn(folder / "plain.log", *words, "--directory", str(folder / "plain"))
    try:
        while True:
            with contextlib.suppress(httpx.HTTPError):
                return _request_cost(f"http://127.0.0.1:{port}/metrics")[0]
            time.sleep(0.1)
    finally:
        end(server, signal.SIGKILL)
