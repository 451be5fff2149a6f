"""The `ranks` probe: each rank's live line, and its process and children from outside."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Self

import numpy as np

from stepwatch.agent.kernel_files import KernelFiles
from stepwatch.agent.probes.probe import Gauge, Probe, ProbeContext
from stepwatch.agent.rings.process_exits import UNKNOWN_EXIT, ProcessExit
from stepwatch.agent.rings.processes import state_of
from stepwatch.agent.rings.tail import WatchedRank
from stepwatch.signals import names
from stepwatch.signals.clock import NANOSECONDS, Clock
from stepwatch.signals.records import DTYPES, Kind, Values, pack, unknown_values
from stepwatch.signals.wire import Rows

from .memory import FamilyMemory, FamilyMemoryReader
from .work import STILL_SECONDS, Signs, WorkReader

_MOST = 0xFFFFFFFF
"""Maximum value for a row's counter."""

_LOST = (
    ("overruns", names.NODE_RANK_OVERRUNS),
    ("torn", names.NODE_RANK_TORN),
    ("hook_errors", names.NODE_HOOK_ERRORS),
)
"""Loss counts per rank, each with the metric for its sum."""


class RanksProbe(Probe):
    """Read the live line in every ring that `ranks` returns."""

    name = "ranks"
    kind = Kind.RANK_STATE
    isolated = False  # it reads rings by `pread` and `/proc/PID/stat`; no device blocks these

    def __init__(
        self,
        clock: Clock,
        ranks: Callable[[], Sequence[WatchedRank]],
        proc: Path = Path("/proc"),
        root: Path = Path("/sys/fs/cgroup"),
    ) -> None:
        self._clock = clock
        self._ranks = ranks
        self._proc = proc
        self._read: list[WatchedRank] = []
        self._files = KernelFiles()
        self._work = WorkReader(proc, self._files)
        self._memory = FamilyMemoryReader(proc, root, self._files)

    @classmethod
    def build(cls, context: ProbeContext) -> Self:
        """Build this node's probe."""
        root = context.sys / "fs" / "cgroup"
        return cls(context.clock, context.ranks, context.proc, root)

    def supported(self) -> bool:
        """Return whether this node has a `/proc`."""
        return self._proc.is_dir()

    def read(self) -> Rows:
        """Return one row per rank."""
        self._read = list(self._ranks())
        readings = [self._values(watched) for watched in self._read]
        self._files.close_unread()
        data = bytearray(pack(Kind.RANK_STATE, readings))  # numpy would fill field by field
        rows = np.frombuffer(data, dtype=DTYPES[Kind.RANK_STATE])
        self._add_work(rows)
        self._add_memory(rows)
        return rows

    def _add_work(self, rows: Rows) -> None:
        """Add signs of work to the rows for live ranks without progress."""
        moved = np.maximum(rows["since_ns"], rows["collective_since_ns"]).astype(np.int64)
        still = rows["time_ns"].astype(np.int64) - moved >= STILL_SECONDS * NANOSECONDS
        still &= (moved > 0) & (rows["gone_ns"] == 0)
        still &= ~np.isnan(rows["cpu_seconds"])  # else another local process may have its number
        pids = [watched.reader.identity.pid for watched in self._read]
        read = frozenset(pid for pid, is_still in zip(pids, still, strict=True) if is_still)
        signs = self._work.read(read, self._clock.monotonic_ns())
        values = [signs.get(pid, Signs()) for pid in pids]
        for place, name in enumerate(Signs._fields):
            rows[name] = [sign[place] for sign in values]

    def _add_memory(self, rows: Rows) -> None:
        """Add children's memory and control group room to rows with a local process."""
        is_local = ~np.isnan(rows["cpu_seconds"])
        pids = [watched.reader.identity.pid for watched in self._read]
        local_pids = [pid for pid, is_own in zip(pids, is_local.tolist(), strict=True) if is_own]
        memory = self._memory.read(local_pids, self._clock.monotonic_ns())
        values = [memory.get(pid, FamilyMemory()) for pid in pids]
        for place, name in enumerate(FamilyMemory._fields):
            rows[name] = [usage[place] for usage in values]

    def rows_of(self, rows: Rows, ranks: Sequence[WatchedRank]) -> Rows:
        """Return these ranks' rows: other attempts have other segments."""
        wanted = {watched.reader.path for watched in ranks}
        mask = [watched.reader.path in wanted for watched in self._read]
        return rows[np.array(mask, dtype=np.bool_)]

    def gauges(self, rows: Rows) -> Iterator[Gauge]:
        """Yield each job's local ranks, their lowest step, and lost telemetry."""
        of_job: dict[str, list[np.void]] = {}
        for watched, row in zip(self._read, rows, strict=True):
            of_job.setdefault(watched.reader.identity.job, []).append(row)
        for job, job_rows in of_job.items():
            yield Gauge(names.NODE_RANKS, (job,), len(job_rows))
            yield Gauge(names.NODE_RANK_STEP_MIN, (job,), min(int(row["step"]) for row in job_rows))
            for field, metric in _LOST:
                yield Gauge(metric, (job,), sum(int(row[field]) for row in job_rows))

    def _values(self, watched: WatchedRank) -> Values:
        reader = watched.reader
        identity, lines = reader.identity, reader.lines()
        live, collective, device = lines.live, lines.collective, lines.device
        now = self._clock.monotonic_ns()
        state, facts = state_of(reader, now, watched.exited, self._proc, self._files)
        exited = watched.exited or ProcessExit(0, UNKNOWN_EXIT)
        return unknown_values(Kind.RANK_STATE) | {
            "rank": identity.rank,
            "seq": lines.head,
            "time_ns": now,
            "step": live.step,
            "phase": live.phase,
            "waiting": live.waiting,
            "microbatch": live.microbatch,
            "since_ns": live.since_ns,
            "heartbeat_ns": lines.heartbeat_ns,
            "collectives_entered": collective.entered,
            "collective_since_ns": collective.since_ns,
            "collective_group": collective.group,
            "collective_op": collective.op,
            "in_collective": collective.inside,
            "collective_bytes": collective.nbytes,
            "device_state": device.state,
            "device_since_ns": device.since_ns,
            "device_step": device.step,
            "device_phase": device.phase,
            "device_group": device.group,
            "device_op": device.op,
            "process_state": state,
            "cpu_seconds": facts.cpu_seconds,
            "run_queue_seconds": facts.run_queue_seconds,
            "resident_bytes": facts.resident_bytes,
            "major_faults": facts.major_faults,
            "overruns": min(watched.overruns, _MOST),
            "torn": min(watched.torn, _MOST),
            "hook_errors": min(lines.hook_errors, _MOST),
            "stage": identity.stage,
            "world": identity.world,
            "gone_ns": exited.at_ns,
            "exit_code": exited.exit_code,
            "job_class": identity.job_class.encode(),
        }
