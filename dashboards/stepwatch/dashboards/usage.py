"""The row on the fleet's device utilisation."""

from __future__ import annotations

from stepwatch.signals.names import DEVICE_METRICS

from . import fleet
from .layout import Section
from .panels import Line, Metadata, Panel, lines, number
from .sections import ANY


def _mean(field: str, legend: str) -> Line:
    return Line(fleet.of_all(DEVICE_METRICS[field], how="avg"), legend)


def usage() -> Section:
    """Return all devices' utilisation and link traffic."""
    return Section("Devices of all nodes", [_busy(), _links(), *_faults()])


def _busy() -> Panel:
    metadata = Metadata(
        "Device utilisation",
        "Means over devices. A device in a collective is busy; tensor cores show work.",
        "percentunit",
        10,
    )
    busy, work = _mean("busy_ratio", "a kernel runs"), _mean("sm_active_ratio", "SMs work")
    return lines(metadata, busy, work, _mean("tensor_active_ratio", "tensor cores work"))


def _links() -> Panel:
    metadata = Metadata("Links of devices", "Sent by all devices together.", "Bps", 10)
    sent = [
        Line(fleet.of_all(DEVICE_METRICS[f"{link}_sent_bytes_per_second"], how="sum"), text)
        for link, text in (("nvlink", "NVLink"), ("pcie", "PCIe"))
    ]
    return lines(metadata, *sent)


def _faults() -> list[Panel]:
    lost = Metadata("Devices lost", "Counted by the driver, and not reached.", "none", 4)
    return [number(lost, Line(fleet.of_all(DEVICE_METRICS["lost"], how="sum")), ANY)]
