"""Paths that the trainer loads before its first step: one may be the checkpoint of a resume."""

from __future__ import annotations

from typing import Any

from stepwatch.hooks.guard import guarded
from stepwatch.hooks.recorder.recorder import Recorder
from stepwatch.signals.records import Kind, LifecycleEvent, piece_texts, text_bytes
from stepwatch.signals.records.pieces import PIECE_BYTES

from .save_paths import plain_path

MOST_LOADS = 8
"""Paths reported in a process; a folder's files are as many as its trainer loads."""


class Loads:
    """Reports each loaded path once, in LOADED_PATH records."""

    def __init__(self, recorder: Recorder) -> None:
        self.guard = recorder.guard
        self._recorder = recorder
        self._paths: set[str] = set()

    @property
    def reports(self) -> bool:
        """Whether a path that is loaded now is reported: on the training thread, before a step."""
        recorder = self._recorder
        is_early = not recorder.has_stepped and len(self._paths) < MOST_LOADS
        return is_early and recorder.timeline is not None and recorder.thread.is_current()

    @guarded()
    def note(self, place: Any) -> None:
        """Report the path of a file, a file object or a folder that is loaded now."""
        path = plain_path(place) if self.reports else ""
        ring = self._recorder.ring
        if not path or path in self._paths or ring is None or self._recorder.is_child():
            return
        self._paths.add(path)
        for index, text in enumerate(piece_texts((path, ""))):
            ring.write(
                *(Kind.LIFECYCLE, self._recorder.step_number, self._recorder.clock()),
                *(LifecycleEvent.LOADED_PATH, index, text_bytes(text, PIECE_BYTES)),
            )
