"""What is known of the nodes and ranks of one attempt beside their steps."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from stepwatch.collector.state.folding.turns import turns
from stepwatch.collector.state.readings import Ranks, Rates, Readings, Table, Values
from stepwatch.collector.state.tracker import Batches, JoinedTracker, TrackedAttempt
from stepwatch.signals.clock import NANOSECONDS
from stepwatch.signals.records import Kind, Throttle
from stepwatch.signals.wire import Rows

MAX_NODES = 16_384
MAX_RANKS = 131_072
MAX_DEVICES = 131_072
MAX_ROWS = 64
"""Device or interface rows of one node taken from one segment."""

NODE_FACTS = (
    "cpu_steal_ratio",
    "cpu_pressure_ratio",
    "memory_pressure_ratio",
    "io_pressure_ratio",
    "nic_errors_per_second",
    "tcp_retransmit_ratio",
)
RANK_FACTS = ("run_queue_ratio", "major_faults_per_second")
DEVICE_FACTS = (
    "thermal_ratio",
    "power_cap_ratio",
    "clock_loss_ratio",
    "ecc_uncorrected_per_second",
    "xid_per_second",
    "lost_ratio",
)
_HEAT = int(Throttle.THERMAL | Throttle.HARDWARE_THERMAL)
_POWER = int(Throttle.POWER_CAP | Throttle.HARDWARE_POWER_BRAKE)
BUSY_RATIO = 0.3
"""Below this use a device lowers its clocks by itself, which says nothing."""


class Neighbour(NamedTuple):
    """A process that is no rank: how many CPUs' worth of time it uses, NaN if unknown."""

    name: str
    pid: int
    cpu_ratio: float


class View(NamedTuple):
    """Facts over a finding's time, and before it: arrays (ranks,) or (nodes,) by fact name.

    `node_at` is the index of each rank's node in `nodes`, -1 where it is not known.
    """

    now: Mapping[str, Values]
    before: Mapping[str, Values]
    node_at: np.ndarray[tuple[int], np.dtype[np.int64]]
    nodes: tuple[str, ...]
    neighbours: tuple[Neighbour | None, ...]
    devices_read: bool


