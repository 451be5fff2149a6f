"""The process behind a ring: its state, its memory, and unknown where `/proc` cannot be read."""

from __future__ import annotations

import math
import mmap
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from stepwatch.agent.rings.processes import process_facts
from stepwatch.signals.records import ProcessState
from tests.waiting import until


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
    return until(
        f"the state {wanted.name}",
        lambda: process_facts(pid, ticks).state is wanted,
        every=0.01,
    )


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


def test_pages_of_mapped_files_are_not_counted_as_memory(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens.bin"
    tokens.write_bytes(bytes(32 << 20))
    bytes_before = process_facts(os.getpid(), 0).resident_bytes
    with tokens.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as mapped:
        assert sum(mapped[offset] for offset in range(0, len(mapped), 4096)) == 0
        read = process_facts(os.getpid(), 0).resident_bytes
    block = b"x" * (32 << 20)
    bytes_with_block = process_facts(os.getpid(), 0).resident_bytes
    assert read - bytes_before < 8 << 20 < bytes_with_block - read <= len(block) + (8 << 20)


def test_all_resident_memory_counts_where_the_kernel_tells_no_parts(tmp_path: Path) -> None:
    folder = tmp_path / "7"
    folder.mkdir()
    (folder / "stat").write_text("7 (python) S " + " ".join(["3"] * 40))
    assert process_facts(7, 0, tmp_path).resident_bytes == 3 * os.sysconf("SC_PAGE_SIZE")
    (folder / "status").write_text(
        "VmRSS:\t99 kB\nRssAnon:\t5 kB\nRssFile:\t9 kB\nRssShmem:\t2 kB\n"
    )
    assert process_facts(7, 0, tmp_path).resident_bytes == 7 * 1024
