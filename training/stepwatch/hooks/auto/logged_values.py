"""Records the numbers that a trainer logs to TensorBoard, W&B or MLflow, under `stepwatch run`.

A trainer without a Watch records no metrics of its own; its tracker has them. Each replaced method
calls its original first, once, and passes on its result and its errors.
"""

from __future__ import annotations

import functools
import logging
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from stepwatch.hooks.guard import guarded
from stepwatch.hooks.instruments import Instruments
from stepwatch.hooks.metrics.metrics import IN_STEPS

logger = logging.getLogger("stepwatch")

MOST_NAMES = 48
"""Maximum number of logged names; the rest of a job's 64 is for what the hooks see themselves."""
_MOST_CHECKED = 1024
"""Names whose check is kept: a trainer may make up a name in each step."""

Logged = Mapping[Any, Any]


class Entry(NamedTuple):
    """A tracker's function: the attribute `name` of `owner`.

    `logged` returns what a call with the same arguments logs.
    """

    owner: Any
    name: str
    logged: Callable[..., Logged]


class LoggedValues:
    """Follows the trackers that are imported; one that is not imported is not in use.

    Only calls in the training thread count. A value belongs to the step that ended last.
    """

    def __init__(self, instruments: Instruments) -> None:
        self.guard = instruments.guard
        self._recorder = instruments.recorder
        self._metrics = instruments.metrics
        self._names: dict[str, str] = {}
        """The metric's name by a logged name, empty for a name that is left out."""
        self._used = 0

    def follow(self) -> None:
        """Replace the trackers' functions until the Watch closes."""
        for entries in ENTRIES:
            self._follow(entries)

    @guarded()
    def _follow(self, entries: Callable[[], Iterator[Entry]]) -> None:
        for entry in entries():
            self._replace(entry)

    def _replace(self, entry: Entry) -> None:
        inner, note, logged = getattr(entry.owner, entry.name), self._note, entry.logged

        @functools.wraps(inner)
        def call(*args: Any, **kwargs: Any) -> Any:
            result = inner(*args, **kwargs)
            note(logged, args, kwargs)
            return result

        self._recorder.attachments.replace(entry.owner, entry.name, call)

    @guarded()
    def _note(
        self, logged: Callable[..., Logged], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        if self._recorder.timeline is None or not self._recorder.thread.is_current():
            return
        named = {
            self._name(str(name)): value
            for name, value in logged(*args, **kwargs).items()
            if _is_number(value)
        }
        named.pop("", None)
        if named:
            self._metrics.note_logged(named)

    def _name(self, logged: str) -> str:
        """Return the metric's name for a logged one; empty if it is left out."""
        name = self._names.get(logged)
        if name is not None:
            return name
        # A step's own loss is another number: the one of its backward.
        name = f"logged/{logged}" if logged in IN_STEPS else logged
        if len(self._names) >= _MOST_CHECKED or self._metrics.names.problem(name, "text"):
            name = ""
        elif self._used == MOST_NAMES:
            name = ""
            logger.info("more than %d names in the tracker: %s is left out", MOST_NAMES, logged)
        if len(self._names) < _MOST_CHECKED:
            self._names[logged] = name
        self._used += bool(name)
        return name


def _is_number(value: Any) -> bool:
    """Return whether a logged value is a number or a one-element tensor; a truth value is not."""
    if isinstance(value, bool | np.bool_):
        return False
    if isinstance(value, int | float | np.number):
        return True
    count = getattr(value, "numel", None)
    return callable(count) and count() == 1


def _tensorboard() -> Iterator[Entry]:
    """Yield what torch's and tensorboardX's writers share."""

    def logged(writer: Any, tag: Any, scalar_value: Any, *_: Any, **__: Any) -> Logged:
        return {tag: scalar_value}

    for module in ("torch.utils.tensorboard.writer", "tensorboardX.writer"):
        if module in sys.modules:
            yield Entry(sys.modules[module].SummaryWriter, "add_scalar", logged)


def _wandb() -> Iterator[Entry]:
    wandb: Any = sys.modules.get("wandb")
    if wandb is None:
        return

    def logged(run: Any, data: Logged, *_: Any, **__: Any) -> Logged:
        return data

    yield Entry(wandb.Run, "log", logged)
    if wandb.run is not None:  # `wandb.init` made this one from the method as it was
        yield Entry(wandb, "log", functools.partial(logged, wandb.run))


def _mlflow() -> Iterator[Entry]:
    mlflow: Any = sys.modules.get("mlflow")
    if mlflow is None:
        return

    def logged(client: Any, run_id: Any, key: Any, value: Any, *_: Any, **__: Any) -> Logged:
        return {key: value}

    def batch(client: Any, run_id: Any, metrics: Any = (), *_: Any, **__: Any) -> Logged:
        return {metric.key: metric.value for metric in metrics}

    yield Entry(mlflow.MlflowClient, "log_metric", logged)
    yield Entry(mlflow.MlflowClient, "log_batch", batch)


ENTRIES: tuple[Callable[[], Iterator[Entry]], ...] = (_tensorboard, _wandb, _mlflow)
"""The functions of each tracker; the module-level ones call these."""
