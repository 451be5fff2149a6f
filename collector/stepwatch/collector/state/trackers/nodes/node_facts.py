"""Facts about an attempt's nodes and ranks, apart from their steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import compress
from typing import NamedTuple

import numpy as np

from stepwatch.collector.state.folding.rows import chosen
from stepwatch.collector.state.folding.turns import newest_of_each, turns
from stepwatch.collector.state.newest_hosts import Neighbour, NewestHosts
from stepwatch.collector.state.readings import KEPT, Ranks, Rates, Readings, Table, Values
from stepwatch.collector.state.tracker import Batches, JoinedTracker, TrackedAttempt
from stepwatch.signals.arrays import Mask
from stepwatch.signals.clock import NANOSECONDS
from stepwatch.signals.records import Kind, Throttle
from stepwatch.signals.wire import Rows

MAX_NODES = 16_384
MAX_RANKS = 131_072
MAX_DEVICES = 131_072
MAX_ROWS = 64
"""Maximum device or interface rows of one node per segment."""

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
    "clock_hertz",
    "clock_limit_hertz",
)
_NIC_COUNTERS = ("errors", "drops", "carrier_changes", "tcp_sent_segments", "tcp_retransmits")
_DEVICE_COUNTERS = ("ecc_uncorrected", "xid_count")
_HEAT = int(Throttle.THERMAL | Throttle.HARDWARE_THERMAL)
_POWER = int(Throttle.POWER_CAP | Throttle.HARDWARE_POWER_BRAKE)
BUSY_RATIO = 0.3
"""Below this use a device lowers its clocks by itself, which means nothing."""


class View(NamedTuple):
    """Facts over a finding's time, and before it: arrays (ranks,) or (nodes,) by fact name.

    `node_at` is each rank's node index in `nodes`, -1 if unknown.
    """

    now: Mapping[str, Values]
    earlier: Mapping[str, Values]
    node_at: np.ndarray[tuple[int], np.dtype[np.int64]]
    nodes: tuple[str, ...]
    neighbours: tuple[Neighbour | None, ...]
    devices_read: bool


class NodeFacts(JoinedTracker):
    """Keeps one attempt's readings; receives every segment."""

    kinds = frozenset({Kind.HOST, Kind.DEVICE, Kind.RANK_STATE})

    def __init__(self) -> None:
        self.hosts = NewestHosts(MAX_NODES)
        self.nodes = Readings(NODE_FACTS, MAX_NODES)
        self.ranks = Readings(RANK_FACTS, MAX_RANKS, Ranks)
        self.devices = Readings(DEVICE_FACTS, MAX_RANKS)
        self.devices_read = False
        self._rank_rates = Rates(2, MAX_RANKS, Ranks)
        self._device_rates = Rates(2, MAX_DEVICES)
        self._nic_rates = Rates(5, MAX_NODES * 4)

    def fold(self, batches: Batches, attempt: TrackedAttempt) -> None:
        """Fold in HOST, NIC, DEVICE and RANK_STATE rows."""
        if Kind.HOST in batches.kinds:
            self._take_hosts(batches, attempt)
        if Kind.DEVICE in batches.kinds:
            self._take_devices(batches)
        if (states := batches.rows(Kind.RANK_STATE)) is not None:
            self._take_ranks(states)

    def view(self, node_of: Mapping[int, str], world: int, seconds: float) -> View:
        """Return the facts over the newest `seconds`, and before, for every rank and its node."""
        nodes = tuple(sorted(set(node_of.values())))
        index = {name: number for number, name in enumerate(nodes)}
        node_at = np.full(world, -1, dtype=np.int64)
        for rank, name in node_of.items():
            if 0 <= rank < world:
                node_at[rank] = index[name]
        now: dict[str, Values] = {}
        earlier: dict[str, Values] = {}
        for readings, subjects in (
            (self.nodes, list(nodes)),
            (self.ranks, list(range(world))),
            (self.devices, list(range(world))),
        ):
            for facts, means in zip((now, earlier), readings.over(subjects, seconds), strict=True):
                facts.update(_by_name(readings.fields, means))
        neighbours = tuple(map(self.hosts.neighbour, nodes))
        return View(now, earlier, node_at, nodes, neighbours, self.devices_read)

    def _take_hosts(self, batches: Batches, attempt: TrackedAttempt) -> None:
        """Add each batch's last HOST row, and its NIC rows."""
        table = batches.table(Kind.HOST)
        having = np.flatnonzero(table.counts)
        rows = chosen(table.rows, table.starts[having + 1] - 1)
        nodes = [batches[number].node for number in having.tolist()]
        values = np.empty((len(rows), len(NODE_FACTS)))
        for column, name in enumerate(NODE_FACTS[:4]):
            # A share is between 0 and 1; any other value is unknown.
            with np.errstate(invalid="ignore"):  # a forged row may hold a signalling NaN
                share = rows[name].astype(np.float64)
            values[:, column] = np.where((share >= 0.0) & (share <= 1.0), share, np.nan)
        errors, retransmits = self._nic_facts(batches, table.counts > 0)
        values[:, 4], values[:, 5] = errors[having], retransmits[having]
        places, times = self.nodes.numbered(nodes), rows["time_ns"] / NANOSECONDS
        for turn in turns(places):
            self.nodes.add_at(places[turn], times[turn], values[turn])
        is_tracked = np.array([node in attempt.offsets for node in nodes], dtype=np.bool_)
        self.hosts.put(list(compress(nodes, is_tracked)), chosen(rows, is_tracked))

    def _nic_facts(self, batches: Batches, wanted: Mask) -> tuple[Values, Values]:
        """Return errors, drops and carrier changes per second on all interfaces; retransmit ratios.

        Arrays (batches,), NaN if unknown or not `wanted`. A carrier change counts as ten errors: it
        costs seconds, not a packet. TCP's counters come in a row without an interface.
        """
        errors, retransmits = np.full(len(batches), np.nan), np.full(len(batches), np.nan)
        table = batches.table(Kind.NIC)
        if not len(table.rows):
            return errors, retransmits
        place = np.arange(len(table.rows)) - table.starts[table.origin]
        in_limit = wanted[table.origin] & (place < MAX_ROWS)
        rows, origin = chosen(table.rows, in_limit), table.origin[in_limit]
        grown = self._nic_growth([batches[number].node for number in origin.tolist()], rows)
        bad = grown[:, 0] + grown[:, 1] + 10 * np.nan_to_num(grown[:, 2])
        named = rows["interface"] != b""
        counted = np.flatnonzero(named & np.isfinite(bad))
        sums = np.bincount(origin[counted], weights=bad[counted], minlength=len(batches))
        errors[origin[counted]] = sums[origin[counted]]
        sent = np.flatnonzero(~named & (grown[:, 3] > 0))
        retransmits[origin[sent]] = grown[sent, 4] / grown[sent, 3]
        return errors, retransmits

    def _nic_growth(self, nodes: Sequence[str], rows: Rows) -> Table:
        """Return the growth per second in each of `_NIC_COUNTERS` since the previous row.

        Rows are compared per interface.
        """
        counters = np.empty((len(rows), len(_NIC_COUNTERS)))
        for column, name in enumerate(_NIC_COUNTERS):
            counters[:, column] = rows[name]
        grown, times = np.full_like(counters, np.nan), rows["time_ns"] / NANOSECONDS
        interfaces = zip(nodes, rows["interface"].tolist(), strict=True)
        places = self._nic_rates.numbered(list(interfaces))
        for turn in turns(places):
            grown[turn] = self._nic_rates.of_at(places[turn], times[turn], counters[turn])
        return grown

    def _take_devices(self, batches: Batches) -> None:
        """Add DEVICE rows, at most `MAX_ROWS` per batch."""
        table = batches.table(Kind.DEVICE)
        place = np.arange(len(table.rows)) - table.starts[table.origin]
        self.devices_read |= len(table.rows) > 0
        valid = (place < MAX_ROWS) & (table.rows["rank"] >= 0) & (table.rows["rank"] < MAX_RANKS)
        rows, origin = chosen(table.rows, valid), table.origin[valid]
        times = rows["time_ns"] / NANOSECONDS
        throttle, lost = rows["throttle"].astype(np.int64), rows["lost"]
        values = np.full((len(rows), len(DEVICE_FACTS)), np.nan)
        for column, reasons in enumerate((_HEAT, _POWER)):
            values[:, column] = np.where(throttle >= 0, (throttle & reasons) > 0, np.nan)
        values[:, 2] = _clock_loss(rows)
        nodes = [batches[number].node for number in origin.tolist()]
        devices = list(zip(nodes, rows["device"].tolist(), strict=True))
        counters = np.stack([rows[n].astype(np.float64) for n in _DEVICE_COUNTERS], axis=1)
        places = self._device_rates.numbered(devices)
        for turn in turns(places):
            values[turn, 3:5] = self._device_rates.of_at(places[turn], times[turn], counters[turn])
        values[:, 5] = np.where((lost == 0) | (lost == 1), lost, np.nan)
        for column, name in ((6, "clock_hertz"), (7, "clock_limit_hertz")):
            values[:, column] = np.where(rows[name] > 0, rows[name], np.nan)
        places = self.devices.numbered(rows["rank"].tolist())
        for turn in turns(places):
            self.devices.add_at(places[turn], times[turn], values[turn])

    def _take_ranks(self, rows: Rows) -> None:
        rows = chosen(rows, (rows["rank"] >= 0) & (rows["rank"] < MAX_RANKS))
        ranks, times = rows["rank"].astype(np.int64), rows["time_ns"] / NANOSECONDS
        counters = np.empty((len(rows), 2))
        counters[:, 0], counters[:, 1] = rows["run_queue_seconds"], rows["major_faults"]
        self.ranks.numbered(ranks)  # in arrival order
        # The first kept row has a rate from an older one, which is also overwritten.
        newest, skipped = newest_of_each(ranks, KEPT + 1)
        many = np.flatnonzero(skipped)
        self.ranks.skip(self.ranks.numbered(many), skipped[many])
        ranks, times, counters = ranks[newest], times[newest], counters[newest]
        for turn in turns(ranks):
            rates = self._rank_rates.of_all(ranks[turn], times[turn], counters[turn])
            self.ranks.add_all(ranks[turn], times[turn], rates)


def _clock_loss(rows: Rows) -> Values:
    """Return the clock's shortfall below its limit (rows,), NaN unless the device works."""
    clock, limit, busy = (
        rows[name].astype(np.float64) for name in ("clock_hertz", "clock_limit_hertz", "busy_ratio")
    )
    is_busy = (busy >= BUSY_RATIO) & (limit > 0) & (clock >= 0) & ~np.isinf(limit)
    ratio = np.divide(clock, limit, out=np.full(len(rows), np.nan), where=is_busy)
    return np.asarray(np.maximum(0.0, 1.0 - ratio))


def _by_name(fields: tuple[str, ...], table: Table) -> dict[str, Values]:
    return {name: table[:, column] for column, name in enumerate(fields)}
