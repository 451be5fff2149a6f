"""A real job of each trainer is known after a kill: its numbers, checkpoints and resume."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.trainers.cells import Cell, cells
from tests.trainers.comparison import RIGHT, UNKNOWN
from tests.trainers.site import Site

from .columns import COLUMNS
from .job import record

pytestmark = pytest.mark.long(
    "tests/agent/checkpoints/jobs/test_verifier.py::test_a_reported_checkpoint_is_verified",
    "tests/hooks/pauses/test_save_paths.py::test_the_frameworks_paths",
    "tests/hooks/test_lifecycle.py::test_a_first_step_beyond_one_is_a_resume",
    "tests/collector/state/trackers/test_checkpoints.py"
    "::test_the_objective_is_known_once_an_agent_verified_a_checkpoint",
)

CELLS = {cell.name: cell for cell in cells()}
NEEDED = {"transformers": "transformers", "lightning": "lightning", "accelerate": "accelerate"}
OF_NO_HOOK = {"user-metrics", "validation"}
"""Columns that need a line of code or an adapter; a plain loop's loss is one, too."""


def cell_of(name: str) -> Cell:
    """A cell whose framework is installed."""
    for part, module in NEEDED.items():
        if name.startswith(part):
            pytest.importorskip(module, reason=f"{module} is not installed")
    return CELLS[name]


@pytest.mark.parametrize(
    "name",
    [
        "nanogpt-lines",
        "nanogpt-no-code",
        "fsdp2-lines",
        "fsdp2-no-code",
        "transformers-adapter",
        "transformers-no-code",
        "lightning-adapter",
        "accelerate-adapter",
    ],
)
def test_a_killed_job_is_known_from_its_first_step_to_its_resume(
    site: Site, tmp_path: Path, name: str
) -> None:
    cell = cell_of(name)
    marks = record(cell, site, tmp_path)
    unknown = OF_NO_HOOK if cell.way == "no code" else set()
    if unknown and cell.trainer.name not in NEEDED:
        unknown = {*unknown, "loss-continued"}
    expected = {column: UNKNOWN if column in unknown else RIGHT for column in COLUMNS}
    assert {column: mark.word for column, mark in marks.items()} == expected, marks
