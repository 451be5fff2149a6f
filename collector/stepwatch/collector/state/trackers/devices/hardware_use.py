"""Device and network utilisation, as means since the attempt began."""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

import numpy as np

from stepwatch.collector.state.folding.rows import chosen
from stepwatch.collector.state.folding.turns import turns
from stepwatch.collector.state.readings import Places, Rates, Subjects
from stepwatch.collector.state.tracker import MAX_NODES, Batches, JoinedTracker, TrackedAttempt
from stepwatch.collector.state.trackers.nodes.node_facts import MAX_ROWS
from stepwatch.signals.arrays import Vector
from stepwatch.signals.records import Activity, Kind

MAX_DEVICES = 131_072
MAX_INTERFACES = 4 * MAX_NODES
_Sums = np.ndarray[Any, np.dtype[np.float64]]
_TRAFFIC = ("received_bytes", "sent_bytes")


class Traffic(NamedTuple):
    """An interface's mean bytes per second in the busier direction.

    `link_bytes_per_second` is its link's capacity, 0.0 if not reported.
    """

    node: str
    interface: str
    bytes_per_second: float
    link_bytes_per_second: float


class HardwareUse(JoinedTracker):
    """Sums over each device's and interface's readings.

    The means do not depend on the query rate.
    """

    kinds = frozenset({Kind.DEVICE, Kind.NIC})

    def __init__(self) -> None:
        self._devices = Subjects(MAX_DEVICES)
        self._interfaces = Subjects(MAX_INTERFACES)
        self._rates = Rates(len(_TRAFFIC), MAX_INTERFACES)
        self._busy = np.zeros((2, 0))
        """Each device's summed busy shares, and its reading count."""
        self._tensor = np.zeros((2, 0))
        """Each device's summed tensor-core shares, and its reading count."""
        self._activity = np.zeros((2, 0))
        """Each device's newest `Activity`, and whether it is divided (MIG)."""
        self._traffic = np.zeros((len(_TRAFFIC) + 1, 0))
        """Summed received and sent bytes per second, and the reading count."""
        self._link = np.zeros(0)

    @property
    def busy_ratio(self) -> Vector:
        """Busy time share per device (devices,), only for devices that report it."""
        return _means(self._busy)

    @property
    def tensor_ratio(self) -> Vector:
        """Tensor-core time share per device, only for devices that report it."""
        return _means(self._tensor)

    @property
    def activity(self) -> Counter[Activity]:
        """Device count by activity source, or by the reason for none."""
        return Counter(map(_activity, self._activity[0].tolist()))

    @property
    def divided(self) -> int:
        """Number of devices divided into instances (MIG)."""
        return int(self._activity[1].sum())

    @property
    def devices(self) -> int:
        """Number of reporting devices."""
        return len(self._devices)

    def traffic(self) -> list[Traffic]:
        """Return the traffic for each interface with two readings."""
        traffic = []
        for index, (node, interface) in enumerate(self._interfaces):
            count = self._traffic[-1, index]
            if count:
                most = float(self._traffic[:-1, index].max() / count)
                name = interface.decode("utf-8", "replace")
                traffic.append(Traffic(node, name, most, float(self._link[index])))
        return traffic

    def fold(self, batches: Batches, attempt: TrackedAttempt) -> None:
        """Fold in DEVICE and NIC rows."""
        if Kind.DEVICE in batches.kinds:
            self._take_devices(batches)
        if Kind.NIC in batches.kinds:
            self._take_interfaces(batches)

    def _take_devices(self, batches: Batches) -> None:
        table = batches.table(Kind.DEVICE)
        nodes = [batches[number].node for number in table.origin.tolist()]
        devices = list(zip(nodes, table.rows["device"].tolist(), strict=True))
        places = self._devices.numbered(devices)
        self._busy = _with_room(self._busy, len(self._devices))
        self._tensor = _with_room(self._tensor, len(self._devices))
        self._activity = _with_room(self._activity, len(self._devices))
        _add_shares(self._busy, places, table.rows["busy_ratio"])
        _add_shares(self._tensor, places, table.rows["tensor_active_ratio"])
        reports = (places >= 0) & (table.rows["activity"] > 0)
        self._activity[0, places[reports]] = table.rows["activity"][
            reports
        ]  # a device's last row wins
        reports = (places >= 0) & (table.rows["mig"] >= 0)
        self._activity[1, places[reports]] = table.rows["mig"][reports] == 1

    def _take_interfaces(self, batches: Batches) -> None:
        """Add interface rows; TCP's own counters come in a row without an interface."""
        table = batches.table(Kind.NIC)
        place = np.arange(len(table.rows)) - table.starts[table.origin]
        in_limit = (table.rows["interface"] != b"") & (place < MAX_ROWS)
        rows, origin = chosen(table.rows, in_limit), table.origin[in_limit]
        nodes = [batches[number].node for number in origin.tolist()]
        interfaces = list(zip(nodes, rows["interface"].tolist(), strict=True))
        places = self._interfaces.numbered(interfaces)
        self._rates.numbered(interfaces)  # in the same order: the same numbers
        self._traffic = _with_room(self._traffic, len(self._interfaces))
        self._link = _with_room(self._link, len(self._interfaces))
        counters = np.stack([rows[name].astype(np.float64) for name in _TRAFFIC], axis=1)
        times, speed = rows["time_ns"] / 1e9, rows["speed_bits_per_second"].astype(np.float64)
        for turn in turns(places):
            slots = places[turn]
            rates = self._rates.of_at(slots, times[turn], counters[turn])
            is_known = (slots >= 0) & np.isfinite(rates).all(axis=1)
            self._traffic[:-1, slots[is_known]] += rates[is_known].T
            self._traffic[-1, slots[is_known]] += 1.0
            has_speed = (slots >= 0) & (speed[turn] > 0)
            self._link[slots[has_speed]] = speed[turn][has_speed] / 8


def _add_shares(sums: _Sums, places: Places, shares: np.ndarray[Any, Any]) -> None:
    """Add shares between 0 and 1 to their device's sums, row by row."""
    with np.errstate(invalid="ignore"):  # a signalling NaN
        shares = shares.astype(np.float64)
    valid = (places >= 0) & (shares >= 0.0) & (shares <= 1.0)
    np.add.at(sums[0], places[valid], shares[valid])
    np.add.at(sums[1], places[valid], 1.0)


def _means(sums: _Sums) -> Vector:
    measured = sums[:, sums[1] > 0]
    return np.asarray(measured[0] / measured[1])


def _activity(number: float) -> Activity:
    """Return the activity; a later version's value is unknown."""
    return Activity(int(number)) if int(number) in set(Activity) else Activity.UNKNOWN


def _with_room(sums: _Sums, count: int) -> _Sums:
    more = count - sums.shape[-1]
    return (
        sums if more <= 0 else np.concatenate([sums, np.zeros((*sums.shape[:-1], more))], axis=-1)
    )
