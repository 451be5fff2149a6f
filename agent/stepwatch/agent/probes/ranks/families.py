"""The ranks' child processes: loader workers and their descendants."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from stepwatch.agent.kernel_files import read_once

MAX_PROCESSES = 20_000
"""Maximum number of processes on a node; each costs a file read."""


def families_of(pids: Iterable[int], proc: Path) -> dict[int, tuple[int, ...]]:
    """Return each process's descendants, with one walk over the node's processes.

    A rank that descends from another rank belongs only to itself.
    """
    ranks = frozenset(pids)
    if not ranks:
        return {}
    children: dict[int, list[int]] = {}
    for pid, parent in _parents(proc):
        if pid not in ranks:
            children.setdefault(parent, []).append(pid)
    return {pid: tuple(_descendants(pid, children)) for pid in ranks}


def _parents(proc: Path) -> Iterator[tuple[int, int]]:
    """Yield each process on the node with its parent."""
    names = (entry.name for entry in os.scandir(proc) if entry.name.isdigit())
    for _, name in zip(range(MAX_PROCESSES), names, strict=False):
        try:
            yield int(name), int(read_once(f"{proc}/{name}/stat").rpartition(")")[2].split()[1])
        except (OSError, ValueError, IndexError):  # ended meanwhile
            continue


def _descendants(pid: int, children: Mapping[int, list[int]]) -> list[int]:
    descendants = dict.fromkeys(children.get(pid, ()))
    waiting = [*descendants]
    while waiting:
        for child in children.get(waiting.pop(), ()):
            if child not in descendants and child != pid:
                descendants[child] = None
                waiting.append(child)
    return [*descendants]
