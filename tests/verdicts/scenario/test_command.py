from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from . import command, results, seeds
from .command import arguments, main, pending_scenarios, take_days
from .outcome import Wanted


def results_of(*numbers: int) -> list[dict[str, Any]]:
    return [{"seed": number, "seconds": 3600.0} for number in numbers]


def test_what_is_in_the_file_is_not_run_again() -> None:
    first, second, third = seeds.tuning_seeds(3)
    options = arguments(["--tune", "--seeds", "3"])
    assert [wanted.seed for wanted in pending_scenarios(options, results_of(second))] == [
        first,
        third,
    ]


def test_a_report_draws_as_many_new_seeds_as_are_missing_and_none_to_tune_on() -> None:
    drawn = [
        wanted.seed for wanted in pending_scenarios(arguments(["--seeds", "5"]), results_of(1, 3))
    ]
    assert len(drawn) == 3
    assert not any(map(seeds.is_tuning, drawn))


def test_long_healthy_jobs_are_as_many_as_the_days_need() -> None:
    options = arguments(["--days", "1", "--tune"])
    chosen = list(take_days(pending_scenarios(options, []), 1.0))
    days = [wanted.scenario().seconds / 86_400.0 for wanted in chosen]
    assert sum(days[:-1]) < 1.0 <= sum(days)
    assert all(
        wanted.long and wanted.every == 5 and not wanted.scenario().faults for wanted in chosen
    )


def test_a_run_goes_on_where_it_ended_and_reports_from_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ran: list[int] = []

    def run(wanted: Wanted) -> dict[str, Any]:
        ran.append(wanted.seed)
        job = {"shape": "ddp", "ranks": 4, "nodes": 2, "pace": "constant", "step_seconds": 1.0}
        came = {"answers": [], "false": [], "false_kinds": [], "pages": 0, "cpu_seconds": 1.0}
        return {"seed": wanted.seed, "seconds": 900.0, "healthy": True, **job, **came}

    monkeypatch.setattr(command, "run", run)
    file = str(tmp_path / "done.jsonl")
    main(["--seeds", "2", "--jobs", "1", "--to", file])
    main(["--seeds", "3", "--jobs", "1", "--to", file])
    assert len(ran) == len({*ran}) == 3
    assert [result["seed"] for result in results.read([Path(file)])] == ran
    picture = tmp_path / "power.svg"
    main(["--report", file, "--picture", str(picture)])
    assert len(ran) == 3
    assert "healthy job-days" in capsys.readouterr().out
    assert picture.read_text().startswith("<svg")


def test_a_file_of_real_runs_is_no_file_of_scenarios(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "real.jsonl"
    file.write_text('{"seed": 3, "differences": []}\n')
    assert command.main(["--report", str(file)]) == 2
    assert "--real COUNT --to FILE" in capsys.readouterr().err
