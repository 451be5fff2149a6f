"""The evidence of a step: what was recorded in it and before, by rank where ranks differ."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from stepwatch.collector.detect.context import DetectionContext
from stepwatch.collector.detect.finding import Evidence
from stepwatch.collector.detect.recorded_numbers import recorded_numbers
from stepwatch.collector.state.job import LiveJob
from stepwatch.collector.state.tracker import Received
from stepwatch.signals.records import Fact, Kind, LifecycleEvent
from stepwatch.signals.wire import Rows
from tests.collector.made import JOB, fact_rows, lifecycle_rows, segment, state_rows, step_rows
from tests.collector.state.trackers.metrics.test_metrics import metric_rows, name_rows

WORLD, STEPS, STEP = 4, 80, 72


def evidence_of(
    change: Callable[[Rows], None] = lambda rows: None,
    resumed: int | None = None,
    **metrics: Callable[[int, int], float],
) -> dict[str, Evidence]:
    """The evidence by name on a run whose metrics have these values by step and rank."""
    steps, ranks = range(STEPS), range(WORLD)
    rows = step_rows(steps, ranks)
    change(rows)
    tables = {Kind.STEP: rows, Kind.RANK_STATE: state_rows(ranks, WORLD, 16.0)}
    tables[Kind.LIFECYCLE] = fact_rows(Fact("config.data.seed", "17"))
    if resumed is not None:
        life = lifecycle_rows(LifecycleEvent.RESUME, ranks, resumed)
        tables[Kind.LIFECYCLE] = np.concatenate([tables[Kind.LIFECYCLE], life])
    names = dict(enumerate(metrics, 1))
    if names:
        tables[Kind.METRIC_NAME] = name_rows(names)
        tables[Kind.METRIC] = np.concatenate([
            metric_rows(step, [metrics[name](step, rank) for rank in ranks], number)
            for step in steps
            for number, name in names.items()
        ])  # fmt: skip
    job = LiveJob(JOB)
    job.apply(segment(1, tables), Received(0.0, 0.0))
    return {row.name: row for row in recorded_numbers(DetectionContext(job, 0.0), STEP)}


def test_a_trainer_that_records_no_metric_has_norm_tokens_and_seed() -> None:
    evidence = evidence_of()
    assert evidence.keys() == {"gradient norm", "tokens of the batch", "seed"}
    assert (evidence["seed"].text, evidence["seed"].against) == ("17", "config.data.seed")
    assert evidence["gradient norm"][1:4] == (1.0, "", "median of the steps before 1")


def test_a_resume_shortly_before_is_evidence() -> None:
    assert evidence_of(resumed=STEP)["resume"].text == f"from step {STEP}"
    assert "resume" not in evidence_of(resumed=STEP - 40)
    assert "resume" not in evidence_of(resumed=STEP + 1)


def test_a_gradient_norm_that_grew_stands_beside_the_median_before() -> None:
    def grow(rows: Rows) -> None:
        rows["grad_norm"][rows["step"] >= STEP] = 40.0

    assert evidence_of(grow)["gradient norm"][1:4] == (40.0, "", "median of the steps before 1")


def test_a_batch_that_is_shorter_on_one_rank_names_it() -> None:
    def shorten(rows: Rows) -> None:
        rows["tokens"][(rows["step"] == STEP) & (rows["rank"] == 3)] = 10

    evidence = evidence_of(shorten)
    assert evidence["tokens of the batch"].value == 310
    assert evidence["tokens of rank 3"][1:4] == (10, "tokens", "median of the steps before 100")
    assert "tokens of rank 2" not in evidence


def test_positions_and_scales_have_the_step_of_their_change() -> None:
    evidence = evidence_of(
        loss_scale=lambda step, rank: 1024.0 if step < 70 else 512.0,
        epoch=lambda step, rank: 0.0,
        shard=lambda step, rank: float(rank + 4 * (step >= 60 and rank == 2)),
        sample=lambda step, rank: 100.0 * step + rank,
    )
    assert evidence["loss scale"][1:4] == (512.0, "", "since step 70, before it 1024")
    assert evidence["epoch"][1:4] == (0.0, "", "unchanged")
    changed = "since step 60, before it 2; the other ranks 0 to 3"
    assert evidence["data shard of rank 2"][1:4] == (6.0, "", changed)
    assert evidence["data sample"].text == "7200 to 7203"


def test_shards_that_differ_and_stay_are_a_range() -> None:
    evidence = evidence_of(shard=lambda step, rank: float(rank))
    assert (evidence["data shard"].text, evidence["data shard"].against) == (
        "0 to 3",
        "ranks 0-3, unchanged for 32 steps",
    )
