"""This process's runs in W&B, MLflow and TensorBoard, and how the job's page gets into them.

This module imports no tracker: a tracker that is not imported is not in use. The caller's guard
handles the exceptions in a tracker's own code.
"""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

Facts = Mapping[str, str]
"""`job`, `attempt`, and `page` if it is known."""


class TrackedRun(NamedTuple):
    """One active run: the tracker's name, the run's id, its address (empty if unknown).

    `show` writes facts about the job into the run; it may wait for the tracker's server.
    """

    tracker: str
    run: str
    url: str
    show: Callable[[Facts], None]


def wandb_runs() -> Iterator[TrackedRun]:
    """Yield the run from `wandb.init`, whose config takes the facts."""
    run: Any = getattr(sys.modules.get("wandb"), "run", None)
    if run is not None:

        def show(facts: Facts) -> None:
            run.config.update({"stepwatch": dict(facts)}, allow_val_change=True)

        yield TrackedRun("wandb", str(run.id), _url(getattr(run, "url", None)), show)


def mlflow_runs() -> Iterator[TrackedRun]:
    """Yield the calling thread's active run (MLflow has one each); its tags take the facts."""
    mlflow: Any = sys.modules.get("mlflow")
    active = None if mlflow is None else mlflow.active_run()
    if active is None:
        return
    run, experiment = str(active.info.run_id), active.info.experiment_id
    server = _url(mlflow.get_tracking_uri())

    def show(facts: Facts) -> None:
        client = mlflow.MlflowClient()
        for name, value in facts.items():
            client.set_tag(run, f"stepwatch.{name}", value)

    url = f"{server.rstrip('/')}/#/experiments/{experiment}/runs/{run}" if server else ""
    yield TrackedRun("mlflow", run, url, show)


def tensorboard_runs() -> Iterator[TrackedRun]:
    """Yield every open `SummaryWriter`, found among its class's objects; a text takes the facts."""
    module: Any = sys.modules.get("torch.utils.tensorboard.writer")
    if module is None:
        return
    kind = module.SummaryWriter
    for writer in gc.get_referrers(kind):
        if type(writer) is kind and _is_open(writer):
            yield TrackedRun("tensorboard", str(writer.log_dir), "", _text_of(writer))


def _is_open(writer: Any) -> bool:
    """Return whether a `SummaryWriter` has its file; a closed one opens a new file on a write."""
    return getattr(writer, "file_writer", writer) is not None


def _text_of(writer: Any) -> Callable[[Facts], None]:
    reference = weakref.ref(writer)  # the trainer owns it and may drop it first

    def show(facts: Facts) -> None:
        target = reference()
        if target is not None and _is_open(target):
            lines = (f"- {name}: {value}" for name, value in facts.items())
            target.add_text("stepwatch", "\n".join(lines))

    return show


def _url(text: object) -> str:
    return text if isinstance(text, str) and text.startswith(("http://", "https://")) else ""


FINDERS: tuple[Callable[[], Iterator[TrackedRun]], ...] = (
    wandb_runs,
    mlflow_runs,
    tensorboard_runs,
)
"""One finder for each tracker."""
