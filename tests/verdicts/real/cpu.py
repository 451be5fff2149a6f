"""Ways to take processor time from a rank: a control group's limit, and other processes."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.verdicts.real.environ import BUSY_SHARE, ENV_BUSY
from tests.verdicts.scenario.plan import Fault

ROOT = Path("/sys/fs/cgroup")
PERIOD_MICROSECONDS = 100_000
_LEAST_MICROSECONDS = 1_000
_BUSY = 0.5
"""Share of its time in which a rank computes while other processes take its processor."""
_MOST_BURNERS = 6


def quota_of(effect: float) -> float:
    """Return the processor share with which a rank takes `effect` times as long.

    It computes for `BUSY_SHARE` of its time and waits for the rest.

    Worked example: at a share of 0.15, a doubled step is 0.85 of waiting and 1.15 for 0.15 of
    computing: 0.13 of a processor.
    """
    return BUSY_SHARE / (effect - (1.0 - BUSY_SHARE))


class Quota:
    """A control group of version 1 or 2 for one job; the kernel limits its processes.

    Raises:
        OSError: there is no such control group, or this process may not make one.
    """

    def __init__(self, job: str, root: Path = ROOT) -> None:
        self.environ: dict[str, str] = {}
        old = root / "cpu"
        self.folder = (old if old.is_dir() else root) / f"stepwatch-{job}"
        self.folder.mkdir()
        self._limit = self.folder / ("cpu.cfs_quota_us" if old.is_dir() else "cpu.max")

    def begin(self, fault: Fault, pids: Sequence[int]) -> None:
        """Limit the processes of the fault."""
        quota = max(_LEAST_MICROSECONDS, round(quota_of(fault.effect) * PERIOD_MICROSECONDS))
        text = f"{quota}" if self._limit.name.endswith("us") else f"{quota} {PERIOD_MICROSECONDS}"
        self._limit.write_text(text)
        for rank in fault.ranks:
            (self.folder / "cgroup.procs").write_text(f"{pids[rank]}")

    def close(self) -> None:
        """Remove the group; its processes have ended before."""
        self.folder.rmdir()


class Burners:
    """Processes that compute on the one processor that a rank may use."""

    def __init__(self, pin: Callable[[int, set[int]], None] = os.sched_setaffinity) -> None:
        self.environ = {ENV_BUSY: f"{_BUSY}"}
        self._pin = pin
        self._burning: list[subprocess.Popen[bytes]] = []

    def begin(self, fault: Fault, pids: Sequence[int]) -> None:
        """Start as many processes as the fault's effect needs, on the rank's processor."""
        processor = max(os.sched_getaffinity(0))
        for rank in fault.ranks:
            self._pin(pids[rank], {processor})
        for _ in range(burners_of(fault.effect)):
            self._burning.append(subprocess.Popen([sys.executable, "-c", "while True: pass"]))
            self._pin(self._burning[-1].pid, {processor})

    def close(self) -> None:
        """End the processes."""
        for process in self._burning:
            process.kill()
        for process in self._burning:
            process.wait()


def burners_of(effect: float) -> int:
    """Return how many processes make a rank take about `effect` times as long.

    Each process takes as much processor time as the rank gets.

    Worked example: a rank computes for half of its time. One process doubles that half, which makes
    1.5 times in all; two processes make 2 times.
    """
    return min(_MOST_BURNERS, max(1, math.ceil((effect - 1.0) / _BUSY)))
