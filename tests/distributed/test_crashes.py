"""A rank is killed at each stage of a checkpoint: the run resumes and its losses stay the same.

Checkpoints are due at steps 4, 8 and 12; the fault hits the one of step 8. Until its rename it is
not published, so the run resumes from step 4; after it, from step 8, verified or not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

ALONE, TWO = "pp=1", "dp_shard=2"

STAGES = {"begin": 4, "staged": 4, "files": 4, "written": 4, "renamed": 8, "verifying": 8}
"""Stage of the checkpoint of step 8 at which a rank dies, and the step to resume from."""


def _crash(
    trainer: Any, straight: Callable[..., Any], stage: str, mesh: str, rank: int, mode: str
) -> None:
    flags = ("--mesh", mesh, "--steps", "12")
    fault = f"kill:rank={rank},step=8,stage={stage}"
    every = ("--checkpoint-every", "4", "--checkpoint-mode", mode)
    finished = trainer.train(*flags, *every, "--restarts", "1", "--fault", fault)
    (resume,) = finished.result["resumes"]
    expected = {STAGES[stage]}
    if stage == "written" and rank:
        # All files are there: the leading rank may publish before it learns of the death.
        expected.add(8)
    assert resume["from_step"] in expected
    assert finished.losses == straight(*flags).losses
    names = sorted(path.name for path in (trainer.run_dir / "checkpoints").iterdir())
    assert names == ["step-00000008", "step-00000012"]


@pytest.mark.matrix
@pytest.mark.parametrize("stage", ["begin", "files", "verifying"])
def test_death_during_a_checkpoint(trainer: Any, straight: Callable[..., Any], stage: str) -> None:
    _crash(trainer, straight, stage, ALONE, 0, "async")


@pytest.mark.matrix
@pytest.mark.parametrize("stage", ["files"])
def test_death_between_the_files_of_two_ranks(
    trainer: Any, straight: Callable[..., Any], stage: str
) -> None:
    _crash(trainer, straight, stage, TWO, 1, "async")


@pytest.mark.matrix
@pytest.mark.parametrize("mode", ["async", "sync"])
@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("stage", STAGES)
def test_death_of_either_rank_during_a_checkpoint(
    trainer: Any, straight: Callable[..., Any], stage: str, rank: int, mode: str
) -> None:
    _crash(trainer, straight, stage, TWO, rank, mode)
