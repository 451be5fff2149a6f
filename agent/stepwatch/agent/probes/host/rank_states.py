"""Ranks that are blocked in the kernel or are zombies, and for how long."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Set
from pathlib import Path
from typing import NamedTuple

from stepwatch.agent.facts.sighting import Sighting
from stepwatch.signals.clock import NANOSECONDS
from stepwatch.signals.records import NodeFact

from .limits import LIMITS

MAX_PROCESSES = 4096
_BLOCKED, _ZOMBIE = "D", "Z"


class _State(NamedTuple):
    """A process's state since `since_ns`; a new start time or switch count is a new state."""

    letter: str
    started: int
    switches: int
    since_ns: int


class RankStates:
    """Follow the main thread of each rank's process; `ranks` returns their ids.

    An ended process is followed until it is gone, even if the caller forgets it.
    """

    def __init__(self, ranks: Callable[[], Set[int]], proc: Path) -> None:
        self._ranks = ranks
        self._proc = proc
        self._states: dict[int, _State] = {}

    def find(self, now_ns: int) -> Iterator[Sighting]:
        """Yield processes that have been blocked or zombies for too long."""
        ended = {pid for pid, state in self._states.items() if state.letter == _ZOMBIE}
        self._states = {
            pid: state
            for pid in sorted(self._ranks() | ended)[:MAX_PROCESSES]
            if (state := self._state(pid, now_ns)) is not None
        }
        for pid, state in self._states.items():
            seconds = (now_ns - state.since_ns) / NANOSECONDS
            if state.letter == _BLOCKED and seconds >= LIMITS.blocked_seconds:
                text = f"blocked for {seconds:.0f} s{self._where(pid)}"
                yield Sighting(NodeFact.RANK_BLOCKED, f"process {pid}", text, pid=pid)
            elif state.letter == _ZOMBIE and seconds >= LIMITS.zombie_seconds:
                text = f"ended {seconds:.0f} s ago or more; {self._why(pid)}"
                yield Sighting(NodeFact.RANK_ZOMBIE, f"process {pid}", text, pid=pid)

    def _state(self, pid: int, now_ns: int) -> _State | None:
        """Return a process's state and the time it was first seen; None if the process is gone."""
        folder = self._proc / str(pid)
        try:
            fields = (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()
            letter, started = fields[0], int(fields[19])
            blocked = letter == _BLOCKED
            switches = _switches((folder / "status").read_text(errors="replace")) if blocked else 0
        except (OSError, ValueError, IndexError):
            return None
        now = _State(letter, started, switches, now_ns)
        previous = self._states.get(pid)
        if previous is not None and previous[:3] == now[:3]:
            return previous
        return now

    def _where(self, pid: int) -> str:
        """Return the kernel function that it waits in, if this user may read it."""
        try:
            name = (self._proc / str(pid) / "wchan").read_text(errors="replace").strip()
        except OSError:
            return ""
        return f" in {name[:64]}" if name not in ("", "0") else ""

    def _why(self, pid: int) -> str:
        try:
            threads = sum(1 for _ in (self._proc / str(pid) / "task").iterdir())
        except OSError:
            threads = 0
        if threads > 1:
            return f"{threads - 1} of its threads have not"
        return "its parent does not wait for it"


def _switches(status: str) -> int:
    """Count context switches; a process that is truly blocked has no new ones."""
    counts = (line.split()[1] for line in status.splitlines() if "ctxt_switches:" in line)
    return sum(map(int, counts))
