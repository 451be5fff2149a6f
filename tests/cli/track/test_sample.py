"""What a tracker's run gets from the collector's answers; the unknown is not in it."""

from __future__ import annotations

from typing import Any

import pytest

from stepwatch.cli.main import USAGE, main
from stepwatch.cli.track.linked import linked_run
from stepwatch.cli.track.sample import MOST_NOTES, notes_of, sample_of
from stepwatch.collector.incidents.model import incident_from
from stepwatch.signals.errors import UsageError

INCIDENT = incident_from(
    {
        "id": "0123456789ab",
        "kind": "straggler",
        "state": "open",
        "rank": 2,
        "node": "gpu-07",
        "phase": "forward",
        "cause": "cpu-steal",
        "since_step": 30,
        "summary": "rank 2 is slow",
        "runbook": "TrainingStraggler",
        "opened_at": 1_800_000_000.0,
    }
).document()
JOB = {
    "state": "running",
    "step": 59,
    "as_of": 1_800_000_100.0,
    "tokens_per_second": 1200.0,
    "recent_step_seconds": None,
    "open_incidents": 1,
    "slos": [
        {"name": "goodput", "budget_remaining": 0.5},
        {"name": "new", "budget_remaining": None},
    ],
    "incidents": [INCIDENT],
}
SLIS = {"slis": [{"name": "goodput", "value": 0.9}, {"name": "mfu", "value": None}]}


def test_known_values_are_in_the_sample_and_unknown_ones_are_not() -> None:
    sample = sample_of(JOB, SLIS)
    assert sample is not None and (sample.step, sample.wall_s) == (59, 1_800_000_100.0)
    assert sample.values == {
        "stepwatch/tokens_per_second": 1200.0,
        "stepwatch/open_incidents": 1.0,
        "stepwatch/sli/goodput": 0.9,
        "stepwatch/slo/goodput/budget": 0.5,
    }


@pytest.mark.parametrize("changes", [{"state": "stale"}, {"step": None}])
def test_a_stale_or_unbegun_job_has_no_sample(changes: dict[str, Any]) -> None:
    assert sample_of({**JOB, **changes}, SLIS) is None


def test_a_note_is_recognised_while_only_numbers_change() -> None:
    def headline(**changes: Any) -> str:
        (note,) = notes_of({**JOB, "incidents": [{**INCIDENT, **changes}]})
        return note.headline

    known = headline()
    assert known == "open: straggler, rank 2, gpu-07, forward, cpu-steal"
    assert headline(device_seconds_lost=9.0, summary="rank 2 is 3x slower") == known
    changed = {headline(state="resolved", resolved_at=1.0), headline(cause="nic-errors")}
    assert len({known, headline(node="gpu-08"), *changed}) == 4


def test_a_note_has_the_command_of_its_runbook() -> None:
    (note,) = notes_of(JOB)
    assert (note.step, note.wall_s) == (30, 1_800_000_000.0)
    assert "stepwatch runbook TrainingStraggler --incident 0123456789ab" in note.text
    assert "rank 2 is slow" in note.text and "2027-01-15 08:00:00 UTC" in note.text


def test_notes_are_bounded_and_the_newest_remain() -> None:
    many = [{**INCIDENT, "id": str(number)} for number in range(MOST_NOTES + 5)]
    notes = notes_of({**JOB, "incidents": many})
    assert len(notes) == MOST_NOTES and notes[-1].incident == str(MOST_NOTES + 4)


def link(tracker: str, run: str, url: str = "") -> dict[str, str]:
    return {"tracker": tracker, "run": run, "url": url}


def test_without_to_it_is_the_run_that_the_trainer_opened() -> None:
    assert linked_run([link("mlflow", "4f2c")]) == "mlflow:4f2c"
    assert linked_run([link("tensorboard", "/logs/a")] * 2) == "tensorboard:/logs/a"
    online = link("wandb", "run7", "https://wandb.ai/team/llama/runs/run7")
    assert linked_run([online, link("wandb", "offline")]) == "wandb:team/llama/run7"


@pytest.mark.parametrize(
    ("links", "message"),
    [
        ([], "reports no run"),
        ([link("wandb", "offline")], "reports no run"),
        ([link("mlflow", "a"), link("tensorboard", "b")], "mlflow:a, tensorboard:b"),
    ],
)
def test_no_run_or_several_need_the_option(links: list[dict[str, str]], message: str) -> None:
    with pytest.raises(UsageError, match=message) as raised:
        linked_run(links)
    assert "--to" in str(raised.value)


@pytest.mark.parametrize("words", ["", "tensorboard", "tensorboard:", "comet:x", "runs/llama"])
def test_a_run_that_is_none_is_refused(capsys: pytest.CaptureFixture[str], words: str) -> None:
    assert main(["track", "llama", "--to", words]) == USAGE
    assert "tensorboard:DIR" in capsys.readouterr().err
