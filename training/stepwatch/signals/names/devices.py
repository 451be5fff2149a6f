"""Metrics for a node's devices, as its agent exports them: one for each field in a reading."""

from __future__ import annotations

from .labels import NODE
from .metric import Metric, MetricKind

_LABELS = (NODE, "device")


def _gauge(name: str, text: str) -> Metric:
    return Metric(f"stepwatch_node_device_{name}", MetricKind.GAUGE, text, _LABELS)


def _counter(name: str, text: str) -> Metric:
    text = f"{text} since its driver was loaded."
    return Metric(f"stepwatch_node_device_{name}_total", MetricKind.COUNTER, text, _LABELS)


DEVICE_METRICS: dict[str, Metric] = {
    "lost": _gauge("lost", "1 while the driver counts the device and cannot reach it."),
    "mig": _gauge("mig", "1 while the device is divided into instances (MIG)."),
    "xid": _gauge("xid", "Number of the newest XID error since the agent began, 0 for none."),
    "busy_ratio": _gauge("busy_ratio", "Share of time in which a kernel ran."),
    "sm_active_ratio": _gauge("sm_active_ratio", "Share of time in which multiprocessors worked."),
    "tensor_active_ratio": _gauge(
        "tensor_active_ratio", "Share of time in which tensor cores worked."
    ),
    "dram_active_ratio": _gauge("dram_active_ratio", "Share of the memory's bandwidth in use."),
    "memory_used_bytes": _gauge("memory_used_bytes", "Memory in use."),
    "memory_total_bytes": _gauge("memory_total_bytes", "Memory of the device."),
    "clock_hertz": _gauge("clock_hertz", "Clock of the multiprocessors."),
    "clock_limit_hertz": _gauge("clock_limit_hertz", "Highest clock of the multiprocessors."),
    "power_watts": _gauge("power_watts", "Power draw."),
    "power_limit_watts": _gauge("power_limit_watts", "Power that the device may draw."),
    "temperature_celsius": _gauge("temperature_celsius", "Temperature of the device."),
    "nvlink_received_bytes_per_second": _gauge(
        "nvlink_received_bytes_per_second", "Received through all NVLinks."
    ),
    "nvlink_sent_bytes_per_second": _gauge(
        "nvlink_sent_bytes_per_second", "Sent through all NVLinks."
    ),
    "pcie_received_bytes_per_second": _gauge(
        "pcie_received_bytes_per_second", "Received through PCIe."
    ),
    "pcie_sent_bytes_per_second": _gauge("pcie_sent_bytes_per_second", "Sent through PCIe."),
    "ecc_corrected": _counter("ecc_corrected", "Memory errors that were corrected"),
    "ecc_uncorrected": _counter("ecc_uncorrected", "Memory errors that were not corrected"),
    "pcie_replays": _counter("pcie_replays", "Packets that PCIe sent again"),
    "nvlink_errors": _counter("nvlink_errors", "Errors of all NVLinks"),
}
"""Metric for each DEVICE field that is exported unchanged."""
