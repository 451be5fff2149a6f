"""Progress of a rank with a known device: the device's, not that of a host that runs ahead.

A host enqueues work for later steps while its device is stuck in one step, and a host that waits
for its device makes no progress itself. The hooks' side thread follows the device: if its heartbeat
is old, the device's line is old, too, and the host's lines count.
"""

from __future__ import annotations

import numpy as np

from stepwatch.collector.state.attempt import Attempt
from stepwatch.signals.arrays import Mask, Rows, Vector
from stepwatch.signals.clock import NANOSECONDS
from stepwatch.signals.records import OP_NAMES, DeviceState, phase_name

from .situation import RankSituation
from .thresholds import LIMITS, Thresholds

BUSY = (DeviceState.WORKING, DeviceState.IN_COLLECTIVE)
"""The device has not passed the work that its host enqueued, so it shows the rank's position."""


def moved_ages(attempt: Attempt, now_s: float, limits: Thresholds = LIMITS) -> Vector:
    """Return the seconds since each rank made progress (world,), NaN where unknown.

    For a busy device its own line counts, whatever its host does. For an idle device the newer
    event counts: the device became idle, or its host made progress.
    """
    rows, ages = attempt.ranks.rows, attempt.ranks.moved_ages(now_s)
    if not (rows["device_state"] != DeviceState.UNKNOWN).any():  # no device is followed
        return ages
    device, is_followed = _seconds(rows, "device_since_ns"), followed(rows, limits)
    busy = is_followed & np.isin(rows["device_state"], BUSY)
    idle = is_followed & (rows["device_state"] == DeviceState.IDLE)
    ages[busy] = device[busy]
    ages[idle] = np.minimum(ages, device)[idle]
    return ages


def followed(rows: Rows, limits: Thresholds = LIMITS) -> Mask:
    """Return which RANK_STATE rows have a device line that is as fresh as their heartbeat."""
    is_reported: Mask = (rows["device_state"] != DeviceState.UNKNOWN) & (
        rows["device_since_ns"] > 0
    )
    alive = (rows["heartbeat_ns"] > 0) & (rows["gone_ns"] == 0)
    fresh = _seconds(rows, "heartbeat_ns") <= limits.heartbeat_seconds
    return np.asarray(is_reported & alive & fresh)


def as_device(host: RankSituation, row: np.void, limits: Thresholds = LIMITS) -> RankSituation:
    """Return the rank at its device's position if the device is busy; `host` keeps the host's."""
    state = int(row["device_state"])
    if not followed(row.reshape(1), limits)[0]:
        return host
    if state not in BUSY:
        return host._replace(idle_device=state == DeviceState.IDLE)
    return host._replace(
        step=int(row["device_step"]),
        phase=int(row["device_phase"]),
        waiting=False,
        in_collective=state == DeviceState.IN_COLLECTIVE,
        op=int(row["device_op"]),
        group=int(row["device_group"]),
        host=host,
    )


def with_waiting_hosts(ranks: list[RankSituation]) -> list[RankSituation]:
    """Return the ranks, with the host in place of a device that does not show its collective.

    In a step whose collectives are not timed, a device reads as working while it waits in one. If
    another device shows a collective, they are timed, so a working device is the one that blocks.
    The same is true if hosts reduce by themselves, as Gloo's do: they wait for their copies.
    """
    if any(item.host is not None and item.in_collective for item in ranks):
        return ranks
    hosts = [item.host if item.host is not None and _waits(item) else item for item in ranks]
    return ranks if _is_of_hosts(ranks, hosts) else hosts


def _is_of_hosts(ranks: list[RankSituation], hosts: list[RankSituation]) -> bool:
    """Return whether all hosts wait in one collective in which no device takes part.

    In that case most devices have finished their work. A host that is blocked while it enqueues
    also has an idle device, while the others' devices wait for it. So more devices are idle than
    work, or the working ones are in another phase, before the collective.
    """
    calls = {(item.step, item.op, item.group) for item in hosts}
    if len(calls) > 1 or not all(item.in_collective for item in hosts):
        return False
    idle = sum(item.idle_device for item in hosts)
    work = [item for item in ranks if item.host is not None]
    lags = all(item.host is not None and item.phase != item.host.phase for item in work)
    return idle > len(work) or (idle > 0 and lags)


def _waits(item: RankSituation) -> bool:
    """Return whether the host waits in a collective in its device's step."""
    host = item.host
    return host is not None and (host.in_collective or host.waiting) and item.step >= host.step


def place_words(item: RankSituation) -> str:
    """Return a device's or host's position: `in backward of step 57, in all_reduce`."""
    inside = f", in {OP_NAMES[item.op % len(OP_NAMES)]}" if item.in_collective else ""
    waits = ", waiting for a pipeline neighbour" if item.waiting else ""
    return f"in {phase_name(item.phase)} of step {item.step}{inside}{waits}"


def _seconds(rows: Rows, name: str) -> Vector:
    """Return the age of a timestamp (rows,) at the agent's poll, in seconds, at least 0."""
    passed = rows["time_ns"].astype(np.int64) - rows[name].astype(np.int64)
    return np.asarray(np.maximum(passed, 0) / NANOSECONDS)
