"""Memory of a rank's children, and what its control group has left."""

from __future__ import annotations

import multiprocessing
import os
from multiprocessing.connection import Connection
from pathlib import Path

from stepwatch.agent.kernel_files import KernelFiles
from stepwatch.agent.probes.ranks.families import families_of
from stepwatch.agent.probes.ranks.memory import EVERY_SECONDS, FamilyMemory, FamilyMemoryReader
from stepwatch.signals.clock import NANOSECONDS

MIB = 1 << 20
LATER_NS = round((EVERY_SECONDS + 1) * NANOSECONDS)
PROC, NO_GROUPS = Path("/proc"), Path("/nowhere")


def worker(pipe: Connection) -> None:
    """Holds what it is asked to, as a loader that keeps its data does."""
    blocks = []
    pipe.send(os.getpid())
    while size := pipe.recv():
        blocks.append(b"x" * size)
        pipe.send(len(blocks))


def test_what_a_worker_grows_by_counts_with_its_rank_and_what_it_began_with_does_not() -> None:
    parent_end, child_end = multiprocessing.Pipe()
    context = multiprocessing.get_context("spawn")
    child = context.Process(target=worker, args=(child_end,))
    child.start()
    pid, rank = parent_end.recv(), os.getpid()
    reader = FamilyMemoryReader(PROC, NO_GROUPS, KernelFiles())
    try:
        assert pid in families_of([rank], PROC)[rank]
        assert reader.read([rank], 1)[rank].children_bytes == 0
        parent_end.send(64 * MIB)
        assert parent_end.recv() == 1
        grown_bytes = reader.read([rank], LATER_NS)[rank].children_bytes
        assert 64 * MIB <= grown_bytes < 96 * MIB
    finally:
        parent_end.send(0)
        child.join()
    assert reader.read([rank], 3 * LATER_NS)[rank].children_bytes < MIB


def test_a_rank_that_another_one_started_is_no_child_of_it() -> None:
    parent_end, child_end = multiprocessing.Pipe()
    child = multiprocessing.get_context("spawn").Process(target=worker, args=(child_end,))
    child.start()
    pid, rank = parent_end.recv(), os.getpid()
    try:
        assert pid not in families_of([rank, pid], PROC)[rank]
    finally:
        parent_end.send(0)
        child.join()


def test_the_group_with_the_least_room_counts(tmp_path: Path) -> None:
    root, proc = tmp_path / "cgroup", tmp_path / "proc"
    pod, app = root / "pods" / "one", root / "pods" / "one" / "app"
    app.mkdir(parents=True)
    (proc / "7").mkdir(parents=True)
    (proc / "7" / "cgroup").write_text("0::/pods/one/app\n")
    (app / "memory.max").write_text("max\n")
    (pod / "memory.max").write_text(f"{1000 * MIB}\n")
    # Files that the kernel can drop are no reason to run out.
    (pod / "memory.stat").write_text(f"anon {600 * MIB}\nfile {390 * MIB}\nshmem {100 * MIB}\n")
    family_memory = FamilyMemoryReader(proc, root, KernelFiles()).read([7], 1)[7]
    assert family_memory.group_room_bytes == 300 * MIB and family_memory.memory_group > 0
    (pod / "memory.max").write_text("max\n")
    assert FamilyMemoryReader(proc, root, KernelFiles()).read([7], 1)[7] == FamilyMemory()
