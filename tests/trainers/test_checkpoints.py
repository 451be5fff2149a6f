"""Every trainer's checkpoints are verified by the agent, without a word from the trainer."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.trainers.cells import Cell, cells
from tests.trainers.run import finish, start_run
from tests.trainers.site import Site
from tests.waiting import until

pytestmark = pytest.mark.long(
    "tests/agent/checkpoints/jobs/test_verifier.py::test_a_reported_checkpoint_is_verified",
    "tests/hooks/pauses/test_save_paths.py::test_the_frameworks_paths",
    "tests/collector/state/trackers/test_checkpoints.py"
    "::test_the_objective_is_known_once_an_agent_verified_a_checkpoint",
)

CELLS = {cell.name: cell for cell in cells()}
NEEDED = {"transformers": "transformers", "lightning": "lightning", "accelerate": "accelerate"}


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """A collector and an agent as shipped."""
    (tmp_path / "rings").mkdir()
    services = Site(tmp_path, tmp_path / "rings")
    try:
        services.start()
        yield services
    finally:
        services.close()


def cell_of(name: str) -> Cell:
    """A cell whose framework is installed."""
    for part, module in NEEDED.items():
        if name.startswith(part):
            pytest.importorskip(module, reason=f"{module} is not installed")
    return CELLS[name]


def checkpoints(site: Site, job: str) -> list[dict[str, Any]]:
    """A job's checkpoints, newest first."""
    if site.job(job) is None:
        return []
    document: list[dict[str, Any]] = site._get(f"/v1/jobs/{job}/checkpoints")["checkpoints"]
    return document


@pytest.mark.parametrize(
    "name",
    [
        "nanogpt-lines",
        "nanogpt-no-code",
        "fsdp2-lines",
        "transformers-adapter",
        "transformers-no-code",
        "lightning-adapter",
        "accelerate-adapter",
    ],
)
def test_checkpoints_are_verified_and_the_objective_is_known(
    site: Site, tmp_path: Path, name: str
) -> None:
    cell = cell_of(name)
    plan = cell.plan(
        tmp_path / "run", "saves", steps=50, eval_every=20, save_every=20, pause_seconds=0.3
    )
    finish(cell, site, plan, watched=True)

    def all_are_read() -> list[dict[str, Any]] | None:
        items = checkpoints(site, plan.job)
        states = {item["state"] for item in items}
        return items if items and not states & {"writing", "written"} else None

    items = until(f"all of {plan.job} are read", all_are_read)
    states = [item["state"] for item in items]
    assert states[0] == "verified" and set(states) <= {"verified", "removed"}, items
    assert items[0]["path"].startswith(str(tmp_path / "run")) and items[0]["size_bytes"] > 0

    slis = site._get(f"/v1/jobs/{plan.job}/slis")["slis"]
    success = {sli["name"]: sli for sli in slis}["checkpoint-success"]
    assert success["value"] == 1.0 and success["unknown"] == ""


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