class NodeFacts(JoinedTracker):
    """Keeps the readings of one attempt; fed with every segment."""

    kinds = frozenset({Kind.HOST, Kind.DEVICE, Kind.RANK_STATE})

    def __init__(self) -> None:
        self.hosts: dict[str, np.void] = {}
        """Newest HOST row of each node."""
        self.nodes = Readings(NODE_FACTS, MAX_NODES)
        self.ranks = Readings(RANK_FACTS, MAX_RANKS, Ranks)
        self.devices = Readings(DEVICE_FACTS, MAX_RANKS)
        self.neighbours: dict[str, Neighbour] = {}
        self.devices_read = False
        self._rank_rates = Rates(2, MAX_RANKS, Ranks)
        self._device_rates = Rates(2, MAX_DEVICES)
        self._nic_rates = Rates(5, MAX_NODES * 4)

    def fold(self, batches: Batches, attempt: TrackedAttempt) -> None:
        """Fold HOST, NIC and DEVICE rows in node by node, RANK_STATE rows together."""
        if not batches.kinds.isdisjoint((Kind.HOST, Kind.DEVICE)):
            for batch in batches:
                hosts = batch.rows(Kind.HOST)
                if hosts is not None and batch.node in attempt.offsets:
                    self.hosts[batch.node] = hosts[-1]
                self._take_node(batch.tables, batch.node)
        if (states := batches.rows(Kind.RANK_STATE)) is not None:
            self._take_ranks(states)

    def add(self, tables: Mapping[Kind, Rows], node: str) -> None:
        """Take in one segment's readings."""
        self._take_node(tables, node)
        states = tables.get(Kind.RANK_STATE)
        if states is not None and len(states):
            self._take_ranks(states)

    def _take_node(self, tables: Mapping[Kind, Rows], node: str) -> None:
        hosts, nics = tables.get(Kind.HOST), tables.get(Kind.NIC)
        if hosts is not None and len(hosts):
            self._take_host(hosts[-1], nics, node)
        for row in _rows(tables, Kind.DEVICE)[:MAX_ROWS]:
            self._take_device(row, node)

    def view(self, node_of: Mapping[int, str], world: int, seconds: float) -> View:
        """The facts over the newest `seconds`, and before, of every rank and its node."""
        nodes = tuple(sorted(set(node_of.values())))
        index = {name: at for at, name in enumerate(nodes)}
        node_at = np.full(world, -1, dtype=np.int64)
        for rank, name in node_of.items():
            if 0 <= rank < world:
                node_at[rank] = index[name]
        now: dict[str, Values] = {}
        before: dict[str, Values] = {}
        for readings, subjects in (
            (self.nodes, list(nodes)),
            (self.ranks, list(range(world))),
            (self.devices, list(range(world))),
        ):
            for known, found in zip((now, before), readings.over(subjects, seconds), strict=True):
                known.update(_by_name(readings.fields, found))
        neighbours = tuple(self.neighbours.get(name) for name in nodes)
        return View(now, before, node_at, nodes, neighbours, self.devices_read)

    def _take_host(self, row: np.void, nics: Rows | None, node: str) -> None:
        at = _seconds(row)
        errors, retransmits = self._take_nics(nics, node)
        ratios = [_ratio(row[name]) for name in NODE_FACTS[:4]]
        self.nodes.add(node, at, np.array([*ratios, errors, retransmits]))
        name = bytes(row["neighbour"]).decode("utf-8", "replace")
        used = float(row["neighbour_cpu_ratio"])
        if name and math.isfinite(used) and node in self.nodes:
            self.neighbours[node] = Neighbour(name, int(row["neighbour_pid"]), used)
        else:
            self.neighbours.pop(node, None)

    def _take_nics(self, rows: Rows | None, node: str) -> tuple[float, float]:
        """Errors, drops and carrier changes per second of all interfaces; retransmits per segment.

        A change of carrier is held for ten errors: it costs seconds, not a packet.
        """
        errors, retransmits = math.nan, math.nan
        for row in rows[:MAX_ROWS] if rows is not None else ():
            name = bytes(row["interface"])
            fields = ("errors", "drops", "carrier_changes", "tcp_sent_segments", "tcp_retransmits")
            counters = np.array([float(row[field]) for field in fields])
            grown = self._nic_rates.of((node, name), _seconds(row), counters)
            if name:
                bad = grown[0] + grown[1] + 10 * np.nan_to_num(grown[2])
                errors = bad if math.isnan(errors) else errors + np.nan_to_num(bad)
            elif grown[3] > 0:
                retransmits = float(grown[4] / grown[3])
        return float(errors), retransmits

    def _take_device(self, row: np.void, node: str) -> None:
        self.devices_read = True
        rank = int(row["rank"])
        if not 0 <= rank < MAX_RANKS:
            return
        counters = np.array([float(row["ecc_uncorrected"]), float(row["xid_count"])])
        at = _seconds(row)
        grown = self._device_rates.of((node, int(row["device"])), at, counters)
        throttle, lost = int(row["throttle"]), int(row["lost"])
        values = [
            float(bool(throttle & _HEAT)) if throttle >= 0 else math.nan,
            float(bool(throttle & _POWER)) if throttle >= 0 else math.nan,
            _clock_loss(row),
            *grown,
            float(lost) if lost in (0, 1) else math.nan,
        ]
        self.devices.add(rank, at, np.array(values))

    def _take_ranks(self, rows: Rows) -> None:
        rows = rows[(rows["rank"] >= 0) & (rows["rank"] < MAX_RANKS)]
        ranks, times = rows["rank"].astype(np.int64), rows["time_ns"] / NANOSECONDS
        counters = np.empty((len(rows), 2))
        counters[:, 0], counters[:, 1] = rows["run_queue_seconds"], rows["major_faults"]
        for turn in turns(ranks):
            rates = self._rank_rates.of_all(ranks[turn], times[turn], counters[turn])
            self.ranks.add_all(ranks[turn], times[turn], rates)


def _rows(tables: Mapping[Kind, Rows], kind: Kind) -> list[np.void]:
    rows = tables.get(kind)
    return list(rows[:MAX_ROWS]) if rows is not None else []


def _seconds(row: np.void) -> float:
    return int(row["time_ns"]) / NANOSECONDS


def _ratio(value: float) -> float:
    """A share between 0 and 1; anything else is no share and unknown."""
    return float(value) if 0.0 <= value <= 1.0 else math.nan


def _clock_loss(row: np.void) -> float:
    """By how much the clock lies below its limit, of a device that works."""
    clock, limit, busy = (
        float(row[name]) for name in ("clock_hertz", "clock_limit_hertz", "busy_ratio")
    )
    if not (busy >= BUSY_RATIO and limit > 0 and clock >= 0) or math.isinf(limit):
        return math.nan
    return max(0.0, 1.0 - clock / limit)


def _by_name(fields: tuple[str, ...], table: Table) -> dict[str, Values]:
    return {name: table[:, at] for at, name in enumerate(fields)}
