"""Time that ranks are blocked in collectives over a window, by operation and cause."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stepwatch.collector.state.collective_timing import Waits
from stepwatch.signals.records import OP_NAMES


class Blocked(NamedTuple):
    """Seconds per step, mean over all ranks; the three parts add up to the blocked time.

    `unknown` is time that cannot be divided, for example because a member did not report.
    """

    transfer: float
    arrival_skew: float
    unknown: float


def blocked_by_operation(waits: Waits, cells: int) -> dict[str, Blocked]:
    """Return the blocked time by operation name.

    Args:
        waits: the collectives in a window.
        cells: steps times ranks in the window; a rank without a call was not blocked.

    Example: in one step, rank 0 was blocked for 3 s and rank 1 for 1 s. The transfer took 1 s, and
    rank 0 waited 2 s for rank 1. Over two cells: transfer 1, arrival skew 1.
    """
    if not cells or not len(waits.rows):
        return {}
    ops, exposed = waits.rows["op"], waits.rows["exposed"].astype(np.float64)
    apart = ~np.isnan(waits.transfer)
    return {
        OP_NAMES[op]: Blocked(
            float(waits.transfer[apart & (ops == op)].sum()) / cells,
            float(waits.wait[apart & (ops == op)].sum()) / cells,
            float(exposed[~apart & (ops == op)].sum()) / cells,
        )
        for op in np.unique(ops).tolist()
        if op < len(OP_NAMES)
    }
