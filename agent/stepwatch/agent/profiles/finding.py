"""Finds the ranks of a job that run on this node."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from stepwatch.agent.rings.namespaces import LocalProcesses
from stepwatch.agent.rings.processes import is_process_of
from stepwatch.signals.blackbox import RingReader, find_rings, user_directories
from stepwatch.signals.errors import RingError

from .asking import RankServer


def find_ranks(job: str, root: Path) -> list[RankServer]:
    """Return the servers of a job's running ranks below the ring directory, by rank."""
    processes, readers = LocalProcesses(), list[RingReader]()
    for folder in user_directories(root):
        if not (folder / job).is_dir():
            continue
        for path in find_rings(folder / job):
            try:
                readers.append(RingReader(path))
            except RingError:
                continue  # `stepwatch blackbox` shows it
    try:
        for reader in readers:
            reader.identity = processes.localise(reader.identity)
        return running_ranks(readers)
    finally:
        for reader in readers:
            reader.close()


def running_ranks(readers: Iterable[RingReader]) -> list[RankServer]:
    """Return the servers of the ranks whose processes run, by rank."""
    ranks = []
    for reader in readers:
        identity = reader.identity
        if reader.closed or not is_process_of(reader.owner, identity.pid, identity.process_start):
            continue
        # The name alone: the agent may see the directory under another path.
        name = Path(identity.worker_socket).name or f"{identity.rank}.sock"
        place = reader.path.with_name(name)
        ranks.append(RankServer(identity, reader.owner, place, reader.live().step))
    return sorted(ranks, key=lambda rank: rank.identity.rank)
