"""Who a run is accounted to: what is said, else what the scheduler says."""

from __future__ import annotations

from pathlib import Path

import pytest

from stepwatch.hooks.run_facts import finders


@pytest.fixture(autouse=True)
def outside(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """No pod around this process, but a place for its namespace."""
    place = tmp_path / "namespace"
    monkeypatch.setattr(finders, "_NAMESPACE", place)
    return place


def test_nothing_is_known_where_nobody_says_it() -> None:
    assert dict(finders.owner({})) == {}


def test_schedulers_are_asked_where_nobody_says_it(outside: Path) -> None:
    outside.write_text("team-vision\n")
    slurm = {"SLURM_JOB_ACCOUNT": "acc-17"}
    assert dict(finders.owner(slurm)) == {"project": "team-vision", "cost_centre": "acc-17"}
    declared = {
        "STEPWATCH_PROJECT": "llama",
        "STEPWATCH_TEAM": "pretraining",
        "STEPWATCH_COST_CENTRE": "4711",
    }
    assert dict(finders.owner({**slurm, **declared})) == {
        "project": "llama",
        "team": "pretraining",
        "cost_centre": "4711",
    }
