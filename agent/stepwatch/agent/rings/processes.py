"""A ring's process in `/proc`."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import NamedTuple

from stepwatch.agent.kernel_files import KernelFiles
from stepwatch.signals.blackbox import RingReader
from stepwatch.signals.clock import NANOSECONDS
from stepwatch.signals.processes import FRESH_HEARTBEAT_SECONDS
from stepwatch.signals.records import UNKNOWN_FLOAT, ProcessState

from .process_exits import ProcessExit

_STATES = {
    "R": ProcessState.RUNNING,
    "S": ProcessState.SLEEPING,
    "I": ProcessState.SLEEPING,
    "D": ProcessState.UNINTERRUPTIBLE,
    "T": ProcessState.STOPPED,
    "t": ProcessState.STOPPED,
    "Z": ProcessState.ZOMBIE,
    "X": ProcessState.GONE,
}
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


class ProcessFacts(NamedTuple):
    """Values from `/proc/<pid>`; seconds are cumulative since the process began.

    `resident_bytes` is anonymous and shared memory (RssAnon + RssShmem in proc(5)). Mapped file
    pages are excluded, because the kernel can drop them. A kernel without separate values reports
    all resident memory.
    """

    state: ProcessState
    cpu_seconds: float = UNKNOWN_FLOAT
    run_queue_seconds: float = UNKNOWN_FLOAT
    resident_bytes: int = 0
    major_faults: float = UNKNOWN_FLOAT


def process_facts(
    pid: int, start_ticks: int, proc: Path = Path("/proc"), files: KernelFiles | None = None
) -> ProcessFacts:
    """Read one process; a pid that was reused by another process counts as gone.

    `files` keeps the read files open for later reads.
    """
    read = KernelFiles() if files is None else files
    folder = f"{proc}/{pid}"
    try:
        fields = read.word(f"{folder}/stat").rpartition(")")[2].split()
        if start_ticks and int(fields[19]) != start_ticks:
            return ProcessFacts(ProcessState.GONE)
        return ProcessFacts(
            _STATES.get(fields[0], ProcessState.UNKNOWN),
            (int(fields[11]) + int(fields[12])) / _TICKS,
            _run_queue_seconds(read, folder),
            own_bytes(read, folder, int(fields[21]) * _PAGE),
            float(fields[9]),
        )
    except (FileNotFoundError, ProcessLookupError):
        return ProcessFacts(ProcessState.GONE)
    except (OSError, ValueError, IndexError):
        return ProcessFacts(ProcessState.UNKNOWN)


def state_of(
    reader: RingReader,
    now_ns: int,
    exited: ProcessExit | None = None,
    proc: Path = Path("/proc"),
    files: KernelFiles | None = None,
) -> tuple[ProcessState, ProcessFacts]:
    """Return the process state for a ring at monotonic `now_ns`, and the `/proc` values.

    An invisible process with a fresh heartbeat is in another pid namespace: its state is unknown,
    not gone. A process whose threads all ended is gone, even if its parent never reaps it: no
    record follows, and a later run may take its place.
    """
    identity = reader.identity
    facts = process_facts(identity.pid, identity.process_start, proc, files)
    if facts.state is ProcessState.ZOMBIE and exited is not None:
        return ProcessState.GONE, facts
    hidden = facts.state is ProcessState.GONE and exited is None and _beats(reader, now_ns)
    return ProcessState.UNKNOWN if hidden else facts.state, facts


def _beats(reader: RingReader, now_ns: int) -> bool:
    return now_ns - reader.heartbeat_ns < FRESH_HEARTBEAT_SECONDS * NANOSECONDS


def is_process_of(owner: int, pid: int, start_ticks: int, proc: Path = Path("/proc")) -> bool:
    """Return whether `pid` is the process that the ring of user `owner` names.

    A ring may name any process: an ended one, another namespace's or another user's.
    """
    try:
        lines = (proc / str(pid) / "status").read_text(errors="replace").splitlines()
        users = next(line.split()[1:3] for line in lines if line.startswith("Uid:"))
    except (OSError, StopIteration):
        return False
    lives = process_facts(pid, start_ticks, proc).state is not ProcessState.GONE
    return lives and set(users) == {str(owner)}


_OWN = re.compile(r"^Rss(?:Anon|Shmem):\s+(\d{1,15}) kB$", re.MULTILINE)


def own_bytes(files: KernelFiles, folder: str, resident: int = 0) -> int:
    """Return anonymous plus shared bytes for a process folder, else `resident`."""
    sizes_kib = _OWN.findall(files.word_or(f"{folder}/status"))
    # Missing in kernels before 4.5 and in zombies.
    return sum(map(int, sizes_kib)) * 1024 if len(sizes_kib) == 2 else resident


def _run_queue_seconds(files: KernelFiles, folder: str) -> float:
    try:
        return int(files.word(f"{folder}/schedstat").split()[1]) / NANOSECONDS
    except (OSError, ValueError, IndexError):  # kernel without scheduler statistics
        return float("nan")
