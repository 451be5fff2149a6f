"""The process behind a ring, as `/proc` shows it."""

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
    """What `/proc/<pid>` reports; seconds are cumulated since the process began.

    `resident_bytes` is anonymous and shared memory (RssAnon + RssShmem of proc(5)): pages of mapped
    files, which the kernel can drop, are not the process's own. Where the kernel does not
    report them apart it is all resident memory.
    """

    state: ProcessState
    cpu_seconds: float = UNKNOWN_FLOAT
    run_queue_seconds: float = UNKNOWN_FLOAT
    resident_bytes: int = 0
    major_faults: float = UNKNOWN_FLOAT


def process_facts(
    pid: int, start_ticks: int, proc: Path = Path("/proc"), files: KernelFiles | None = None
) -> ProcessFacts:
    """Read one process; a pid that another process took over counts as gone.

    `files` keeps the files of processes open that are read again.
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
    """State of the process behind a ring at monotonic `now_ns`, and what `/proc` reports of it.

    A process that is not to be seen while its heart beats lives in another pid namespace: its state
    is unknown, not gone. One that ended with all of its threads is gone, even if its parent never
    waits for it: nothing follows, and a later run may take its place.
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
    """Whether `pid` is the process that a ring of user `owner` names, and no other that has its id.

    A ring may name any process: one that ended, one of another pid namespace, one of another user.
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
    """Anonymous and shared memory in bytes of the process with this folder; `resident` where the
    kernel does not report them."""
    sizes_kib = _OWN.findall(files.word_or(f"{folder}/status"))
    # A kernel before 4.5 has none of the two, a zombie neither.
    return sum(map(int, sizes_kib)) * 1024 if len(sizes_kib) == 2 else resident


def _run_queue_seconds(files: KernelFiles, folder: str) -> float:
    try:
        return int(files.word(f"{folder}/schedstat").split()[1]) / NANOSECONDS
    except (OSError, ValueError, IndexError):  # kernel without scheduler statistics
        return float("nan")
