"""Evaluations and saves of real trainers, as the ring shows them while they last."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stepwatch.signals.records import CheckpointEvent, Kind

from .conftest import RUN, Launch, tables_in, torchrun

pytestmark = [
    pytest.mark.usefixtures("rings"),
    pytest.mark.long(
        "tests/adapters/test_observer.py::test_an_evaluation_is_not_the_next_steps_forward",
        "tests/hooks/pauses/test_evaluation.py::test_a_loader_read_without_gradients_is_an_evaluation",
        "tests/hooks/pauses/test_saves.py::test_a_save_is_shown_while_it_lasts_and_recorded",
    ),
]

RANKS, ACCUMULATED, TOKENS_PER_STEP = 2, 2, 64
HOWS = ("adapter", "run")


WAYS = [
    ("plain", "run"),
    *((name, how) for name in ("transformers", "lightning", "accelerate") for how in HOWS),
]


@pytest.mark.parametrize(("trainer", "how"), WAYS)
def test_pauses_are_shown_while_they_last(
    tmp_path: Path, rings: Path, launch: Launch, trainer: str, how: str
) -> None:
    if trainer != "plain":  # a style of loop here, not a package
        pytest.importorskip(trainer, reason=f"{trainer} is not installed: make test-adapters")
    adapted = how == "adapter"
    script = torchrun(RANKS, "interrupted.py", trainer, str(tmp_path), *["adapter"] * adapted)
    ended = launch(*([] if adapted else [*RUN, "--job", "adapted", "--"]), *script)
    assert ended.returncode == 0, ended.stderr[-3000:]

    ranks = tables_in(rings / "adapted")
    assert sorted(ranks) == list(range(RANKS))
    for rank, tables in ranks.items():
        report = json.loads((tmp_path / f"{rank}.json").read_text())
        pauses = rank == 0 or trainer != "plain"
        assert report["seen"].get("evaluation", []) == ["eval"] * pauses
        # The framework decides which ranks write; the first one always does.
        assert report["seen"].get("save", ["checkpoint"] * (rank > 0)) == ["checkpoint"]
        steps = tables[Kind.STEP]
        assert len(steps) == len(report["losses"]) // ACCUMULATED
        assert (steps["eval_ns"] > 0).any() == pauses
        if adapted:
            last = report["losses"][ACCUMULATED - 1 :: ACCUMULATED]
            if trainer != "transformers":  # which logs means
                assert steps["loss"].tolist() == pytest.approx(last, rel=1e-5)
            assert steps["tokens"].tolist() == [TOKENS_PER_STEP] * len(steps)
    saves = ranks[0][Kind.CHECKPOINT]
    assert set(saves["event"].tolist()) == {int(CheckpointEvent.BEGIN)}
    assert (saves["stall_ns"] > 0).sum() >= 2
