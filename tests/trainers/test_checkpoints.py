"""A checkpoint that is damaged after its save is an incident; `records` has every trainer's."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.trainers.cells import cells
from tests.trainers.run import start_run
from tests.trainers.site import Site
from tests.waiting import until

pytestmark = pytest.mark.long(
    "tests/agent/checkpoints/jobs/test_verifier.py::test_a_reported_checkpoint_is_verified",
    "tests/hooks/pauses/test_save_paths.py::test_the_frameworks_paths",
    "tests/collector/state/trackers/test_checkpoints.py"
    "::test_the_objective_is_known_once_an_agent_verified_a_checkpoint",
)

CELLS = {cell.name: cell for cell in cells()}


def test_a_file_cut_after_its_save_opens_an_incident_with_its_name(
    site: Site, tmp_path: Path
) -> None:
    cell = CELLS["fsdp2-lines"]
    plan = cell.plan(
        tmp_path / "run", "cut", steps=100_000, eval_every=0, save_every=400, pause_seconds=0.1
    )
    with start_run(cell, site, plan, watched=True):
        folder = tmp_path / "run" / "dcp-800"
        until("the second save ends", (folder / ".metadata").exists)
        file = max(folder.glob("*.distcp"), key=lambda item: item.stat().st_size)
        os.truncate(file, file.stat().st_size // 2)
        for place in (file, folder, *folder.iterdir()):
            os.utime(place, (0, 0))  # it settled long ago

        def incident() -> dict[str, Any] | None:
            return next(
                (item for item in site.incidents(plan.job) if "is damaged" in item["summary"]), None
            )

        opened = until("the damage is an incident", incident)
    assert "the checkpoint of step 800 is damaged" in opened["summary"], opened
    assert file.name in opened["summary"] and "step 400" in opened["summary"]
    assert opened["kind"] == "checkpoint-stall" and opened["cause"] == "damaged-files"
