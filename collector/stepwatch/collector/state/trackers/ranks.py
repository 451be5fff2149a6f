"""The agents' newest report on each rank in one attempt: its lines, its process, its node."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import repeat
from typing import NamedTuple

import numpy as np

from stepwatch.collector.state.folding.rows import chosen, put
from stepwatch.collector.state.folding.turns import newest_of_each, turns
from stepwatch.collector.state.readings import Subjects
from stepwatch.collector.state.tracker import (
    MAX_NODES,
    Batches,
    JoinedTracker,
    TrackedAttempt,
)
from stepwatch.collector.state.trackers.nodes.agents import UNKNOWN_NODE
from stepwatch.collector.state.trackers.rank_work import WorkWindows
from stepwatch.signals.arrays import Integers, Mask, Rows, Vector
from stepwatch.signals.clock import NANOSECONDS
from stepwatch.signals.places import is_name
from stepwatch.signals.records import DTYPES, Kind, Phase, ProcessState

_TRAINS = (Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER)
PAUSES = (Phase.EVAL, Phase.CHECKPOINT)
"""Phases that trainers mark and that may rightly take long."""
_DEAD = (ProcessState.GONE, ProcessState.ZOMBIE, ProcessState.STOPPED)
"""States in which a process neither evaluates nor saves."""
USAGE_READINGS = 8
"""Readings per rank; agents take one a second."""


class RankView(NamedTuple):
    """A rank's newest state, its node, and the collector's monotonic receive time."""

    node: str
    received_monotonic_s: float
    row: np.void


class Usage(NamedTuple):
    """One reading: a rank's cumulative CPU and run-queue seconds, at a monotonic moment in ns."""

    time_ns: float
    cpu_seconds: float
    run_queue_seconds: float


class UsageReadings:
    """Each rank's newest `USAGE_READINGS`."""

    def __init__(self) -> None:
        self._count = np.zeros(0, dtype=np.int64)
        """Number of readings so far (world,); their slots are modulo `USAGE_READINGS`."""
        self._values = np.zeros((0, USAGE_READINGS, len(Usage._fields)))

    def resize(self, world: int) -> None:
        """Make room for `world` ranks; existing values stay."""
        more = world - len(self._count)
        self._count = np.append(self._count, np.zeros(more, dtype=np.int64))
        self._values = np.concatenate([self._values, np.zeros((more, *self._values.shape[1:]))])

    def add(self, rows: Rows) -> None:
        """Add the readings in RANK_STATE rows, in order."""
        newest, skipped = newest_of_each(rows["rank"], USAGE_READINGS)
        self._count[: len(skipped)] += skipped
        rows = chosen(rows, newest)
        values = np.stack([rows[name].astype(np.float64) for name in Usage._fields], axis=1)
        for turn in turns(rows["rank"]):
            ranks = rows["rank"][turn]
            self._values[ranks, self._count[ranks] % USAGE_READINGS] = values[turn]
            self._count[ranks] += 1

    def growth(self) -> tuple[Vector, Vector, Vector]:
        """Return nanoseconds, CPU and run-queue seconds between each rank's first and last reading.

        Arrays (world,), NaN with fewer than two readings.
        """
        ranks = np.arange(len(self._count))
        last = self._values[ranks, (self._count - 1) % USAGE_READINGS]
        oldest = np.maximum(self._count - USAGE_READINGS, 0) % USAGE_READINGS
        with np.errstate(invalid="ignore", over="ignore"):  # an agent may send any value
            grown = last - self._values[ranks, oldest]
        grown[self._count < 2] = np.nan
        return grown[:, 0], grown[:, 1], grown[:, 2]


