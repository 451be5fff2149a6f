"""Link utilisation of nodes."""

from __future__ import annotations

from stepwatch.collector.quantities import size
from stepwatch.collector.slo.over_run.sli import JobFacts, Reading, RunSli, unknown
from stepwatch.collector.state.trackers.devices.hardware_use import HardwareUse


def network_use(facts: JobFacts) -> Reading:
    """Measure the mean utilisation of the busiest interface with a known link speed."""
    traffic = facts.job.current.tracker(HardwareUse).traffic()
    if not traffic:
        return unknown("no agent has read an interface twice")
    most = max(traffic, key=lambda link: link.bytes_per_second)
    rated = [link for link in traffic if link.link_bytes_per_second > 0]
    words = f"{size(most.bytes_per_second)}/s on {most.interface} of {most.node}"
    if not rated:
        return unknown(f"no interface reports its link's speed; the busiest: {words}")
    share = max(link.bytes_per_second / link.link_bytes_per_second for link in rated)
    return Reading(share, len(traffic), detail=f"busiest: {words}")


SLIS = (
    RunSli(
        name="network-use",
        mission="M8",
        what="bytes of the busiest interface, in its busier direction, over its link's speed",
        formula="mean bytes/s / link bytes/s, newest attempt",
        unit="ratio",
        weight="time",
        expected="within the hardware",
        trap="bursts: a mean of 0.2 may be five times 1",
        needs="interface readings of the agent; InfiniBand is not read yet",
        measure=network_use,
    ),
)
