"""Right, honestly unknown and wrong columns, on synthetic recordings."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from stepwatch.signals.arrays import Rows
from stepwatch.signals.records import Kind, Op, make_rows
from tests.trainers import comparison
from tests.trainers.comparison import RIGHT, UNKNOWN, WRONG
from tests.trainers.recording import Recording
from tests.trainers.truth import RankTruth, Truth

STEPS, SECOND = 4, 1_000_000_000


def truth(**changed: Any) -> Truth:
    """Two ranks of four steps of a second each, a fifth of it forward."""
    common: dict[str, Any] = {
        "losses": [[(2.0).hex(), (3.0).hex()]] * STEPS,
        "tokens": [10] * STEPS,
        "ended": [float(number) for number in range(STEPS)],
        "eval": [],
        "save": [],
        "forward_seconds": 0.2 * STEPS,
        "data_seconds": 0.1 * STEPS,
        "digest": "d",
        "ops": ["all_reduce"],
        "step_bytes": 100,
    }
    return {rank: RankTruth(rank=rank, **{**common, **changed}) for rank in range(2)}


def step_rows(rank: int, **columns: Any) -> Rows:
    """Return the rows of all steps; `columns` replace those of a good recording."""
    good: dict[str, Any] = {
        "rank": rank,
        "step": range(STEPS),
        "duration_ns": SECOND,
        "loss": 2.5,
        "tokens": 10,
    }
    seconds = {"forward": 0.2, "data": 0.1, "backward": 0.4, "optimizer": 0.1, "other": 0.2}
    good |= {f"{name}_ns": int(part * SECOND) for name, part in seconds.items()}
    return make_rows(Kind.STEP, STEPS, **{**good, **columns})


def make_recording(
    job: dict[str, Any] | None = None, nbytes: int = 100, **columns: Any
) -> Recording:
    """A record that is right about `truth()` but for `columns`."""
    rows: dict[int, dict[Kind, Rows]] = {}
    for rank in range(2):
        calls = make_rows(Kind.COLLECTIVE, STEPS, step=range(STEPS), op=Op.ALL_REDUCE, bytes=nbytes)
        rows[rank] = {Kind.STEP: step_rows(rank, **columns), Kind.COLLECTIVE: calls}
    summary: dict[str, Any] = {"state": "finished", "tokens_per_second": None, "checkpoints": []}
    return Recording(rows, {**summary, **(job or {})}, [])


COLUMNS = (
    comparison.steps,
    comparison.phases,
    comparison.evaluation,
    comparison.checkpoints,
    comparison.losses,
)


def test_a_right_record_is_right_in_every_column() -> None:
    for column in (*COLUMNS, comparison.tokens, comparison.collectives):
        assert column(truth(), make_recording()).word == RIGHT, column.__name__


def test_a_missing_a_doubled_and_an_invented_step_are_wrong() -> None:
    assert comparison.steps(truth(), make_recording(step=[0, 1, 2, 2])).word == WRONG
    assert (
        comparison.steps(truth(ended=[0.0] * 5), make_recording()).why
        == "rank 0: 4 of 5 steps recorded"
    )
    more = make_recording()
    more.rows[2] = more.rows[1]
    assert comparison.steps(truth(), more).why == "ranks [2] do not exist"
    assert comparison.steps(truth(), make_recording({"state": "failed"})).why == "the job is failed"


def test_time_that_lies_in_other_is_unknown_and_elsewhere_wrong() -> None:
    unseen: dict[str, Any] = {"forward_ns": 0, "backward_ns": SECOND // 10}
    assert comparison.phases(truth(), make_recording(**unseen, other_ns=SECOND)).word == UNKNOWN
    assert comparison.phases(truth(), make_recording(**unseen, other_ns=0)).word == WRONG
    assert comparison.phases(truth(), make_recording(optimizer_ns=[9, 0, 9, 0])).word == WRONG
    assert comparison.phases(truth(), make_recording(optimizer_ns=0)).word == UNKNOWN


def test_an_evaluation_that_never_was_is_as_wrong_as_one_booked_as_forward() -> None:
    assert comparison.evaluation(truth(), make_recording(eval_ns=SECOND)).word == WRONG
    evaluated = truth(eval=[(0.5, 4.0)])
    assert comparison.evaluation(evaluated, make_recording(eval_ns=SECOND)).word == RIGHT
    assert comparison.evaluation(evaluated, make_recording(other_ns=SECOND)).word == UNKNOWN
    assert (
        comparison.evaluation(evaluated, make_recording(other_ns=0, forward_ns=SECOND)).word
        == WRONG
    )


def test_what_follows_the_last_step_is_in_no_record() -> None:
    evaluated = truth(eval=[(0.5, 4.0), (STEPS, 9.0)])
    assert comparison.evaluation(evaluated, make_recording(eval_ns=SECOND)).word == RIGHT


def test_saves_are_right_where_each_is_listed() -> None:
    saved = truth(save=[(0.5, 2.0), (1.5, 2.0)])
    spent: dict[str, Any] = {"checkpoint_ns": SECOND}
    assert (
        comparison.checkpoints(saved, make_recording({"checkpoints": [{}, {}]}, **spent)).word
        == RIGHT
    )
    assert (
        comparison.checkpoints(saved, make_recording({"checkpoints": [{}]}, **spent)).word == WRONG
    )
    assert comparison.checkpoints(saved, make_recording(**spent)).word == UNKNOWN
    assert comparison.checkpoints(saved, make_recording(checkpoint_ns=0, other_ns=0)).word == WRONG


@pytest.mark.parametrize(
    ("loss", "word"), [(2.5, RIGHT), (3.0, RIGHT), (1.25, WRONG), (np.nan, UNKNOWN)]
)
def test_a_loss_is_the_mean_or_the_last_and_nothing_else(loss: float, word: str) -> None:
    assert comparison.losses(truth(), make_recording(loss=loss)).word == word


def test_no_loss_is_right_where_the_rank_has_none() -> None:
    assert comparison.losses(truth(losses=[[]] * STEPS), make_recording(loss=np.nan)).word == RIGHT


def test_unknown_tokens_must_not_be_shown_as_zero() -> None:
    assert comparison.tokens(truth(), make_recording(tokens=0)).word == UNKNOWN
    assert (
        comparison.tokens(truth(), make_recording({"tokens_per_second": 0.0}, tokens=0)).word
        == WRONG
    )
    assert comparison.tokens(truth(), make_recording(tokens=20)).why == "rank 0: 80 of 40 tokens"


def test_collectives_need_their_operation_and_their_bytes() -> None:
    assert comparison.collectives(truth(ops=["send"]), make_recording()).word == UNKNOWN
    assert comparison.collectives(truth(), make_recording(nbytes=10)).word == WRONG
    assert comparison.collectives(truth(ops=[]), make_recording()).word == RIGHT


def incident(**changed: Any) -> dict[str, Any]:
    return {"kind": "straggler", "rank": 1, "phase": "forward", "cause": "c", **changed}


def test_a_fault_is_right_where_one_incident_names_rank_and_phase() -> None:
    def word(*incidents: dict[str, Any]) -> str:
        return comparison.fault("slow-rank", 1, 2, list(incidents)).word

    assert word(incident()) == RIGHT
    assert word(incident(phase="other")) == UNKNOWN
    assert word(incident(rank=0)) == word(incident(phase="data")) == WRONG
    assert word() == word(incident(), incident(kind="hang")) == word(incident(kind="hang")) == WRONG
    stall = incident(kind="data-stall", phase="data", rank=-1)
    assert comparison.fault("slow-loader", 0, 1, [stall]).word == RIGHT
    assert comparison.fault("slow-loader", 1, 2, [stall]).word == WRONG


def test_any_incident_of_a_healthy_run_is_wrong() -> None:
    assert comparison.quiet([], 120.0).word == RIGHT
    assert comparison.quiet([], 112.0) == (UNKNOWN, "only 112 s")
    assert comparison.quiet([incident()], 112.0) == (WRONG, "straggler 1 forward c")
