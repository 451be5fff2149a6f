"""Device faults that the driver reports, as node facts."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from stepwatch.agent.devices.faults import ValueFaults
from stepwatch.agent.devices.rows import name_of
from stepwatch.agent.facts.sighting import Sighting
from stepwatch.signals.clock import NANOSECONDS
from stepwatch.signals.records import NodeFact, Throttle, Values

from .driver import Driver
from .links import Link, LinkFaults

RECOVERY = (
    *("", "GPU reset", "node reboot", "drain P2P", "drain and reset"),
    *("recover the IMEX domain", "bus reset", "system reboot"),
)
"""Recovery action in field 230, by number (`NVML_GPU_RECOVERY_ACTION_*` in nvml.h); 0 is none."""
_WHOLE = ("busy_ratio", "memory_used_bytes", "ecc_uncorrected", "nvlink_errors")
"""Fields that a driver may omit for a MIG device."""
_NVIDIA = "0x10de"
_DISPLAY = "0x03"
"""PCI function class: 0x0300 is a VGA controller, 0x0302 a 3D controller."""


class Faults:
    """Find faults in `driver`'s devices; `sys` contains the kernel's PCI device list.

    A device is named by its PCI address, as in the kernel log, so that both have the same subject.
    """

    def __init__(self, driver: Driver, sys: Path = Path("/sys")) -> None:
        self._driver = driver
        self._pci = sys / "bus" / "pci" / "devices"
        self._users: dict[int, int] = {}
        self._values = ValueFaults()
        self._links = LinkFaults()

    def find(
        self,
        handles: Sequence[Any],
        rows: Sequence[Values],
        owners: Sequence[set[int]],
        links: Sequence[Sequence[Link]],
    ) -> list[Sighting]:
        """Return the device faults in one reading."""
        sightings: list[tuple[int, Sighting]] = []
        names = [name_of(row) for row in rows]
        for number, (handle, row) in enumerate(zip(handles, rows, strict=True)):
            # A lost device reports no process: its former users have lost it.
            if number < len(owners) and len(owners[number]) == 1:
                (self._users[number],) = owners[number]
            sightings += [
                (number, sighting) for sighting in self._of_device(names[number], handle, row)
            ]
        if rows:
            now = max(row["time_ns"] for row in rows) / NANOSECONDS
            sightings += self._links.find(list(zip(names, links, strict=True)), now)
        for number, code in self._driver.fresh:
            text = f"the driver reported XID {code}"
            sightings.append(
                (number, Sighting(NodeFact.XID, names[number], text, code, happened=1))
            )
        assigned = [
            sighting._replace(pid=self._users.get(number, 0)) for number, sighting in sightings
        ]
        return assigned + list(self._missing(len(handles)))

    def _of_device(self, name: str, handle: Any, row: Values) -> Iterator[Sighting]:
        if int(row["lost"]) == 1:
            yield Sighting(NodeFact.DEVICE_LOST, name, "the driver counts it and cannot reach it")
            return
        yield from self._values.find(
            name, row, int(row["time_ns"]) / NANOSECONDS, self._ceiling(handle, row)
        )
        yield from self._of_settings(name, handle, row)
        yield from self._of_heat(name, handle, row)
        yield from self._of_rows(name, handle)
        action = self._driver.field("NVML_FI_DEV_GET_GPU_RECOVERY_ACTION", handle)
        if action:
            word = RECOVERY[action] if action < len(RECOVERY) else f"action {action}"
            yield Sighting(NodeFact.RECOVERY_NEEDED, name, f"the driver asks for: {word}", action)
        width = self._driver.ask("nvmlDeviceGetCurrPcieLinkWidth", handle)
        most = self._driver.ask_once("nvmlDeviceGetMaxPcieLinkWidth", handle=handle)
        if width and most and width < most:
            text = f"{width} lanes of {most}"
            yield Sighting(NodeFact.PCIE_NARROW, name, text)

    def _ceiling(self, handle: Any, row: Values) -> float | None:
        """Return the configured clock in hertz, if it limits the device."""
        if not max(0, int(row["throttle"])) & Throttle.APPLICATION_CLOCKS:
            return None
        kind = self._driver.library.NVML_CLOCK_SM
        megahertz = self._driver.ask("nvmlDeviceGetApplicationsClock", kind, handle=handle)
        return None if megahertz is None else float(megahertz) * 1e6

    def _of_settings(self, name: str, handle: Any, row: Values) -> Iterator[Sighting]:
        if self._driver.ask("nvmlDeviceGetPersistenceMode", handle) == 0:
            text = "persistence mode is off: each first use of the device initialises it again"
            yield Sighting(NodeFact.PERSISTENCE_OFF, name, text)
        if int(row["mig"]) == 1:
            fields = [field for field in _WHOLE if math.isnan(row[field])]
            missing = ", ".join(fields) or "nothing"
            text = f"MIG is on; not reported of the whole device: {missing}"
            yield Sighting(NodeFact.MIG_MODE, name, text)

    def _of_heat(self, name: str, handle: Any, row: Values) -> Iterator[Sighting]:
        kind = self._driver.library.NVML_TEMPERATURE_THRESHOLD_SLOWDOWN
        limit = self._driver.ask_once("nvmlDeviceGetTemperatureThreshold", kind, handle=handle)
        celsius = float(row["temperature_celsius"])
        if limit and celsius >= limit:
            text = f"{celsius:.0f} degrees Celsius, it slows down from {limit} on"
            yield Sighting(NodeFact.DEVICE_HOT, name, text)

    def _of_rows(self, name: str, handle: Any) -> Iterator[Sighting]:
        remapped = self._driver.ask("nvmlDeviceGetRemappedRows", handle)
        if remapped is not None:
            corrected, uncorrected, pending, failed = remapped
            text = f"{corrected} rows remapped after corrected errors, {uncorrected} after others"
            if pending:
                yield Sighting(NodeFact.ROWS_TO_REMAP, name, f"{text}; some wait for a reset")
            if failed:
                yield Sighting(NodeFact.ROW_REMAP_FAILED, name, f"{text}; one failed")

    def _missing(self, counted: int) -> Iterator[Sighting]:
        """Yield a fact if the PCI bus shows devices that the driver lacks."""
        present = sum(_is_device(folder) for folder in self._folders())
        if present > counted:
            text = f"{present} on the PCI bus, {counted} known to the driver"
            yield Sighting(NodeFact.DEVICE_MISSING, "driver", text)

    def _folders(self) -> list[Path]:
        try:
            return list(self._pci.iterdir())
        except OSError:  # no PCI bus, or not visible here
            return []


def _is_device(folder: Path) -> bool:
    try:
        vendor, kind = ((folder / name).read_text().strip() for name in ("vendor", "class"))
    except OSError:
        return False
    return vendor == _NVIDIA and kind.startswith(_DISPLAY)
