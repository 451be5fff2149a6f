"""Uneven pipeline stages that nobody named: their ranks are not compared with each other."""

from __future__ import annotations

import numpy as np

from stepwatch.collector.detect import straggler
from stepwatch.collector.detect.context import DetectionContext
from stepwatch.collector.state.job import LiveJob
from stepwatch.collector.state.tracker import Received
from stepwatch.signals.records import Kind, Op
from tests.collector.gathered import call_rows, group_rows
from tests.collector.made import JOB, run_segments

STEPS, WORLD = 40, 4
HEAVY = {(2, "forward"): 0.1, (3, "forward"): 0.1}
"""Ranks 2 and 3, the second stage, have more layers."""


def uneven(*, exchanging: bool, slow: int | None = None) -> DetectionContext:
    """A run of two stages whose ranks say that they are stage 0, as all do that name none."""
    job = LiveJob(JOB)
    excess = HEAVY if slow is None else {**HEAVY, (slow, "forward"): 0.3}
    pairs = np.concatenate([group_rows(8, [0, 2]), group_rows(9, [1, 3])])
    for item in run_segments(STEPS, WORLD, excess=excess):
        item.tables[Kind.RANK_STATE]["stage"] = 0
        steps = np.unique(item.tables[Kind.STEP]["step"]).tolist()
        sent = [
            call_rows(steps, dict.fromkeys(ranks, 0.0), group=pair, op=Op.SEND)
            for pair, ranks in ((8, (0, 2)), (9, (1, 3)))
        ]
        more = {Kind.GROUP: pairs, Kind.COLLECTIVE: np.concatenate(sent)} if exchanging else {}
        job.apply(item._replace(tables={**item.tables, **more}), Received(0.0, 100.0))
    return DetectionContext(job, 100.0)


def test_a_stage_with_more_layers_is_no_straggler() -> None:
    assert len(straggler.find(uneven(exchanging=False))) > 0, "as peers they are"
    assert straggler.find(uneven(exchanging=True)) == []


def test_a_rank_slower_than_the_other_of_its_stage_still_is() -> None:
    (finding,) = straggler.find(uneven(exchanging=True, slow=3))
    assert (finding.rank, finding.phase) == (3, "forward")
