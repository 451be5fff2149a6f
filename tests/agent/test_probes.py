"""Probes say what `/proc` says, and unknown where it says nothing that can be read."""

from __future__ import annotations

import math
import mmap
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from stepwatch.agent.app import Agent
from stepwatch.agent.probes.host import HostProbe, parse_pressure, parse_table
from stepwatch.agent.probes.ranks import process_facts
from stepwatch.signals import names
from stepwatch.signals.clock import SystemClock
from stepwatch.signals.records import ProcessState

from .conftest import Rank, round_of

FILES = {
    "stat": "cpu  {busy} 0 0 {idle} 0 0 0 {steal} 9 9\ncpu0 1 1 1 1\n",
    "meminfo": "MemTotal: 1000 kB\nMemAvailable:  250 kB\nHugePages_Total: 0\n",
    "vmstat": "pgfault 1\npgmajfault {faults}\n",
    "loadavg": "2.00 1.00 0.50 1/200 999\n",
    "pressure/cpu": "some avg10=12.50 avg60=1 avg300=1 total=5\nfull avg10=1\n",
    "pressure/memory": "some avg10=0.00 avg60=1 avg300=1 total=5\n",
    "pressure/io": "some avg10=100.00 avg60=1 avg300=1 total=5\n",
}


class TurnedClock(SystemClock):
    """A clock whose hands the test turns."""

    def __init__(self) -> None:
        self.seconds = 100

    def monotonic_ns(self) -> int:
        return self.seconds * 10**9


