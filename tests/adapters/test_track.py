"""`stepwatch track` into a real MLflow store, and into a W&B run offline."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stepwatch.cli.main import PROBLEM, main
from tests.cli.track.courses import send_steps, track_once, track_with_kills, words
from tests.collector.conftest import collector
from tests.collector.process import Process
from tests.ports import free_port

__all__ = ["collector"]
pytestmark = pytest.mark.filterwarnings("ignore")
REASON = "`make test-adapters` installs it"
PACE = "stepwatch/recent_step_seconds"


@pytest.fixture(params=["file", "sqlite"])
def run(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A new run in a store of files, or in a database."""
    files, database = tmp_path.joinpath("mlruns").as_uri(), f"sqlite:///{tmp_path}/mlflow.db"
    place = files if request.param == "file" else database
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", place)
    mlflow: Any = pytest.importorskip("mlflow", reason=REASON)
    mlflow.set_tracking_uri(place)
    return mlflow.MlflowClient().create_run("0")


def steps(run: Any, name: str = PACE) -> list[int]:
    import mlflow

    history = mlflow.MlflowClient().get_metric_history(run.info.run_id, name)
    return [metric.step for metric in history]


def notes(run: Any) -> list[str]:
    import mlflow

    tags = mlflow.MlflowClient().get_run(run.info.run_id).data.tags
    return [text for name, text in tags.items() if name.startswith("stepwatch.incident.")]


def test_mlflow_has_each_step_once_and_a_note(collector: Process, run: Any) -> None:
    send_steps(collector, 0, 60)
    for _ in range(3):
        track_once(collector, f"mlflow:{run.info.run_id}")
    assert steps(run) == [59] == steps(run, "stepwatch/sli/goodput")
    (note,) = notes(run)
    assert note.startswith("open: straggler, rank 2")


def test_mlflow_goes_on_after_kills(collector: Process, run: Any) -> None:
    to = f"mlflow:{run.info.run_id}"
    track_with_kills(collector, to, lambda: len(steps(run)), kills=3, seed=2)
    written = steps(run)
    assert written == sorted(set(written)) and written[-1] == 99
    assert [note for note in notes(run) if "straggler, rank 2" in note]


def test_mlflows_errors_show_no_password(
    collector: Process, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    mlflow: Any = pytest.importorskip("mlflow", reason=REASON)
    place = f"http://me:s3cret-pw@127.0.0.1:{free_port()}"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", place)
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    mlflow.set_tracking_uri(place)
    assert main(words(collector, "mlflow:0123456789ab", "--once")) == PROBLEM
    line = capsys.readouterr().err
    assert line.startswith("stepwatch: MLflow: ") and line.count("\n") == 1
    assert "Connection refused" in line and "s3cret-pw" not in line


def test_wandb_offline(collector: Process, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("wandb", reason=REASON)
    for name, value in {"MODE": "offline", "SILENT": "true", "DIR": str(tmp_path)}.items():
        monkeypatch.setenv(f"WANDB_{name}", value)
    send_steps(collector, 0, 60)
    track_once(collector, "wandb:team/llama/run1")
    track_once(collector, "wandb:team/llama/run1")
    state = json.loads((tmp_path / ".stepwatch-llama-run1.json").read_text())
    assert state["step"] == 59
    assert [line for line in state["headlines"].values() if "straggler, rank 2" in line]
    logs = sorted(tmp_path.glob("wandb/offline-run-*/run-run1-stepwatch.wandb"))
    assert len(logs) == 2
    first, second = (path.read_bytes() for path in logs)
    assert b"recent_step_seconds" in first and b"recent_step_seconds" not in second
