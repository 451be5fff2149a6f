"""Loops of real frameworks, and one in Megatron-LM's style, with and without their adapters."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from stepwatch.signals.records import Kind, Op

from .conftest import RUN, Launch, losses, metric_values, tables_in, torchrun, verdicts

pytestmark = [
    pytest.mark.usefixtures("rings"),
    pytest.mark.long(
        "tests/adapters/test_observer.py::test_the_usual_loop",
        "tests/adapters/test_megatron.py::test_what_an_iterator_has_besides_its_batches_is_still_there",
    ),
]

RANKS, BATCHES, SLOW_RANK = 2, 48, 1


LOOPS = [("accelerate", 2), ("lightning", 1), ("deepspeed", 2), ("megatron", 2)]


@pytest.mark.parametrize(("framework", "per_step"), LOOPS)
def test_the_slow_rank_is_named_and_nothing_is_changed(
    tmp_path: Path, rings: Path, launch: Launch, framework: str, per_step: int
) -> None:
    if framework != "megatron":  # a style of loop here, not a package
        pytest.importorskip(framework, reason=f"{framework} is not installed: make test-adapters")
    plain, adapted, watched = (tmp_path / name for name in ("plain", "adapted", "watched"))
    for folder, prefix, words in (
        (plain, [], []),
        (adapted, [], ["adapter"]),
        (watched, [*RUN, "--job", "unasked", "--"], []),
    ):
        folder.mkdir()
        script = torchrun(RANKS, "loop.py", framework, str(folder), *words)
        ended = launch(*prefix, *script, SLOW_RANK=str(SLOW_RANK))
        assert ended.returncode == 0, ended.stderr[-3000:]
    assert losses(adapted, RANKS) == losses(plain, RANKS) == losses(watched, RANKS)
    assert len(losses(plain, 1)[0]) == BATCHES

    for job in ("adapted", "unasked"):
        tables = tables_in(rings / job)
        assert sorted(tables) == list(range(RANKS))
        for rank in tables:
            steps, calls = tables[rank][Kind.STEP], tables[rank][Kind.COLLECTIVE]
            assert steps["step"].tolist() == list(range(BATCHES // per_step))
            assert steps["microbatches"].tolist() == [per_step] * (BATCHES // per_step)
            assert (steps["forward_ns"][1:] > 0).all() and (steps["optimizer_ns"] > 0).all()
            reduced = calls[calls["op"] == Op.ALL_REDUCE]
            assert set(reduced["step"].tolist()) == set(range(BATCHES // per_step))
        (finding,) = verdicts(tables)
        assert (finding.rank, finding.phase) == (SLOW_RANK, "forward"), job
    for job in ("adapted", "unasked"):
        rates = metric_values(tables_in(rings / job)[0])["lr"]
        assert rates == [(0, 0.1)], f"{job}: DeepSpeed's monitor has the next step's rate"
    recorded = tables_in(rings / "adapted")[0][Kind.STEP]["loss"]
    unasked = tables_in(rings / "unasked")[0][Kind.STEP]["loss"]
    if framework in ("accelerate", "lightning"):
        assert unasked.tolist() == recorded.tolist(), "these frameworks show the loss by themselves"
    else:
        assert np.isnan(unasked).all()
    values = metric_values(tables_in(rings / "adapted")[0])
    if framework in ("accelerate", "lightning"):
        assert [step for step, _ in values["train_loss"]] == [*range(len(recorded))]
        assert [loss for _, loss in values["train_loss"]] == pytest.approx(recorded.tolist())
    if framework == "lightning":
        half = BATCHES // 2
        assert values["seldom"] == [(3, 3.0), (half + 3, 3.0)]
        assert [step for step, _ in values["validation:val_loss"]] == [half - 1, BATCHES - 1]
    logged = [float.fromhex(loss) for loss in losses(adapted, 1)[0]]
    assert recorded.tolist() == pytest.approx(logged[per_step - 1 :: per_step], rel=1e-6)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="torchtitan trains on a CUDA device only")
def test_torchtitan_is_followed_step_by_step(tmp_path: Path, rings: Path, launch: Launch) -> None:
    pytest.importorskip("torchtitan", reason="torchtitan is not installed")
    ended = launch(*torchrun(1, "titan.py", str(tmp_path)))
    assert ended.returncode == 0, ended.stderr[-3000:]
    steps = tables_in(rings / "adapted")[0][Kind.STEP]
    assert steps["step"].tolist() == list(range(1, 11))
    assert (steps["tokens"] > 0).all() and (steps["backward_ns"] > 0).all()
