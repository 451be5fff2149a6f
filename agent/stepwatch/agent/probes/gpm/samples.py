"""Performance monitoring samples from the driver: two samples give the values between them."""

from __future__ import annotations

from typing import Any, NamedTuple

from stepwatch.agent.probes.nvml.driver import Driver
from stepwatch.signals.clock import NANOSECONDS

LEAST_SECONDS = 0.1
"""Minimum seconds between samples: the driver refreshes no faster (nvmlGpmMetricsGet)."""
_PERCENT, _MEBIBYTE = 0.01, float(1 << 20)


class _Metric(NamedTuple):
    number: str
    unit: float


_METRICS = {
    "sm_active_ratio": _Metric("NVML_GPM_METRIC_SM_UTIL", _PERCENT),
    "tensor_active_ratio": _Metric("NVML_GPM_METRIC_ANY_TENSOR_UTIL", _PERCENT),
    "dram_active_ratio": _Metric("NVML_GPM_METRIC_DRAM_BW_UTIL", _PERCENT),
    "nvlink_received_bytes_per_second": _Metric(
        "NVML_GPM_METRIC_NVLINK_TOTAL_RX_PER_SEC", _MEBIBYTE
    ),
    "nvlink_sent_bytes_per_second": _Metric("NVML_GPM_METRIC_NVLINK_TOTAL_TX_PER_SEC", _MEBIBYTE),
    "pcie_received_bytes_per_second": _Metric("NVML_GPM_METRIC_PCIE_RX_PER_SEC", _MEBIBYTE),
    "pcie_sent_bytes_per_second": _Metric("NVML_GPM_METRIC_PCIE_TX_PER_SEC", _MEBIBYTE),
}
"""Record fields, each with its metric in `nvml.h`."""


class _TimedSample(NamedTuple):
    sample: Any
    at_ns: int


class Samples:
    """Each device's newest sample, and the values since the previous one.

    The driver owns a sample's memory until it is freed, and the session must live until then.
    """

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._newest: dict[int, _TimedSample] = {}
        self._values: dict[int, dict[str, float]] = {}

    def take(self, number: int, handle: Any, now_ns: int) -> bool:
        """Sample device `number` at monotonic `now_ns`; return False if there is no sample."""
        previous = self._newest.get(number)
        self._values.pop(number, None)
        if previous is not None and now_ns - previous.at_ns < LEAST_SECONDS * NANOSECONDS:
            return True
        sample = self._driver.ask("nvmlGpmSampleAlloc")
        if sample is None:
            self.forget(number)
            return False
        if self._driver.ask("nvmlGpmSampleGet", handle, sample) is None:
            self._driver.ask("nvmlGpmSampleFree", sample)
            self.forget(number)
            return False
        values = {} if previous is None else self._between(previous.sample, sample)
        self.forget(number)
        self._newest[number], self._values[number] = _TimedSample(sample, now_ns), values
        return True

    def values(self, number: int) -> dict[str, float]:
        """Return a device's known values since its previous sample, by field in base units."""
        return self._values.get(number, {})

    def forget(self, number: int) -> None:
        """Free a device's sample and forget its values."""
        self._values.pop(number, None)
        newest = self._newest.pop(number, None)
        if newest is not None:
            self._driver.ask("nvmlGpmSampleFree", newest.sample)

    def free(self) -> None:
        """Free every sample."""
        for number in list(self._newest):
            self.forget(number)

    def _between(self, first: Any, second: Any) -> dict[str, float]:
        nvml = self._driver.library
        wanted = nvml.c_nvmlGpmMetricsGet_t()
        wanted.version, wanted.numMetrics = nvml.NVML_GPM_METRICS_GET_VERSION, len(_METRICS)
        wanted.sample1, wanted.sample2 = first, second
        for index, metric in enumerate(_METRICS.values()):
            wanted.metrics[index].metricId = getattr(nvml, metric.number)
        if self._driver.ask("nvmlGpmMetricsGet", wanted) is None:
            return {}
        values = {}
        for index, (name, metric) in enumerate(_METRICS.items()):
            value = wanted.metrics[index].value * metric.unit
            if wanted.metrics[index].nvmlReturn == 0 and _is_possible(name, value):
                values[name] = value
        return values


def _is_possible(name: str, value: float) -> bool:
    return value >= 0.0 and (value <= 1.0 or not name.endswith("_ratio")) and value < 1e15
