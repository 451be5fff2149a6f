"""Arrival skew: how long a slow rank made the other members of its collectives wait.

The last rank to arrive waits least, so no two clocks are compared.
"""

from __future__ import annotations

import numpy as np

from stepwatch.collector.detect.finding import Evidence, Finding
from stepwatch.collector.state.collective_timing import Waits, caused
from stepwatch.signals.records import OP_NAMES


def with_arrival_skew(finding: Finding, found: Waits) -> Finding:
    """Add to `finding` how long its rank made another one wait in a collective since it began.

    It is the mean of the ranks that waited: of thousands the sum is hours within a step.
    The finding stays as it is where its rank did not, or where that is unknown.
    """
    heads, (ranks, seconds) = found.rows[found.first], caused(found)
    known = (ranks >= 0) & (heads["step"] >= finding.began_step)
    mine = known & (ranks == finding.rank) & (seconds > 0)
    if not mine.any():
        return finding
    by_op = np.bincount(heads["op"][mine], weights=seconds[mine])
    op = int(np.argmax(by_op))
    same = known & (heads["op"] == op) & np.isin(heads["group"], heads["group"][mine])
    steps = len(np.unique(heads["step"][same]))
    waiting = np.maximum(np.diff(np.append(found.first, len(found.rows))) - 1, 1)
    each = np.bincount(heads["op"][mine], weights=(seconds / waiting)[mine])
    ratio = by_op[op] / seconds[same].sum()
    row = Evidence(
        f"made others wait in {OP_NAMES[op]} per step",
        float(each[op]) / steps,
        "seconds",
        f"{ratio:.0%} of all arrival skew in its groups; mean of the ranks that waited",
    )
    return finding._replace(evidence=(*finding.evidence, row))
