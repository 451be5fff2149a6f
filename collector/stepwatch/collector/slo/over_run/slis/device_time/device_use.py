"""How busy devices are, as their driver says, and their tensor cores beside it."""

from __future__ import annotations

from stepwatch.collector.slo.over_run.sli import JobFacts, Reading, RunSli, unknown
from stepwatch.collector.state.trackers.hardware_use import HardwareUse


def device_busy(facts: JobFacts) -> Reading:
    """The mean share of time in which a kernel ran, over devices and readings."""
    use = facts.job.current.tracker(HardwareUse)
    busy = use.busy_ratio
    if not len(busy):
        seen = f"of {use.devices} devices none says how busy it is"
        return unknown(seen if use.devices else "no agent reads a device: no GPU, or no driver")
    return Reading(float(busy.mean()), len(busy), detail=f"least busy {float(busy.min()):.0%}")


def tensor_activity(facts: JobFacts) -> Reading:
    """The share of time in which tensor cores worked."""
    return unknown("no agent reads tensor activity (GPM or DCGM) yet")


SLIS = (
    RunSli(
        name="device-busy",
        mission="M4",
        what="time in which a kernel ran on the device",
        formula="mean of the driver's utilisation over devices and readings, newest attempt",
        unit="ratio",
        weight="device-time",
        expected="above 0.8",
        trap="100 % while waiting in a collective: look at tensor activity beside it",
        needs="device readings of the agent",
        measure=device_busy,
    ),
    RunSli(
        name="tensor-activity",
        mission="M4",
        what="time in which tensor cores worked",
        formula="mean over devices and readings",
        unit="ratio",
        weight="device-time",
        expected="per model",
        trap="only some devices report it",
        needs="GPM or DCGM: no record carries it yet",
        measure=tensor_activity,
    ),
)
