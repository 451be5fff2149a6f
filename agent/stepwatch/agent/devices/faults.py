"""Faults visible in a device's values, independent from the source that read them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator

from stepwatch.agent.facts.growth import Growth
from stepwatch.agent.facts.sighting import Sighting
from stepwatch.signals.records import NodeFact, Throttle, Values

from .limits import MOST

_REASONS = {
    Throttle.POWER_CAP: "power cap",
    Throttle.HARDWARE_SLOWDOWN: "hardware slowdown",
    Throttle.THERMAL: "thermal",
    Throttle.HARDWARE_THERMAL: "thermal (hardware)",
    Throttle.HARDWARE_POWER_BRAKE: "power brake",
}
"""Throttle reasons that slow a job down; other reasons are an operator's choice or idleness."""
_BETTER_EXPLAINED = Throttle.HARDWARE_THERMAL | Throttle.HARDWARE_POWER_BRAKE


class ValueFaults:
    """Evaluate successive DEVICE rows: some faults are a change from one row to the next."""

    def __init__(self) -> None:
        self._slow: Counter[str] = Counter()
        self._uncorrected: dict[str, float] = {}
        self._growth = Growth()

    def find(
        self, name: str, row: Values, now: float, ceiling: float | None = None
    ) -> Iterator[Sighting]:
        """Yield the faults in device `name`'s row; `now` is in seconds.

        `ceiling` is the configured clock in hertz, if it is below the device's maximum.
        """
        yield from self._clocks(name, row, ceiling or float(row["clock_limit_hertz"]))
        yield from self._memory(name, float(row["ecc_uncorrected"]))
        replays = float(row["pcie_replays"])
        if math.isfinite(replays):
            counters = {"pcie_replays_a_minute": int(replays)}
            most = {"pcie_replays_a_minute": MOST["pcie_replays_a_minute"]}
            if self._growth.measure(name, counters, now).beyond(most):
                text = f"{int(replays)} since its driver was loaded"
                yield Sighting(NodeFact.PCIE_REPLAYS, name, text)

    def _clocks(self, name: str, row: Values, ceiling: float) -> Iterator[Sighting]:
        reasons = Throttle(max(0, int(row["throttle"])))
        clock = float(row["clock_hertz"])
        causes = [words for reason, words in _REASONS.items() if reason & reasons]
        text = f"{clock_drop(clock, ceiling)}: {', '.join(causes)}"
        if causes and clock < ceiling * (1.0 - MOST["clock_drop_ratio"]):
            yield Sighting(NodeFact.DEVICE_THROTTLED, name, text)
        if reasons & Throttle.HARDWARE_POWER_BRAKE:
            yield Sighting(NodeFact.POWER_BRAKE, name, text)
        slow = bool(reasons & Throttle.HARDWARE_SLOWDOWN) and not reasons & _BETTER_EXPLAINED
        self._slow[name] = self._slow[name] + 1 if slow else 0
        if self._slow[name] > MOST["hardware_slowdown_reads"]:
            yield Sighting(NodeFact.HARDWARE_SLOWDOWN, name, text)

    def _memory(self, name: str, uncorrected: float) -> Iterator[Sighting]:
        if not math.isfinite(uncorrected):
            return
        grown = uncorrected - self._uncorrected.get(name, uncorrected)
        self._uncorrected[name] = uncorrected
        if grown > 0:
            text = f"{int(uncorrected)} since its driver was loaded"
            yield Sighting(NodeFact.ECC_UNCORRECTED, name, text, happened=int(grown))


def clock_drop(clock: float, ceiling: float) -> str:
    """Describe a clock drop in words; both arguments are in hertz, NaN if unknown."""
    if not math.isfinite(clock):
        return "to an unknown clock"
    if not math.isfinite(ceiling):
        return f"to {clock / 1e6:.0f} MHz"
    return f"from {ceiling / 1e6:.0f} to {clock / 1e6:.0f} MHz"