class RankViews(Mapping[int, RankView]):
    """Newest state of each rank that reported, in rank order.

    A view is created on access: for 131,072 ranks, creating all takes a second.
    """

    def __init__(self, ranks: Ranks) -> None:
        self._ranks = ranks
        self._names = [*ranks.nodes]

    def __getitem__(self, rank: int) -> RankView:
        if rank not in self:
            raise KeyError(rank)
        place = int(self._ranks.node_at[rank])
        node = self._names[place] if place >= 0 else UNKNOWN_NODE
        received = float(self._ranks.received_monotonic_s[rank])
        return RankView(node, received, self._ranks.rows[rank].copy())

    def __contains__(self, rank: object) -> bool:
        received = self._ranks.received_monotonic_s
        return isinstance(rank, int) and 0 <= rank < len(received) and not np.isnan(received[rank])

    def __iter__(self) -> Iterator[int]:
        return iter(np.flatnonzero(self._ranks.reported).tolist())

    def __len__(self) -> int:
        return int(self._ranks.reported.sum())


class Ranks(JoinedTracker):
    """Newest RANK_STATE row per rank.

    `gone` holds ranks whose process vanished, `nodes` numbers the reporting nodes. Arrays (world,):
    `rows`, zeros without a report; `received_monotonic_s`, NaN without one; `node_at`, the node
    number, -1 without one; `stage`, -1 while unknown. `paused_ns` (`PAUSES`, world) is the last
    reading in each phase, monotonic on the rank's node, 0 before.
    """

    kinds = frozenset({Kind.RANK_STATE})
    order = 0

    def __init__(self) -> None:
        self.usage = UsageReadings()
        self.work = WorkWindows()
        self.gone: set[int] = set()
        self.nodes = Subjects(MAX_NODES)
        self.rows: Rows = np.zeros(0, dtype=DTYPES[Kind.RANK_STATE])
        self.received_monotonic_s: Vector = np.zeros(0)
        self.node_at = np.zeros(0, dtype=np.int64)
        self.stage = np.zeros(0, dtype=np.int16)
        self.paused_ns = np.zeros((len(PAUSES), 0), dtype=np.int64)

    def fold(self, batches: Batches, attempt: TrackedAttempt) -> None:
        """Fold in RANK_STATE rows, which also carry the attempt's job class."""
        rows, origin = batches.rows(Kind.RANK_STATE), batches.table(Kind.RANK_STATE).origin
        if rows is None:
            return
        attempt.job_class = _class_of(rows[-1])
        in_world = (rows["rank"] >= 0) & (rows["rank"] < len(self.rows))
        attempt.refused_records += len(rows) - int(in_world.sum())
        if in_world.any():
            self._add(chosen(rows, in_world), origin[in_world], batches)

    def resize(self, world: int) -> None:
        """Make room for `world` ranks; existing values stay."""
        more = world - len(self.rows)
        self.usage.resize(world)
        self.work.resize(world)
        self.rows = np.concatenate([self.rows, np.zeros(more, dtype=self.rows.dtype)])
        self.received_monotonic_s = np.append(self.received_monotonic_s, np.full(more, np.nan))
        self.node_at = np.append(self.node_at, np.full(more, -1))
        self.stage = np.append(self.stage, np.full(more, -1, dtype=np.int16))
        fresh = np.zeros((len(PAUSES), more), dtype=np.int64)
        self.paused_ns = np.concatenate([self.paused_ns, fresh], axis=1)

    @property
    def views(self) -> RankViews:
        """Newest state of each rank that reported."""
        return RankViews(self)

    @property
    def reported(self) -> Mask:
        """Which ranks reported (world,)."""
        return ~np.isnan(self.received_monotonic_s)

    @property
    def node_of(self) -> dict[int, str]:
        """Node name of each rank that reported."""
        names = [*self.nodes, UNKNOWN_NODE]
        ranks = np.flatnonzero(self.reported)
        places = self.node_at[ranks].tolist()
        return dict(zip(ranks.tolist(), map(names.__getitem__, places), strict=True))

    def received_by_node(self, without: Sequence[int]) -> dict[str, float]:
        """Return each node's newest report, on the collector's monotonic clock.

        Ranks in `without` do not count; nodes with no other rank are left out.
        """
        counted = self.reported
        left_out = np.array(without, dtype=np.int64)
        counted[left_out[(left_out >= 0) & (left_out < len(counted))]] = False
        newest = np.full(len(self.nodes) + 1, -np.inf)
        np.maximum.at(newest, self.node_at[counted], self.received_monotonic_s[counted])
        names = [*self.nodes, UNKNOWN_NODE]  # -1, which has no number, is the last one
        return {
            names[number]: float(newest[number])
            for number in np.flatnonzero(newest > -np.inf).tolist()
        }

    def wall_ns(self, moments: Integers, offsets: Mapping[str, int]) -> Integers:
        """Convert each rank's moment (world,) on its node's clock to Unix nanoseconds.

        `offsets` are the nodes' clock offsets; 0 if there is no moment.
        """
        if not moments.any():  # nearly always, of evaluations and saves
            return np.zeros(len(moments), dtype=np.int64)
        of_nodes = map(offsets.get, self.nodes, repeat(0))
        to_wall = np.array([*of_nodes, 0], dtype=np.int64)[self.node_at]
        is_known = (moments > 0) & (to_wall != 0)
        return np.where(is_known, moments.astype(np.int64) + to_wall, 0)

    def paused_s(self, offsets: Mapping[str, int]) -> tuple[float, ...]:
        """Return when a rank was last seen in each of `PAUSES`, Unix seconds; 0 if never.

        `offsets` are the nodes' clock offsets.
        """
        newest = (self.wall_ns(moments, offsets).max(initial=0) for moments in self.paused_ns)
        return tuple(float(moment) / NANOSECONDS for moment in newest)

    def _add(self, rows: Rows, origin: Integers, batches: Batches) -> None:
        """Add rows for existing ranks, each from the batch at `origin`; the last one wins."""
        self.usage.add(rows)
        self.work.add(rows)
        rank = rows["rank"]
        put(self.rows, rank, rows)
        self.stage[rank] = rows["stage"]
        self.received_monotonic_s[rank] = batches.received_monotonic_s[origin]
        self.node_at[rank] = batches.numbered(self.nodes, origin)
        self._note_pauses(rows)
        vanished = self.rows["process_state"][rank] == ProcessState.GONE
        if self.gone:
            self.gone.difference_update(rank[~vanished].tolist())
        self.gone.update(rank[vanished].tolist())

    def _note_pauses(self, rows: Rows) -> None:
        for place, phase in enumerate(PAUSES):
            in_phase = rows["phase"] == phase
            if in_phase.any():  # rarely
                paused = np.flatnonzero(in_phase & ~np.isin(rows["process_state"], _DEAD))
                moments = rows["time_ns"][paused].astype(np.int64)
                np.maximum.at(self.paused_ns[place], rows["rank"][paused], moments)

    def trains_since_s(self) -> float | None:
        """Return since when a rank has been where all ranks must have met; None if none is.

        That is inside a collective, or in a step's work. The time is on the collector's monotonic
        clock.
        """
        rows = self.rows
        inside, works = rows["in_collective"] != 0, np.isin(rows["phase"], _TRAINS)
        training = np.flatnonzero(self.reported & (inside | works))
        if not len(training):
            return None
        rows = rows[training]
        since = np.where(inside[training], rows["collective_since_ns"], rows["since_ns"])
        passed = rows["time_ns"].astype(np.int64) - since.astype(np.int64)
        ages = np.where(since > 0, np.maximum(passed, 0), 0) / NANOSECONDS
        return float((self.received_monotonic_s[training] - ages).min())

    def moved_ages(self, now_s: float) -> Vector:
        """Return the seconds since each rank's live or collective line changed, NaN if unknown.

        Shape (world,). The time ends at the agent's last reading. For a vanished rank, which an
        agent reports only once, it ends at `now_s` (monotonic).
        """
        rows = self.rows
        moved = np.maximum(rows["since_ns"], rows["collective_since_ns"]).astype(np.int64)
        ages = np.where(moved > 0, (rows["time_ns"].astype(np.int64) - moved) / NANOSECONDS, 0.0)
        ages[np.isnan(self.received_monotonic_s)] = np.nan
        vanished = list(self.gone)
        ages[vanished] += now_s - self.received_monotonic_s[vanished]
        return np.asarray(ages)


def _class_of(row: np.void) -> str:
    """Return the job's class; an invalid name, as from hooks without one, is unknown."""
    name = bytes(row["job_class"]).decode("ascii", "replace")
    return name if is_name(name) else ""
