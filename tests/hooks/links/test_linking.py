"""A job and the runs of experiment trackers name each other; no tracker is imported for it.

The trackers here are stand-ins with the attributes that ours reads; the real ones are in
`test_trackers.py`.
"""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from stepwatch.hooks import Watch
from stepwatch.hooks.links.trackers import tensorboard_runs
from stepwatch.signals import presence
from stepwatch.signals.presence import CONNECTED, Presence
from stepwatch.signals.records import Kind, LifecycleEvent, Link, piece_texts, read_link
from tests.hooks.conftest import rows_in
from tests.waiting import until

URL = "https://wandb.example/team/project/runs/abc123-with-a-name-that-is-longer-than-one-record"


class Config:
    """Takes what is written into a run's config."""

    def __init__(self) -> None:
        self.taken: dict[str, Any] = {}
        self.thread = ""

    def update(self, facts: dict[str, Any], *, allow_val_change: bool) -> None:
        self.taken |= facts
        self.thread = threading.current_thread().name


@pytest.fixture
def config(monkeypatch: pytest.MonkeyPatch) -> Iterator[Config]:
    """The config of an active run of a stand-in for W&B."""
    new_config = Config()
    run = SimpleNamespace(id="abc123", url=URL, config=new_config)
    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(run=run))
    yield new_config


def links_in(rings: Path) -> list[str]:
    """Texts of the LINK records of the one ring."""
    rows = rows_in(rings, Kind.LIFECYCLE)
    rows = rows[rows["event"] == LifecycleEvent.LINK]
    assert rows["value"].tolist() == list(range(len(rows)))
    return [bytes(text).decode() for text in rows["text"]]


def test_a_run_and_its_job_name_each_other(watch: Watch, rings: Path, config: Config) -> None:
    presence.write(rings, Presence(1, "http://c", "http://page", CONNECTED, 1, {}))
    with watch.step():
        pass
    assert read_link(links_in(rings)) == Link("wandb", "abc123", URL)
    facts = until("the run's config", lambda: config.taken.get("stepwatch"))
    assert facts == {"job": "job", "attempt": "0", "page": "http://page/jobs/job"}
    assert config.thread == "stepwatch-links", "nobody waits for a tracker's server"
    with watch.step():
        pass
    assert read_link(links_in(rings)) == Link("wandb", "abc123", URL), "once"


def test_without_an_agent_the_page_is_left_out(watch: Watch, config: Config) -> None:
    with watch.step():
        pass
    facts = until("the run's config", lambda: config.taken.get("stepwatch"))
    assert facts == {"job": "job", "attempt": "0"}


def test_no_tracker_is_imported_and_none_that_fails_is_felt(
    watch: Watch, rings: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken() -> None:
        raise ConnectionError("no server")

    monkeypatch.setitem(sys.modules, "mlflow", SimpleNamespace(active_run=broken))
    modules_before = set(sys.modules)
    with watch.step():
        pass
    assert links_in(rings) == [] and watch.guard.errors == 1
    fresh = {name.partition(".")[0] for name in set(sys.modules) - modules_before}
    assert not fresh & {"wandb", "mlflow", "tensorboard", "torch"}


def test_other_ranks_link_nothing(
    monkeypatch: pytest.MonkeyPatch, rings: Path, config: Config
) -> None:
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    watch = Watch.from_env(job="job")
    with watch.step():
        pass
    watch.close()
    assert links_in(rings) == [] and config.taken == {}


@pytest.mark.parametrize("run", ["short", "x" * 200, "/data/läufe/" + "ü" * 40, "a\tb", ""])
def test_a_link_survives_its_pieces(run: str) -> None:
    texts = piece_texts(("mlflow", run, "http://s/"))
    assert all(len(text.encode()) <= 56 for text in texts) and len(texts) <= 8
    assert read_link(texts) == Link("mlflow", run.replace("\t", " "), "http://s/")


class SummaryWriter:
    """The parts of TensorBoard's writer that ours reads, and the texts it was given."""

    def __init__(self, log_dir: str) -> None:
        self.log_dir = log_dir
        self.file_writer: object = object()
        self.texts: list[str] = []

    def close(self) -> None:
        self.file_writer = None

    def add_text(self, _: str, text: str) -> None:
        self.texts.append(text)


@pytest.fixture
def tensorboard(monkeypatch: pytest.MonkeyPatch) -> None:
    board = SimpleNamespace(SummaryWriter=SummaryWriter)
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard.writer", board)


@pytest.mark.usefixtures("tensorboard")
def test_a_closed_summary_writer_is_no_run_and_is_not_opened_again() -> None:
    closed_writer, now = SummaryWriter("before"), SummaryWriter("now")
    closed_writer.close()
    (run,) = tensorboard_runs()
    assert run.run == "now"
    run.show({"job": "job"})
    now.close()
    run.show({"job": "job"})
    assert (closed_writer.texts, now.texts) == ([], ["- job: job"])


@pytest.mark.usefixtures("tensorboard")
def test_a_summary_writer_that_its_trainer_drops_is_not_kept() -> None:
    writer = SummaryWriter("runs")
    (run,) = tensorboard_runs()
    dropped = weakref.ref(writer)
    del writer
    gc.collect()
    assert dropped() is None
    run.show({"job": "job"})
