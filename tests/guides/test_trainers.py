"""Each guide's script runs as shown, and its ranks' black boxes hold the stated records."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import pytest

from stepwatch.signals.records import Kind, LifecycleEvent
from tests.adapters.conftest import Launch, launch
from tests.guides.pages import TRAINERS, commands, script
from tests.hooks.conftest import LAUNCHER, Tables, rings, tables_in
from tests.ranks.forked import ForkedRanks

__all__ = ["launch", "rings"]

WORLD = 2
PLAIN = {"nanogpt": 40, "fsdp2": 20, "megatron": 20}
FRAMEWORKS = {
    "huggingface": ("transformers", 20),
    "lightning": ("lightning", 20),
    "accelerate": ("accelerate", 20),
}
"""For each guide the package that it needs, and the steps of its script."""


GIVES_TOKENS = {"nanogpt", "fsdp2", "huggingface"}


def check(tables_of_ranks: Tables, steps: int, *, tokens: bool) -> None:
    """Every step once on every rank, with its loss and its phases, and an end that was meant."""
    assert sorted(tables_of_ranks) == list(range(WORLD))
    for tables in tables_of_ranks.values():
        rows = tables[Kind.STEP]
        assert rows["step"].tolist() == list(range(steps))
        assert np.isfinite(rows["loss"]).all()
        assert (rows["tokens"][1:] > 0).all() == tokens
        assert (rows["forward_ns"] > 0).any() and (rows["optimizer_ns"] > 0).all()
        assert len(tables[Kind.COLLECTIVE])
        assert LifecycleEvent.FINISH in tables[Kind.LIFECYCLE]["event"]


@pytest.mark.parametrize("guide", PLAIN)
def test_the_script_runs_and_every_step_is_recorded(
    guide: str, tmp_path: Path, rings: Path, forked_ranks: ForkedRanks
) -> None:
    program = tmp_path / "train.py"
    program.write_text(script(TRAINERS / f"{guide}.md"))
    outer = {name: value for name, value in os.environ.items() if name not in LAUNCHER}
    environ = {**outer, "OMP_NUM_THREADS": "1", "CHECKPOINT": str(tmp_path / "saved")}
    ended = forked_ranks.run([str(program)], WORLD, tmp_path / "out", environ)
    assert ended.codes == [0] * WORLD, ended.output[-3000:]
    check(tables_in(rings), PLAIN[guide], tokens=guide in GIVES_TOKENS)


@pytest.mark.parametrize("guide", FRAMEWORKS)
def test_the_script_runs_with_its_framework(
    guide: str, tmp_path: Path, rings: Path, launch: Launch
) -> None:
    package, steps = FRAMEWORKS[guide]
    pytest.importorskip(package, reason=f"{package} is not installed: make test-adapters")
    page, program = TRAINERS / f"{guide}.md", tmp_path / "train.py"
    program.write_text(script(page))
    torchrun = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={WORLD}"]
    ended = launch(sys.executable, *torchrun, str(program), CHECKPOINT=str(tmp_path / "saved"))
    assert ended.returncode == 0, ended.stderr[-3000:]
    check(tables_in(rings), steps, tokens=guide in GIVES_TOKENS)


@pytest.mark.parametrize("guide", [*PLAIN, *FRAMEWORKS])
def test_a_guide_shows_how_to_start_its_script(guide: str) -> None:
    shown = commands(TRAINERS / f"{guide}.md")
    assert "torchrun --nproc-per-node=8 train.py" in shown


def test_every_guide_is_tested_and_in_the_index() -> None:
    pages = {page.stem for page in TRAINERS.glob("*.md")} - {"README"}
    assert pages == {*PLAIN, *FRAMEWORKS, "coming-from", "glossary", "laptop"}
    index = (TRAINERS / "README.md").read_text()
    assert all(f"({page}.md)" in index for page in pages)
