"""Inputs for the detector of replica drift."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from stepwatch.collector.detect.context import DetectionContext
from stepwatch.collector.detect.finding import Finding
from stepwatch.collector.state.trackers.communication.collective_records import CollectiveRecords
from stepwatch.collector.state.trackers.numerics import Numerics
from stepwatch.collector.state.trackers.replicas import Skip
from stepwatch.signals.records import Op

from . import detector


def find(context: DetectionContext) -> list[Finding]:
    """Return findings on replicas that train apart.

    NaN explains any difference from the first step with non-finite values.
    """
    attempt = context.attempt
    numerics, records = attempt.tracker(Numerics), attempt.collective_records
    numerics.compare(records.groups)
    apart, skips = numerics.replicas.apart.values(), numerics.replicas.skips.values()
    if not apart and not skips:
        return []
    first_bad = int(numerics.bad["step"].min()) if len(numerics.bad) else np.inf
    findings = detector.detect(
        [item for item in apart if item.first_step < first_bad],
        [skip for skip in skips if skip.first_step < first_bad],
        _skipped_steps(skips, records),
    )
    return [context.dated(finding) for finding in findings]


def _skipped_steps(skips: Iterable[Skip], records: CollectiveRecords) -> dict[tuple[int, int], int]:
    """Return the first step in which a rank was missing from its group's all-reduces.

    All ranks of a group reduce in steps 9, 10, 11 and rank 1 has no row in step 10: 10.
    """
    steps: dict[tuple[int, int], int] = {}
    for skip in skips:
        rows = records.of_steps(skip.agreed_step + 1, skip.first_step)
        rows = rows[(rows["group"] == skip.group) & (rows["op"] == int(Op.ALL_REDUCE))]
        own = rows["rank"] == skip.rank
        missing = np.setdiff1d(rows["step"][~own], rows["step"][own])
        if own.any() and len(missing):
            steps[skip.group, skip.rank] = int(missing[0])
    return steps
