"""What the driver reports wrong with its devices, as facts of the node."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from stepwatch.agent.facts.sighting import Sighting
from stepwatch.signals.records import NodeFact
from stepwatch.signals.wire import Rows

from .driver import Driver

RECOVERY = (
    *("", "GPU reset", "node reboot", "drain P2P", "drain and reset"),
    *("recover the IMEX domain", "bus reset", "system reboot"),
)
"""What field 230 asks for, by its number (`NVML_GPU_RECOVERY_ACTION_*` of nvml.h); 0 is nothing."""
_NVIDIA = "0x10de"
_DISPLAY = "0x03"
"""Class of a PCI function: 0x0300 is a VGA controller, 0x0302 a 3D controller."""


class Faults:
    """Looks for faults of the devices of `driver`; `sys` is where the kernel lists PCI devices.

    A device is named by its PCI address, as the kernel's log names it, so that both speak of one.
    """

    def __init__(self, driver: Driver, sys: Path = Path("/sys")) -> None:
        self._driver = driver
        self._pci = sys / "bus" / "pci" / "devices"
        self._names: dict[int, str] = {}
        self._users: dict[int, int] = {}

    def find(
        self, handles: Sequence[Any], rows: Rows, owners: Sequence[set[int]]
    ) -> list[Sighting]:
        """What is wrong with the devices of one reading."""
        found = []
        for number, (handle, row) in enumerate(zip(handles, rows, strict=True)):
            # A device that is lost names nobody: who computed on it before has lost it.
            if number < len(owners) and len(owners[number]) == 1:
                (self._users[number],) = owners[number]
            if handle is not None and int(row["lost"]) != 1:
                self._name(number, handle)
            name = self._names.get(number, f"device {number}")
            for each in self._of_device(name, handle, row):
                found.append(each._replace(pid=self._users.get(number, 0)))
        for number, code in self._driver.fresh:
            name = self._names.get(number, f"device {number}")
            text = f"the driver reported XID {code}"
            pid = self._users.get(number, 0)
            found.append(Sighting(NodeFact.XID, name, text, code, happened=1, pid=pid))
        return found + list(self._missing(len(handles)))

    def _of_device(self, name: str, handle: Any, row: Any) -> Iterator[Sighting]:
        if int(row["lost"]) == 1:
            yield Sighting(NodeFact.DEVICE_LOST, name, "the driver counts it and cannot reach it")
            return
        remapped = self._driver.ask("nvmlDeviceGetRemappedRows", handle)
        if remapped is not None:
            corrected, uncorrected, pending, failed = remapped
            text = f"{corrected} rows remapped after corrected errors, {uncorrected} after others"
            if pending:
                yield Sighting(NodeFact.ROWS_TO_REMAP, name, f"{text}; some wait for a reset")
            if failed:
                yield Sighting(NodeFact.ROW_REMAP_FAILED, name, f"{text}; one failed")
        action = self._driver.field("NVML_FI_DEV_GET_GPU_RECOVERY_ACTION", handle)
        if action:
            word = RECOVERY[action] if action < len(RECOVERY) else f"action {action}"
            yield Sighting(NodeFact.RECOVERY_NEEDED, name, f"the driver asks for: {word}", action)
        width, most = (
            self._driver.ask(f"nvmlDeviceGet{which}PcieLinkWidth", handle)
            for which in ("Curr", "Max")
        )
        if width and most and width < most:
            text = f"{width} lanes of {most}"
            yield Sighting(NodeFact.PCIE_NARROW, name, text)

    def _missing(self, known: int) -> Iterator[Sighting]:
        """Devices that the PCI bus shows and the driver does not."""
        there = sum(_is_device(folder) for folder in self._folders())
        if there > known:
            text = f"{there} on the PCI bus, {known} known to the driver"
            yield Sighting(NodeFact.DEVICE_MISSING, "driver", text)

    def _folders(self) -> list[Path]:
        try:
            return list(self._pci.iterdir())
        except OSError:  # no PCI bus, or not to be seen from here
            return []

    def _name(self, number: int, handle: Any) -> None:
        info = self._driver.ask("nvmlDeviceGetPciInfo", handle)
        if info is not None:
            # 00000000:3B:00.0 is 0000:3b:00 in the kernel's messages.
            address = f"{info.domain & 0xFFFF:04x}:{info.bus & 0xFF:02x}:{info.device & 0xFF:02x}"
            self._names[number] = address


def _is_device(folder: Path) -> bool:
    try:
        vendor, kind = ((folder / name).read_text().strip() for name in ("vendor", "class"))
    except OSError:
        return False
    return vendor == _NVIDIA and kind.startswith(_DISPLAY)
