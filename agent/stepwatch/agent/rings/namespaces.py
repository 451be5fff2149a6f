"""Ranks in other pid namespaces: finds the visible process that wrote a ring.

A rank in a container writes its pid in its own namespace. An agent in the host's namespace sees
another pid for it: `NSpid` in proc(5) has both.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from stepwatch.signals.blackbox import Identity
from stepwatch.signals.processes import pid_namespace, start_ticks

MAX_PROCESSES = 100_000
MAX_RANKS = 4096
"""Maximum number of remembered ranks; beyond it all are searched again."""
_Named = tuple[int, int, int]


class LocalProcesses:
    """Find the processes for ring identities.

    `proc` is the `/proc` path, `namespace` this process's namespace number. Each process is
    searched once: a search reads one file per process.
    """

    def __init__(self, proc: Path = Path("/proc"), namespace: int | None = None) -> None:
        self._proc = proc
        self._namespace = pid_namespace() if namespace is None else namespace
        self._local_pids: dict[_Named, int | None] = {}

    def localise(self, identity: Identity) -> Identity:
        """Return `identity` with the process's pid in this namespace.

        It is unchanged if that pid is unknown: an agent in a container sees no outside process.
        """
        if identity.pid_namespace in (0, self._namespace):
            return identity
        local = self._local(_named(identity))
        if local is None:
            return identity
        launcher = (identity.launcher, identity.pid_namespace, identity.launcher_start)
        return identity._replace(
            pid=local,
            pid_namespace=self._namespace,
            launcher=(self._local(launcher) if identity.launcher else None) or 0,
        )

    def _local(self, named: _Named) -> int | None:
        if len(self._local_pids) >= MAX_RANKS:
            self._local_pids.clear()
        if named not in self._local_pids:
            self._local_pids[named] = next(self._search(named), None)
        return self._local_pids[named]

    def _search(self, named: _Named) -> Iterator[int]:
        pid, namespace, start = named
        for _, name in zip(range(MAX_PROCESSES), os.listdir(self._proc), strict=False):
            if not name.isdecimal():
                continue
            if start_ticks(int(name), self._proc) != start:
                continue
            candidate = (_innermost(self._proc / name), _namespace_of(self._proc / name))
            if candidate == (pid, namespace):
                yield int(name)


def _named(identity: Identity) -> _Named:
    return identity.pid, identity.pid_namespace, identity.process_start


def _namespace_of(process: Path) -> int:
    """Return a process's pid namespace number; 0 if this user may not read it."""
    try:
        return os.stat(process / "ns/pid").st_ino
    except OSError:
        return 0


def _innermost(process: Path) -> int:
    """Return a process's pid in its own namespace: the last number in `NSpid: 4242 17 1`."""
    try:
        lines = (process / "status").read_text(errors="replace").splitlines()
        numbers = next(line.split()[1:] for line in lines if line.startswith("NSpid:"))
        return int(numbers[-1])
    except (OSError, ValueError, StopIteration, IndexError):
        return 0