class Proc:
    """A `/proc` of files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "pressure").mkdir()
        self.set(busy=100, idle=900, steal=0, faults=10)

    def set(self, **values: int) -> None:
        for name, text in FILES.items():
            (self.folder / name).write_text(text.format(**values))


@pytest.fixture
def proc(tmp_path: Path) -> Proc:
    folder = tmp_path / "proc"
    folder.mkdir()
    return Proc(folder)


def test_ratios_are_those_of_the_time_between_two_reads(proc: Proc) -> None:
    clock = TurnedClock()
    probe = HostProbe(clock, proc.folder)
    first = probe.read()[0]
    assert math.isnan(first["cpu_busy_ratio"])
    assert math.isnan(first["major_faults_per_second"])
    proc.set(busy=150, idle=920, steal=30, faults=40)
    clock.seconds += 10
    row = probe.read()[0]
    assert row["cpu_busy_ratio"] == pytest.approx(0.8)
    assert row["cpu_steal_ratio"] == pytest.approx(0.3)
    assert row["major_faults_per_second"] == pytest.approx(3.0)
    assert row["cpu_pressure_ratio"] == pytest.approx(0.125)
    assert row["io_pressure_ratio"] == pytest.approx(1.0)
    assert row["memory_available_bytes"] == 250 * 1024
    assert row["load_per_cpu"] == pytest.approx(2.0 / (os.cpu_count() or 1))


def test_counters_that_go_back_are_unknown(proc: Proc) -> None:
    probe = HostProbe(SystemClock(), proc.folder)
    probe.read()
    proc.set(busy=1, idle=1, steal=0, faults=10)
    assert math.isnan(probe.read()[0]["cpu_busy_ratio"])


def test_a_kernel_without_pressure_says_unknown_not_zero(proc: Proc) -> None:
    for name in ("cpu", "memory", "io"):
        (proc.folder / "pressure" / name).unlink()
    (proc.folder / "meminfo").write_text("MemFree: 7 kB\n")
    row = HostProbe(SystemClock(), proc.folder).read()[0]
    assert math.isnan(row["cpu_pressure_ratio"])
    assert row["memory_total_bytes"] == 0
    assert math.isnan(parse_pressure("")) and math.isnan(parse_pressure("some total=5"))
    assert parse_table("a: b\n\nx\nMemTotal: -5 kB") == {}


@pytest.mark.parametrize(
    "content", ["", "\n", "garbage", "cpu", "cpu x y z w", "cpu 1 2", "\0" * 99]
)
@pytest.mark.parametrize("name", ["stat", "loadavg", "meminfo", "vmstat", "pressure/cpu"])
def test_garbage_in_proc_is_never_more_than_an_unreadable_probe(
    proc: Proc, make_agent: Callable[..., Agent], name: str, content: str
) -> None:
    agent = make_agent()
    agent.host = HostProbe(agent.clock, proc.folder)
    round_of(agent)
    (proc.folder / name).write_text(content)
    round_of(agent)
    if name == "stat":
        assert agent.readings.up["host"] is False
        assert b"stepwatch_node_cpu_busy_ratio{" not in generate_latest(agent.registry)
    proc.set(busy=150, idle=920, steal=30, faults=40)
    round_of(agent)
    assert agent.readings.up["host"] is True


def test_every_probe_is_closed_with_the_agent(proc: Proc, make_agent: Callable[..., Agent]) -> None:
    class Closing(HostProbe):
        closed = 0

        def close(self) -> None:
            self.closed += 1

    agent = make_agent()
    agent.host, agent.nic = probes = (
        Closing(agent.clock, proc.folder),
        Closing(agent.clock, proc.folder),
    )
    round_of(agent)
    agent.close()
    assert [probe.closed for probe in probes] == [1, 1]


def test_a_source_that_disappears_leaves_no_reading_behind(
    proc: Proc, make_agent: Callable[..., Agent], caplog: pytest.LogCaptureFixture
) -> None:
    agent = make_agent()
    agent.host = HostProbe(agent.clock, proc.folder)
    round_of(agent)
    assert names.NODE_MEMORY_AVAILABLE.name + "{" in generate_latest(agent.registry).decode()
    (proc.folder / "stat").unlink()
    for _ in range(3):
        round_of(agent)
    text = generate_latest(agent.registry).decode()
    assert names.NODE_MEMORY_AVAILABLE.name + "{" not in text, "an old reading is not a fresh one"
    assert 'stepwatch_agent_probe_up{node="n1",probe="host"} 0.0' in text
    unknown = 'stepwatch_agent_probe_unknown{node="n1",probe="host",reason="no-source"} 1.0'
    assert unknown in text and caplog.text.count("probe host is unknown") == 1
    proc.set(busy=150, idle=920, steal=30, faults=40)
    round_of(agent)
    text = generate_latest(agent.registry).decode()
    assert 'stepwatch_agent_probe_up{node="n1",probe="host"} 1.0' in text
    assert unknown not in text


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    """A process that sleeps."""
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    yield process
    process.kill()
    process.wait(10)


def start_ticks(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])


def state_becomes(pid: int, ticks: int, wanted: ProcessState) -> bool:
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        if process_facts(pid, ticks).state is wanted:
            return True
        time.sleep(0.01)
    return False


def test_states_of_a_real_process(child: subprocess.Popen[bytes]) -> None:
    ticks = start_ticks(child.pid)
    assert state_becomes(child.pid, ticks, ProcessState.SLEEPING)
    assert process_facts(child.pid, ticks).resident_bytes > 1 << 20
    child.send_signal(signal.SIGSTOP)
    assert state_becomes(child.pid, ticks, ProcessState.STOPPED)
    child.send_signal(signal.SIGCONT)
    assert state_becomes(child.pid, ticks, ProcessState.SLEEPING)
    assert process_facts(child.pid, ticks + 1).state is ProcessState.GONE
    assert process_facts(child.pid, 0).state is ProcessState.SLEEPING
    child.kill()
    assert state_becomes(child.pid, ticks, ProcessState.ZOMBIE)
    child.wait(10)
    assert process_facts(child.pid, ticks).state is ProcessState.GONE


@pytest.mark.parametrize("stat", ["", "1 (x) ", "1 (a b) c) R 1 2", "garbage"])
def test_a_process_that_cannot_be_read_is_unknown_not_gone(tmp_path: Path, stat: str) -> None:
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "stat").write_text(stat)
    assert process_facts(1, 5, tmp_path).state is ProcessState.UNKNOWN
    assert process_facts(2, 5, tmp_path).state is ProcessState.GONE


def test_a_hostile_process_name_hides_nothing(tmp_path: Path) -> None:
    (tmp_path / "1").mkdir()
    fields = " ".join(str(number) for number in range(4, 53))
    (tmp_path / "1" / "stat").write_text(f"1 (x) S 1 (y)) D {fields}")
    facts = process_facts(1, 22, tmp_path)
    assert facts.state is ProcessState.UNINTERRUPTIBLE
    assert math.isnan(facts.run_queue_seconds)


def test_metrics_are_the_declared_ones_and_never_nan(
    tmp_path: Path, make_agent: Callable[..., Agent], proc: Proc
) -> None:
    ranks = [Rank(tmp_path / "rings", rank, job=job) for job in ("a", "b") for rank in range(2)]
    agent = make_agent()
    agent.host = HostProbe(agent.clock, proc.folder)
    text_before = generate_latest(agent.registry).decode()
    for rank in ranks:
        rank.steps(3)
    for _ in range(2):
        proc.set(busy=200, idle=1000, steal=0, faults=10)
        round_of(agent)
    text = generate_latest(agent.registry).decode()
    for page in (text_before, text):
        assert "nan" not in page.lower()
        declared = {metric.name: metric for metric in names.METRICS}
        for family in text_string_to_metric_families(page):
            for sample in family.samples:
                assert set(sample.labels) == set(declared[sample.name].labels)
                assert family.documentation == declared[sample.name].help
    values = {
        (sample.name, sample.labels.get("job_name")): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    assert values[names.AGENT_RECORDS.name, None] == 12
    assert values[names.NODE_RANKS.name, "a"] == values[names.NODE_RANKS.name, "b"] == 2
    assert values[names.NODE_MEMORY_AVAILABLE.name, None] == 250 * 1024
    (proc.folder / "meminfo").write_text("")
    round_of(agent)
    assert names.NODE_MEMORY_AVAILABLE.name + "{" not in generate_latest(agent.registry).decode()
    for rank in ranks:
        rank.ring.close()


def test_pages_of_mapped_files_are_not_counted_as_memory(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens.bin"
    tokens.write_bytes(bytes(32 << 20))
    before = process_facts(os.getpid(), 0).resident_bytes
    with tokens.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as mapped:
        assert sum(mapped[at] for at in range(0, len(mapped), 4096)) == 0
        read = process_facts(os.getpid(), 0).resident_bytes
    held = b"x" * (32 << 20)
    own = process_facts(os.getpid(), 0).resident_bytes
    assert read - before < 8 << 20 < own - read <= len(held) + (8 << 20)


def test_all_resident_memory_counts_where_the_kernel_tells_no_parts(tmp_path: Path) -> None:
    folder = tmp_path / "7"
    folder.mkdir()
    (folder / "stat").write_text("7 (python) S " + " ".join(["3"] * 40))
    assert process_facts(7, 0, tmp_path).resident_bytes == 3 * os.sysconf("SC_PAGE_SIZE")
    (folder / "status").write_text(
        "VmRSS:\t99 kB\nRssAnon:\t5 kB\nRssFile:\t9 kB\nRssShmem:\t2 kB\n"
    )
    assert process_facts(7, 0, tmp_path).resident_bytes == 7 * 1024
