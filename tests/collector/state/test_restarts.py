"""Steps that a later run did again, also if it counts from zero again."""

from __future__ import annotations

import numpy as np
import pytest

from stepwatch.collector.runtime.evaluation.verdicts import Verdicts, job_facts
from stepwatch.collector.slo.over_run.slis.outcomes.interruptions import lost_steps
from stepwatch.collector.state.attempt import Attempt
from stepwatch.collector.state.job import LiveJob
from stepwatch.collector.state.restarts import redone_of, restarts_of
from stepwatch.collector.state.tracker import Received
from stepwatch.collector.web.recorded.resumes_view import job_resumes
from stepwatch.signals.records import (
    CheckpointEvent,
    Kind,
    LifecycleEvent,
    Verification,
    make_rows,
    piece_texts,
)
from stepwatch.signals.wire import Rows
from tests.collector.made import (
    JOB,
    checkpoint_rows,
    lifecycle_rows,
    segment,
    state_rows,
    step_rows,
)

RANKS = range(2)


def path_of(step: int) -> str:
    return f"/runs/a/step-{step}.pt"


def loaded_rows(path: str) -> Rows:
    """The LIFECYCLE rows in which rank 0 reports a loaded path."""
    texts = piece_texts((path, ""))
    rows = lifecycle_rows(LifecycleEvent.LOADED_PATH, [0] * len(texts))
    rows["value"], rows["text"] = range(len(texts)), [text.encode() for text in texts]
    return rows


def saved_rows(step: int, path: str) -> Rows:
    """The VERIFICATION row of a save that verified."""
    columns = {"step": step, "state": Verification.VERIFIED, "path": path.encode()}
    return make_rows(Kind.VERIFICATION, 1, rank=0, **columns)


def run(
    steps: range,
    saves: tuple[int, ...] = (),
    loads: str = "",
    resumed: int | None = None,
    height: float = 0.0,
) -> Attempt:
    """An attempt that made steps, after it loaded a path or reported a resume."""
    attempt = Attempt(0)
    life = [lifecycle_rows(LifecycleEvent.START, RANKS, len(RANKS))]
    if loads:
        life.append(loaded_rows(loads))
    if resumed is not None:
        life.append(lifecycle_rows(LifecycleEvent.RESUME, RANKS, resumed))
    tables = {
        Kind.LIFECYCLE: np.concatenate(life),
        Kind.RANK_STATE: state_rows(RANKS, len(RANKS), 9.0),
    }
    if len(steps):
        tables[Kind.STEP] = step_rows(steps, RANKS)
        tables[Kind.STEP]["loss"] += height
    if saves:
        tables[Kind.VERIFICATION] = np.concatenate(
            [saved_rows(step, path_of(step)) for step in saves]
        )
    attempt.apply(segment(1, tables), Received(0.0, 0.0))
    return attempt


def redone(*runs: Attempt) -> list[int | None]:
    return redone_of(restarts_of(runs))


def certain(*runs: Attempt) -> list[bool]:
    return [restart.is_certain for restart in restarts_of(runs)]


def test_a_run_that_counts_on_redoes_the_steps_behind_its_first_one() -> None:
    runs = run(range(181), saves=(100, 160)), run(range(160, 200), resumed=160)
    assert redone(*runs) == [160, None] and certain(*runs) == [True, True]


@pytest.mark.parametrize("first", [0, 1])
def test_a_run_that_counts_from_zero_again_redoes_what_its_checkpoint_lacks(first: int) -> None:
    runs = run(range(181), saves=(100, 160)), run(range(first, 40), loads=path_of(160))
    assert redone(*runs) == [160, None] and certain(*runs) == [True, True]
    assert redone(runs[0], run(range(first, 40), loads=path_of(100))) == [100, None]


def test_a_file_in_a_saved_folder_is_that_save() -> None:
    inside, beside = f"{path_of(160)}/model.bin", f"{path_of(160)}-old"
    assert certain(run(range(181), saves=(160,)), run(range(9), loads=inside)) == [True, True]
    assert certain(run(range(181), saves=(160,)), run(range(9), loads=beside, height=1)) == [
        True,
        False,
    ]


