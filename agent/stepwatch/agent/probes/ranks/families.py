"""The processes that ranks started: loader workers, and what these started."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from stepwatch.agent.kernel_files import read_once

MAX_PROCESSES = 20_000
"""Processes of a node that are looked at; costs a file each."""


def families_of(pids: Iterable[int], proc: Path) -> dict[int, tuple[int, ...]]:
    """The descendants of each of `pids`, by one walk over the processes of the node.

    One that is a descendant of a rank and a rank itself belongs to itself alone.
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
    """Each process of the node, and its parent."""
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
