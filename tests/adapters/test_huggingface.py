"""The real transformers.Trainer: watched from outside, and by its callback."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from stepwatch.signals.records import Kind, Op

from .conftest import RUN, Launch, losses, metric_values, tables_in, torchrun, verdicts

pytest.importorskip("transformers", reason="transformers is not installed: make test-adapters")
pytest.importorskip("accelerate", reason="accelerate is not installed: make test-adapters")
pytestmark = [
    pytest.mark.usefixtures("rings"),
    pytest.mark.long(
        "tests/adapters/test_observer.py::test_the_usual_loop",
        "tests/adapters/test_observer.py::test_an_evaluation_is_not_the_next_steps_forward",
    ),
]

RANKS, STEPS, SLOW_RANK = 2, 28, 1


def test_an_unmodified_script_names_its_slow_rank(
    tmp_path: Path, rings: Path, launch: Launch
) -> None:
    plain, watched, adapted = (tmp_path / name for name in ("plain", "watched", "adapted"))
    for folder, prefix, words in (
        (plain, [], []),
        (watched, RUN, []),
        (adapted, [], ["callback"]),
    ):
        folder.mkdir()
        script = torchrun(RANKS, "hf.py", str(folder), *words)
        ended = launch(*prefix, *script, SLOW_RANK=str(SLOW_RANK))
        assert ended.returncode == 0, ended.stderr[-3000:]
    assert losses(watched, RANKS) == losses(plain, RANKS) == losses(adapted, RANKS)

    for job in ("hf", "adapted"):
        tables = tables_in(rings / job)
        assert sorted(tables) == list(range(RANKS))
        for rank in tables:
            steps, calls = tables[rank][Kind.STEP], tables[rank][Kind.COLLECTIVE]
            assert steps["step"].tolist() == list(range(STEPS))
            for name in ("data_ns", "forward_ns", "backward_ns", "optimizer_ns"):
                # The first batch after an evaluation still counts as evaluation.
                assert (steps[name][1:] > 0).sum() >= STEPS - 2, name
            assert int(steps["checkpoint_ns"].sum()) > 0
            assert set(calls[calls["op"] == Op.ALL_REDUCE]["step"].tolist()) == set(range(STEPS))
        (finding,) = verdicts(tables)
        assert (finding.rank, finding.phase) == (SLOW_RANK, "forward"), job
        assert any(steps["eval_ns"] > 0), job
    recorded = tables_in(rings / "adapted")[0][Kind.STEP]
    logged = [float.fromhex(loss) for loss in losses(adapted, 1)[0]]
    by_rank = [tables_in(rings / "hf")[rank][Kind.STEP]["loss"] for rank in range(RANKS)]
    assert np.mean(by_rank, axis=0).tolist() == pytest.approx(logged, rel=1e-4)
    assert recorded["loss"].tolist() == pytest.approx(logged, rel=1e-6)
    assert (recorded["grad_norm"] > 0).all()
    assert recorded["tokens"].tolist() == [32] * STEPS
    values = metric_values(tables_in(rings / "adapted")[0])
    rates = [rate for _, rate in values["lr"]]
    assert len(rates) == STEPS and rates == sorted(rates, reverse=True), "the schedule falls"
    assert [step for step, _ in values["epoch"]] == list(range(STEPS))
    assert [step for step, _ in values["eval:loss"]] == [STEPS // 2 - 1, STEPS - 1]
    assert not any(name.endswith("runtime") for name in values)
