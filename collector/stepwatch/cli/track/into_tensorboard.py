"""Event files for TensorBoard, in a run of their own below the trainer's."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tensorboard.backend.event_processing.directory_watcher import DirectoryDeletedError
from tensorboard.backend.event_processing.event_accumulator import (
    SCALARS,
    TENSORS,
    EventAccumulator,
)
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.plugins.text.summary_v2 import text_pb
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from stepwatch.signals.phrases import file_problem

from .sample import PREFIX, Note, Sample
from .target import Target, TargetError

FOLDER = "stepwatch"
"""A run's reader follows one writer at a time, so the trainer's own folder stays its own."""
_NOTES = f"{PREFIX}incidents/"
_NEWEST_ONLY = {SCALARS: 1, TENSORS: 1}


class TensorBoard(Target):
    """Writes into `stepwatch` below a log directory; the directory must exist.

    Raises:
        TargetError: there is no such directory, or it cannot be written.
    """

    def __init__(self, directory: str) -> None:
        if not Path(directory).is_dir():
            raise TargetError(f"there is no directory {directory}; name the run's log directory")
        self._folder = str(Path(directory) / FOLDER)
        try:
            Path(self._folder).mkdir(exist_ok=True)
            self._writer = EventFileWriter(self._folder)
        except OSError as error:
            raise TargetError(f"{self._folder}: {file_problem(error)}") from error

    def newest_step(self) -> int:
        written = self._written()
        tags = written.Tags()[SCALARS]
        return max((written.Scalars(tag)[-1].step for tag in tags), default=-1)

    def headlines(self) -> Mapping[str, str]:
        written = self._written()
        tags = [tag for tag in written.Tags()[TENSORS] if tag.startswith(_NOTES)]
        texts = {tag: written.Tensors(tag)[-1].tensor_proto.string_val for tag in tags}
        return {
            tag.removeprefix(_NOTES): text[0].decode("utf-8", "replace").partition("\n")[0]
            for tag, text in texts.items()
        }

    def write(self, sample: Sample) -> None:
        values = [
            Summary.Value(tag=name, simple_value=value) for name, value in sample.values.items()
        ]
        self._add(sample, Summary(value=values))

    def note(self, note: Note) -> None:
        self._add(note, text_pb(_NOTES + note.incident, note.text))

    def close(self) -> None:
        self._writer.close()

    def _written(self) -> EventAccumulator:
        """Return the newest event of each tag; a torn record at a file's end is not in it."""
        try:
            return EventAccumulator(self._folder, _NEWEST_ONLY).Reload()
        except DirectoryDeletedError as error:
            raise TargetError(f"{self._folder} was removed") from error

    def _add(self, dated: Sample | Note, summary: Any) -> None:
        try:
            self._writer.add_event(Event(wall_time=dated.wall_s, step=dated.step, summary=summary))
            self._writer.flush()
        except OSError as error:
            raise TargetError(f"{self._folder}: {file_problem(error)}") from error
