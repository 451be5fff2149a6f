"""Device use over a window: idle time of devices, and the hosts' lead.

Idle time is an upper bound: nothing was enqueued ahead, but the device may have worked.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from stepwatch.collector.state.evidence.step_window import WORK, Window
from stepwatch.collector.step_clocks import DEVICE
from stepwatch.signals.arrays import Vector
from stepwatch.signals.records import PHASE_NAMES

LAUNCH_BOUND_RATIO = 0.2
"""Share of step time lost to late hosts from which a job is launch-bound.

Faster hosts alone would regain this share of throughput.
"""
COMPUTING = tuple(name for name in WORK if name != "data")
"""Phases in which an idle device means that its host enqueues too late."""


class DeviceUse(NamedTuple):
    """Means over a window's (step, rank) cells on the device clock; None if unknown.

    `idle_seconds` maps a phase to seconds per step without enqueued work; `idle_ratio` is the total
    over the step, `late_host_ratio` the part in `COMPUTING`. `host_lead_seconds` is the median
    host's lead at the end of a step, `clock_error_seconds` the uncertainty between device and host
    times. `launch_bound` means that the devices together wait for their hosts.
    """

    idle_seconds: dict[str, float | None]
    idle_ratio: float | None
    late_host_ratio: float | None
    launch_bound: bool | None
    host_lead_seconds: float | None
    clock_error_seconds: float | None


UNKNOWN_USE = DeviceUse(dict.fromkeys(PHASE_NAMES), None, None, None, None, None)


def device_use(window: Window) -> DeviceUse:
    """Return device use in `window`; all unknown on the host clock."""
    planes = window.planes
    measured = ~np.isnan(planes["duration"])
    if window.clock != DEVICE or not measured.any():
        return UNKNOWN_USE
    idle = {name: _mean(planes[f"{name}_idle"][measured]) for name in PHASE_NAMES}
    step = float(planes["duration"][measured].mean(dtype=np.float64))
    late_ratio = _ratio([idle[name] for name in COMPUTING], step)
    return DeviceUse(
        idle_seconds=idle,
        idle_ratio=_ratio(list(idle.values()), step),
        late_host_ratio=late_ratio,
        launch_bound=None if late_ratio is None else late_ratio >= LAUNCH_BOUND_RATIO,
        host_lead_seconds=_median(planes["host_lead"]),
        clock_error_seconds=_median(planes["clock_error"]),
    )


def host_leads(window: Window) -> Vector:
    """Return each rank's median host lead in seconds (ranks,), NaN if unknown."""
    lead = window.planes["host_lead"]
    medians = np.full(lead.shape[1], np.nan)
    measured = ~np.isnan(lead).all(axis=0)
    if measured.any():
        medians[measured] = np.nanmedian(lead[:, measured], axis=0)
    return medians


def _ratio(parts: list[float | None], step: float) -> float | None:
    """Return the parts' sum over the step; None if one is unknown."""
    known_parts = [part for part in parts if part is not None]
    return sum(known_parts) / step if len(known_parts) == len(parts) and step > 0 else None


def _mean(values: np.ndarray[tuple[int], np.dtype[np.float32]]) -> float | None:
    mean = float(values.mean(dtype=np.float64))
    return None if math.isnan(mean) else mean


def _median(values: np.ndarray[tuple[int, int], np.dtype[np.float32]]) -> float | None:
    finite = values[~np.isnan(values)]
    return float(np.median(finite)) if len(finite) else None
