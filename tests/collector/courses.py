"""Parts of courses of evidence that tests make by hand."""

from __future__ import annotations

import numpy as np

from stepwatch.collector.state.evidence.step_window import WORK
from stepwatch.signals.arrays import IntegerMatrix, Matrix, Vector


def not_held_up(buckets: int) -> tuple[Matrix, Vector, IntegerMatrix]:
    """`alone`, `together` and `times` of a course in which nothing holds the job up."""
    return (
        np.zeros((buckets, len(WORK))),
        np.zeros(buckets),
        np.zeros((buckets, 2), dtype=np.int64),
    )