def test_without_a_known_load_only_steps_after_the_newest_save_are_certainly_redone() -> None:
    runs = run(range(181), saves=(100, 160)), run(range(40), height=-1.6)
    assert redone(*runs) == [160, None] and certain(*runs) == [True, False]


def test_a_run_with_the_first_losses_of_the_earlier_one_began_anew() -> None:
    first = run(range(181), saves=(100, 160))
    assert redone(first, run(range(40))) == [0, None]
    assert certain(first, run(range(40))) == [True, True]
    for other in (run(range(2)), run(range(40), height=0.01), run(range(1, 40))):
        assert redone(first, other) == [160, None] and certain(first, other) == [True, False]
    assert redone(first, run(range(40), loads=path_of(160))) == [160, None]


def test_a_loss_that_never_moves_shows_no_beginning() -> None:
    runs = run(range(181), saves=(160,)), run(range(40))
    for attempt in runs:
        attempt.steps.history.rows["loss"] = 1.0
    assert certain(*runs) == [True, False]


def test_without_any_save_all_steps_are_done_again() -> None:
    runs = run(range(181)), run(range(40), loads="/models/pretrained.pt")
    assert redone(*runs) == [0, None] and certain(*runs) == [True, True]


def test_each_run_of_a_chain_counts_from_its_own_save() -> None:
    first, second = run(range(181), saves=(160,)), run(range(60), (50,), path_of(160))
    assert redone(first, second, run(range(9), loads=path_of(50))) == [160, 50, None]
    assert redone(first, second, run(range(50, 70), resumed=50)) == [160, 50, None]
    assert redone(first, second, run(range(9), loads=path_of(160))) == [160, 0, None]


def test_a_run_without_steps_redoes_none() -> None:
    first, second = run(range(181), saves=(160,)), run(range(0), loads=path_of(160))
    assert redone(first, second)[0] is None
    assert redone(first, second, run(range(20), loads=path_of(160)))[0] == 160


def job_of(*runs: dict[Kind, Rows]) -> LiveJob:
    """A job of attempts that its launcher counts."""
    job = LiveJob(JOB)
    for number, tables in enumerate(runs):
        job.apply(segment(1, tables, attempt=number), Received(0.0, 0.0))
    return job


def tables(steps: range, time_s: float, height: float = 0.0, **more: Rows) -> dict[Kind, Rows]:
    start = lifecycle_rows(LifecycleEvent.START, RANKS, len(RANKS), time_s)
    life = np.concatenate([start, *([more["loaded"]] if "loaded" in more else [])])
    made = {
        Kind.LIFECYCLE: life,
        Kind.STEP: step_rows(steps, RANKS, began=time_s),
        Kind.RANK_STATE: state_rows(RANKS, len(RANKS), time_s + 60.0),
    }
    made[Kind.STEP]["loss"] += height
    return made | ({Kind.VERIFICATION: more["saved"]} if "saved" in more else {})


def test_the_lost_steps_of_a_job_are_the_ones_behind_its_checkpoint() -> None:
    saved = saved_rows(160, path_of(160))
    job = job_of(
        tables(range(181), 0.0, saved=saved),
        tables(range(40), 90.0, loaded=loaded_rows(path_of(160))),
    )
    assert lost_steps(job_facts(job, Verdicts(), 200.0)).value == 21
    resume = job_resumes(job)[1]
    assert (resume["step"], resume["path"]) == (160, path_of(160))


def test_lost_steps_are_unknown_without_the_checkpoint() -> None:
    saved = saved_rows(160, path_of(160))
    job = job_of(tables(range(181), 0.0, saved=saved), tables(range(40), 90.0, height=-1.6))
    reading = lost_steps(job_facts(job, Verdicts(), 200.0))
    assert np.isnan(reading.value) and "not known" in reading.unknown
    assert job_resumes(job) == {}
    assert job.redone_unknown == {(0, 0)}


def test_a_save_that_only_a_rank_reported_counts_as_one() -> None:
    first = run(range(181))
    rows = checkpoint_rows(CheckpointEvent.WRITTEN, RANKS, 160)
    first.apply(segment(2, {Kind.CHECKPOINT: rows}), Received(0.0, 0.0))
    assert certain(first, run(range(40), height=-1.6)) == [True, False]
