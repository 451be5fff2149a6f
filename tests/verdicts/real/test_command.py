from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.verdicts.scenario.examples import with_fault
from tests.verdicts.scenario.plan import FaultKind
from tests.verdicts.scenario.scored.matching import match
from tests.verdicts.scenario.scored.test_matching import incident
from tests.verdicts.scenario.truth import expected

from . import command
from .comparison import differences, table
from .scenarios import plan_scenario, truths, way_named
from .ways import NoMeansError, Signals, Way, make_means

SLOW = expected(with_fault(FaultKind.SLOW_COMPUTE, 2, effect=2.0))


def run(**more: Any) -> dict[str, Any]:
    """Return a run in which rank 2 was slow and was named."""
    answer = {"found": True, "rank": True, "cause": True, "node": None, "seconds": 7.0, "named": ""}
    side = {"answers": [answer], "false": []}
    fault = {"kind": "slow-compute", "way": "burners", "cost": 0.4, "replayed_cost": 0.5}
    return {"seed": 1, **fault, "real": side, "replay": side, "differences": [], **more}


def test_the_same_verdicts_at_other_moments_agree() -> None:
    real, replayed = (
        match(SLOW, [incident(opened_at=60.0)]),
        match(SLOW, [incident(opened_at=75.0)]),
    )
    assert differences(real, replayed) == []


def test_another_rank_and_a_false_incident_are_differences() -> None:
    real = match(SLOW, [incident(rank=1)])
    replayed = match(SLOW, [incident(), incident("hang", 3, opened_at=55.0)])
    lines = differences(real, replayed)
    assert lines == ["slow-compute: rank False, replayed True", "false incidents: 0, replayed 1"]


def test_the_table_has_a_row_for_each_class_and_way_and_says_what_was_left_out() -> None:
    disagreement = run(differences=["slow-compute: rank False, replayed True"])
    skipped = {"seed": 5, "kind": "slow-link", "way": "links", "skipped": "no root"}
    text = table([run(), disagreement, skipped])
    row = next(row for row in text.splitlines() if row.startswith("slow-compute, burners"))
    assert "2 of 2 / 2 of 2" in row
    assert "40% / 50%" in row
    assert row.endswith("1/2")
    assert "1 of 2 real runs" in text
    assert "1 could not be run here" in text


def test_runs_go_on_where_the_file_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def made_up(chosen: list[int], way: Way | None) -> list[dict[str, Any]]:
        return [run(seed=seed) for seed in chosen]

    monkeypatch.setattr(command, "run_all", made_up)
    file = tmp_path / "real.jsonl"
    for count in ("2", "5", "5"):
        command.main(["--real", count, "--to", str(file)])
    seeds = [json.loads(line)["seed"] for line in file.read_text().splitlines()]
    assert len(seeds) == len({*seeds}) == 5
    assert all(seed % 2 for seed in seeds)
    assert "agrees with 5 of 5" in capsys.readouterr().out


def test_a_run_that_cannot_be_made_here_is_a_line_that_says_so() -> None:
    class Site:
        def run(self, plan: object) -> None:
            raise NoMeansError("links: no root")

    result = command.compare_run(3, way_named("slow-link/links"), Site())  # type: ignore[arg-type]
    assert result["skipped"] == "links: no root"
    assert "skipped, links: no root" in command.line(result)


def test_what_no_process_is_needed_for_is_made_of_nothing(tmp_path: Path) -> None:
    means = make_means("signals", "job", tmp_path, 0.3)
    assert isinstance(means, Signals)
    assert means.environ == {}


def test_who_gets_no_processor_is_slow_for_that_reason_as_well() -> None:
    plan = plan_scenario(7, way_named("slow-compute/cgroup-quota"))
    (expectation,) = [
        candidate for candidate in truths(plan) if candidate.truth.fault == "slow-compute"
    ]
    assert expectation.truth.causes == {"slow-compute", "cpu-contention", "container-limit"}
