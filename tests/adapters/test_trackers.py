"""The real W&B, MLflow and TensorBoard: the run in the job's record, the page in the run.

None of them needs a server here: W&B works offline, MLflow and TensorBoard write files.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stepwatch.hooks import Watch
from stepwatch.signals import presence
from stepwatch.signals.presence import CONNECTED, Presence
from stepwatch.signals.records import Link, read_link
from tests.hooks.links.test_linking import links_in
from tests.waiting import until

pytestmark = pytest.mark.filterwarnings("ignore")
PAGE = "http://page/jobs/job"
REASON = "`make test-adapters` installs it"


def one_step(rings: Path, watch: Watch) -> None:
    """A step, on a node whose agent runs."""
    presence.write(rings, Presence(1, "http://c", "http://page", CONNECTED, 1, {}))
    with watch.step():
        pass
    assert watch.guard.errors == 0


def test_wandb(rings: Path, watch: Watch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wandb: Any = pytest.importorskip("wandb", reason=REASON)
    monkeypatch.setenv("WANDB_SILENT", "true")
    run = wandb.init(mode="offline", project="p", dir=str(tmp_path))
    try:
        one_step(rings, watch)
        assert read_link(links_in(rings)) == Link("wandb", run.id, ""), "offline: no address"
        until("the run's config", lambda: "stepwatch" in run.config)
        assert run.config["stepwatch"]["page"] == PAGE
    finally:
        run.finish()


def test_mlflow(rings: Path, watch: Watch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Its small distribution keeps runs in files, which it wants to be asked for.
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow: Any = pytest.importorskip("mlflow", reason=REASON)
    mlflow.set_tracking_uri(tmp_path.joinpath("mlruns").as_uri())
    with mlflow.start_run() as run:
        identity = run.info.run_id
        one_step(rings, watch)
        assert read_link(links_in(rings)) == Link("mlflow", identity, "")
        client = mlflow.MlflowClient()

        def page() -> str:
            return str(client.get_run(identity).data.tags.get("stepwatch.page", ""))

        assert until("the run's tag", page) == PAGE


def test_tensorboard(rings: Path, watch: Watch, tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason=REASON)
    board: Any = pytest.importorskip("torch.utils.tensorboard", reason=REASON)
    reading: Any = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    folder = str(tmp_path / "runs")
    with board.SummaryWriter(folder) as writer:
        one_step(rings, watch)
        assert read_link(links_in(rings)) == Link("tensorboard", folder, "")

        def tags() -> list[str]:
            writer.flush()
            events = reading.EventAccumulator(folder).Reload()
            return list(events.Tags()["tensors"])

        until("the text", lambda: [tag for tag in tags() if tag.startswith("stepwatch")])
