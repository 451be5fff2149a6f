"""Evaluations and saves of the real frameworks, as the ring shows them while they last."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stepwatch.signals.records import CheckpointEvent, Kind

from .conftest import RUN, Launch, tables_in, torchrun

pytestmark = pytest.mark.usefixtures("rings")

RANKS, ACCUMULATED, TOKENS_PER_STEP = 2, 2, 64


@pytest.mark.parametrize("how", ["adapter", "run"])
@pytest.mark.parametrize("framework", ["transformers", "lightning", "accelerate"])
def test_pauses_are_shown_while_they_last(
    tmp_path: Path, rings: Path, launch: Launch, framework: str, how: str
) -> None:
    pytest.importorskip(framework, reason=f"{framework} is not installed: make test-adapters")
    adapted = how == "adapter"
    script = torchrun(RANKS, "interrupted.py", framework, str(tmp_path), *["adapter"] * adapted)
    ended = launch(*([] if adapted else [*RUN, "--job", "adapted", "--"]), *script)
    assert ended.returncode == 0, ended.stderr[-3000:]

    ranks = tables_in(rings / "adapted")
    assert sorted(ranks) == list(range(RANKS))
    for rank, tables in ranks.items():
        said = json.loads((tmp_path / f"{rank}.json").read_text())
        assert said["seen"]["evaluation"] == ["eval"]
        assert set(said["seen"].get("save", [])) <= {"checkpoint"}
        steps = tables[Kind.STEP]
        assert len(steps) == len(said["losses"]) // ACCUMULATED
        if adapted:
            last = said["losses"][ACCUMULATED - 1 :: ACCUMULATED]
            if framework != "transformers":  # which logs means
                assert steps["loss"].tolist() == pytest.approx(last, rel=1e-5)
            assert steps["tokens"].tolist() == [TOKENS_PER_STEP] * len(steps)
    saves = ranks[0][Kind.CHECKPOINT]
    assert json.loads((tmp_path / "0.json").read_text())["seen"]["save"] == ["checkpoint"]
    assert set(saves["event"].tolist()) == {int(CheckpointEvent.BEGIN)}
    assert (saves["stall_ns"] > 0).sum() >= 2
