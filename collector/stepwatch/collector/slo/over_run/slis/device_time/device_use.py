"""Device utilisation by the driver, and tensor-core activity."""

from __future__ import annotations

from stepwatch.collector.slo.over_run.sli import JobFacts, Reading, RunSli, unknown
from stepwatch.collector.state.trackers.devices.hardware_use import HardwareUse
from stepwatch.signals.records import MEASURED, Activity

_WORDS = {
    Activity.GPM: "GPM",
    Activity.DCGM: "DCGM",
    Activity.NOT_SUPPORTED: "no GPM (Hopper or later): pass --dcgm to the agent",
    Activity.DIVIDED: "divided (MIG)",
    Activity.REFUSED: "their driver gave no sample",
}


def device_busy(facts: JobFacts) -> Reading:
    """Measure the mean share of time with a running kernel, over devices and readings."""
    use = facts.job.current.tracker(HardwareUse)
    busy = use.busy_ratio
    if not len(busy):
        if not use.devices:
            return unknown("no agent reads a device: no GPU, or no driver")
        why = f"; {use.divided} are divided (MIG)" if use.divided else ""
        return unknown(f"of {use.devices} devices none reports its use{why}")
    tensor = use.tensor_ratio
    tensor_words = f"{float(tensor.mean()):.0%}" if len(tensor) else "unknown"
    detail = f"least busy {float(busy.min()):.0%}; tensor cores {tensor_words}"
    return Reading(float(busy.mean()), len(busy), detail=detail)


def tensor_activity(facts: JobFacts) -> Reading:
    """Measure the mean share of time with active tensor cores, over devices and readings."""
    use = facts.job.current.tracker(HardwareUse)
    tensor = use.tensor_ratio
    if len(tensor):
        sources = [
            f"{_WORDS[activity]} on {use.activity[activity]}"
            for activity in MEASURED
            if use.activity[activity]
        ]
        detail = f"by {', '.join(sources)}, of {use.devices} devices"
        return Reading(float(tensor.mean()), len(tensor), detail=detail)
    if not use.devices:
        return unknown("no agent reads a device: no GPU, or no driver")
    why = [
        f"{count}: {_WORDS[activity]}"
        for activity, count in use.activity.items()
        if activity in _WORDS
    ]
    return unknown(f"of {use.devices} devices none reports it{'; '.join(['', *why])}")


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
        formula="mean of GPM's or DCGM's tensor activity over devices and readings, newest attempt",
        unit="ratio",
        weight="device-time",
        expected="per model",
        trap="only some devices report it",
        needs="device readings of the agent with GPM (Hopper or later), or a dcgm-exporter",
        measure=tensor_activity,
    ),
)
