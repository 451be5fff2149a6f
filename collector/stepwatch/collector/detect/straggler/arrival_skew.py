"""Arrival skew: how long a slow rank made the other members of its collectives wait.

The last rank to arrive waits least, so no two clocks are compared.
"""

from __future__ import annotations

import numpy as np

from stepwatch.collector.detect.finding import Evidence, Finding
from stepwatch.collector.state.collective_timing import Waits, caused
from stepwatch.signals.records import OP_NAMES


def with_arrival_skew(finding: Finding, waits: Waits) -> Finding:
    """Add to `finding` how long its rank made another one wait in a collective since it began.

    It is the mean over the waiting ranks: for thousands of ranks the sum is hours within a step.
    The finding stays as it is if its rank caused no wait, or if this is unknown.
    """
    heads, (ranks, seconds) = waits.rows[waits.first], caused(waits)
    is_attributed = (ranks >= 0) & (heads["step"] >= finding.began_step)
    is_caused = is_attributed & (ranks == finding.rank) & (seconds > 0)
    if not is_caused.any():
        return finding
    by_op = np.bincount(heads["op"][is_caused], weights=seconds[is_caused])
    op = int(np.argmax(by_op))
    is_comparable = (
        is_attributed & (heads["op"] == op) & np.isin(heads["group"], heads["group"][is_caused])
    )
    steps = len(np.unique(heads["step"][is_comparable]))
    waiting = np.maximum(np.diff(np.append(waits.first, len(waits.rows))) - 1, 1)
    mean_waits = np.bincount(heads["op"][is_caused], weights=(seconds / waiting)[is_caused])
    ratio = by_op[op] / seconds[is_comparable].sum()
    row = Evidence(
        f"made others wait in {OP_NAMES[op]} per step",
        float(mean_waits[op]) / steps,
        "seconds",
        f"{ratio:.0%} of all arrival skew in its groups; mean of the ranks that waited",
    )
    return finding._replace(evidence=(*finding.evidence, row))
