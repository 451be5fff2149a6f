"""Metrics and tags of an MLflow run; MLFLOW_TRACKING_URI names the server or store."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from mlflow import MlflowClient
from mlflow.entities import Metric, RunData
from mlflow.exceptions import MlflowException

from .sample import PREFIX, Note, Sample
from .target import Target, TargetError

T = TypeVar("T")
_NOTES = "stepwatch.incident."
_MOST_CHARACTERS = 5000
"""The limit of every MLflow store for a tag's value."""


class Mlflow(Target):
    """Writes into the run with an id; a finished run is written, too.

    Raises:
        TargetError: there is no such run, or the server does not answer.
    """

    def __init__(self, run: str) -> None:
        self._run = run
        self._client = _tried(MlflowClient)
        self._data()

    def newest_step(self) -> int:
        names = [name for name in self._data().metrics if name.startswith(PREFIX)]
        histories = _tried(
            lambda: [self._client.get_metric_history(self._run, name) for name in names]
        )
        return max((metric.step for history in histories for metric in history), default=-1)

    def headlines(self) -> Mapping[str, str]:
        return {
            name.removeprefix(_NOTES): text.partition("\n")[0]
            for name, text in self._data().tags.items()
            if name.startswith(_NOTES)
        }

    def write(self, sample: Sample) -> None:
        moment_ms = round(sample.wall_s * 1000)
        metrics = [
            Metric(name, value, moment_ms, sample.step) for name, value in sample.values.items()
        ]
        _tried(lambda: self._client.log_batch(self._run, metrics=metrics))

    def note(self, note: Note) -> None:
        text = note.text[:_MOST_CHARACTERS]
        _tried(lambda: self._client.set_tag(self._run, _NOTES + note.incident, text))

    def close(self) -> None:
        pass

    def _data(self) -> RunData:
        return _tried(lambda: self._client.get_run(self._run)).data


def _tried(act: Callable[[], T]) -> T:
    """Return the result of a call to MLflow.

    Raises:
        TargetError: it failed.
    """
    try:
        return act()
    except (MlflowException, OSError) as error:
        raise TargetError.of("MLflow", error) from error
