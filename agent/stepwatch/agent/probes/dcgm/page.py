"""Parses a dcgm-exporter's page into devices."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from .fields import FIELDS, NAMES, REMAP_FAILED, REMAP_PENDING, XID

MAX_DEVICES = 64
MAX_SAMPLES = 16_384
MAX_XID = 1 << 16
"""Above any XID: NVIDIA's catalog ends below 200."""
_NUMBERS = {str(number): number for number in range(MAX_DEVICES)}
_ADDRESS = re.compile(r"[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}(\.[0-9A-Fa-f])?")
_BLANK = 1e14
"""DCGM marks unknown values with huge numbers (DCGM_FP64_BLANK is 2^47), in 32-bit fields with
`_BLANK_32` and above (DCGM_INT32_BLANK).
"""
_BLANK_32 = range(0x7FFFFFF0, 0x80000000)


@dataclass
class Device:
    """One device: number, PCI address, values by field in base units, and its errors.

    `xid` is the newest XID error, `xid_at` its report time in Unix seconds. `remap_failed` and
    `remap_pending` are the row remapping states. NaN means unknown.
    """

    number: int
    address: str = ""
    divided: bool = False
    values: dict[str, float] = field(default_factory=dict)
    xid: float = math.nan
    xid_at: float = math.nan
    remap_failed: float = math.nan
    remap_pending: float = math.nan


def parse(page: bytes) -> list[Device]:
    """Return the page's devices, sorted by number.

    Raises:
        ValueError: the page is not a dcgm-exporter's, or has no known metric.
    """
    lines = [line for line in page.decode("utf-8").splitlines() if _is_wanted(line)]
    if len(lines) > MAX_SAMPLES:
        raise ValueError(f"the exporter's page has more than {MAX_SAMPLES} samples of DCGM")
    devices: dict[int, Device] = {}
    for sample in _samples(lines):
        number = _NUMBERS.get(sample.labels.get("gpu", ""))
        if number is not None:
            _take(devices.setdefault(number, Device(number)), sample)
    if not devices:
        raise ValueError(
            "the exporter's page has no metric that is known; from dcgm-exporter 4.9 on, let it "
            "serve the names of 4.8"
        )
    return [devices[number] for number in sorted(devices)]


def _is_wanted(line: str) -> bool:
    return re.split(r"[{\s]", line, maxsplit=1)[0] in NAMES


def _samples(lines: list[str]) -> Iterator[Sample]:
    try:
        for family in text_string_to_metric_families("\n".join([*lines, ""])):
            yield from family.samples
    except IndexError as error:  # from the parser, if a line is truncated
        raise ValueError("the exporter's page has a line that is cut") from error


def _take(device: Device, sample: Sample) -> None:
    value = float(sample.value)
    if not abs(value) < _BLANK or value in _BLANK_32:
        return
    device.address = device.address or _address(sample.labels.get("pci_bus_id", ""))
    of_instance = bool(sample.labels.get("GPU_I_ID"))
    device.divided |= of_instance
    target = FIELDS.get(sample.name)
    if target is not None:
        if not (target.of_instance and of_instance):
            device.values[target.name] = value * target.unit
    elif sample.name == XID and 0 <= value < MAX_XID:
        device.xid, device.xid_at = value, _seconds(sample)
    elif sample.name == REMAP_FAILED:
        device.remap_failed = value
    elif sample.name == REMAP_PENDING:
        device.remap_pending = value


def _address(text: str) -> str:
    """Convert 00000000:3B:00.0 to the kernel's form 0000:3b:00; empty if it is not an address."""
    if not _ADDRESS.fullmatch(text):
        return ""
    domain, bus, device = text.partition(".")[0].lower().split(":")
    return f"{domain[-4:]}:{bus}:{device}"


def _seconds(sample: Sample) -> float:
    return math.nan if sample.timestamp is None else float(sample.timestamp)
