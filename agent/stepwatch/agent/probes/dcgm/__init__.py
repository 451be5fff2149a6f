"""The `dcgm` probe: device values from a dcgm-exporter on the node.

For a device that the `nvml` probe reads, this probe adds only values that NVML lacks, and no
faults: the exporter's values are up to its interval old, 30 s by default.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Self

from stepwatch.agent.devices.faults import ValueFaults
from stepwatch.agent.devices.rows import name_of, unknown_devices
from stepwatch.agent.facts.sighting import Sighting
from stepwatch.agent.probes.probe import Probe, ProbeContext
from stepwatch.signals.clock import NANOSECONDS, Clock, ClockPair
from stepwatch.signals.records import BODIES, Activity, Kind, NodeFact, Values

from .endpoint import Endpoint, checked_url
from .news import XidNews
from .page import Device, parse

STALE_SECONDS = 300.0
"""A page on which no device's power changes for this time is stale: an exporter that lost its host
engine serves the last page forever (NVIDIA/gpu-monitoring-tools#188).
"""
_ACTIVE = [name for name, _ in BODIES[Kind.DEVICE] if name.endswith("_active_ratio")]


class DcgmProbe(Probe):
    """Read the exporter at `url`."""

    name = "dcgm"
    kind = Kind.DEVICE
    expendable = False
    yields_to = "nvml"

    def __init__(self, clock: Clock, url: str) -> None:
        self._clock = clock
        self._endpoint = Endpoint(url)
        self._faults = ValueFaults()
        self._news = XidNews()
        self._page: bytes | None = None
        self._changed_ns = 0
        self._devices: list[Device] = []
        self._sightings: list[Sighting] = []

    @classmethod
    def is_enabled(cls, context: ProbeContext) -> bool:
        """Return whether an exporter is configured."""
        return bool(context.dcgm)

    @classmethod
    def build(cls, context: ProbeContext) -> Self:
        """Build this node's probe.

        Raises:
            ConfigurationError: the exporter's URL is invalid.
        """
        return cls(context.clock, checked_url(context.dcgm))

    def supported(self) -> bool:
        """Return True: a configured exporter that does not answer must be reported."""
        return True

    def read(self) -> list[Values]:
        """Return one record per device.

        Raises:
            OSError: the exporter does not answer, or its values are stale.
            ValueError: it serves something else.
        """
        page = self._endpoint.page()
        now = ClockPair.now(self._clock)
        is_new = page != self._page
        if is_new:
            self._devices = parse(page)
            self._page, self._changed_ns = page, now.monotonic_ns
        rows = self._rows(now)
        stale_ns = now.monotonic_ns - self._changed_ns
        if stale_ns > STALE_SECONDS * NANOSECONDS and any(
            math.isfinite(row["power_watts"]) for row in rows
        ):
            raise OSError(f"the exporter's values have not changed for {STALE_SECONDS:g} s")
        # States on an unchanged page last; counted events must not count again.
        lasting = [sighting for sighting in self._sightings if not sighting.happened]
        self._sightings = list(self._look(rows, now)) if is_new else lasting
        return rows

    def facts(self) -> Sequence[Sighting]:
        """Return the device faults on the newest page."""
        return self._sightings

    def close(self) -> None:
        """Close the connection."""
        self._endpoint.close()

    def _rows(self, now: ClockPair) -> list[Values]:
        rows = unknown_devices(len(self._devices))
        for row, device in zip(rows, self._devices, strict=True):
            row |= {
                "time_ns": now.monotonic_ns,
                "device": device.number,
                "address": device.address.encode(),
            }
            for name, value in device.values.items():
                if _is_possible(name, value):
                    row[name] = value
            if any(math.isfinite(row[name]) for name in _ACTIVE):
                row["activity"] = Activity.DCGM
            elif device.divided:
                row["activity"] = Activity.DIVIDED
            row["mig"] = 1 if device.divided else row["mig"]
        return rows

    def _look(self, rows: Sequence[Values], now: ClockPair) -> Iterator[Sighting]:
        for row, device in zip(rows, self._devices, strict=True):
            name = name_of(row)
            yield from self._faults.find(name, row, now.monotonic_ns / NANOSECONDS)
            if device.remap_failed > 0:
                text = "DCGM reports that rows could not be remapped"
                yield Sighting(NodeFact.ROW_REMAP_FAILED, name, text)
            if device.remap_pending > 0:
                text = "DCGM reports rows that wait for a reset"
                yield Sighting(NodeFact.ROWS_TO_REMAP, name, text)
            code = self._news.new_code(device)
            if code:
                monotonic_ns = device.xid_at * NANOSECONDS - now.wall_ns + now.monotonic_ns
                at_ns = max(1, round(monotonic_ns)) if math.isfinite(monotonic_ns) else 0
                text = f"DCGM reports XID {code}"
                yield Sighting(NodeFact.XID, name, text, code, happened=1, at_ns=at_ns)


def _is_possible(name: str, value: float) -> bool:
    return value >= 0.0 and (value <= 1.0 or not name.endswith("_ratio"))
