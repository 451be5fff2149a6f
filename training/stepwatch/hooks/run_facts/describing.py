"""Writes what a run is made of, once, on rank 0."""

from __future__ import annotations

from typing import Any

from stepwatch.hooks.guard import guarded
from stepwatch.hooks.recorder.recorder import Recorder
from stepwatch.signals.records import LifecycleEvent, piece_texts

PARTS = ("config", "model", "code", "data", "environment", "owner")


class Describing:
    """Keeps what the trainer describes until the rank is known, then writes FACT records."""

    def __init__(self, recorder: Recorder) -> None:
        self.guard = recorder.guard
        self._recorder = recorder
        self._kept: list[tuple[str, str]] = []
        self._is_known = False

    @guarded()
    def describe(self, parts: dict[str, Any]) -> None:
        """Write settings by part of the run: now where the rank is known, else after its first
        step."""
        from .flatten import flatten  # not loaded where nothing is watched

        if self._recorder.timeline is None:
            return
        for part, values in parts.items():
            if part not in PARTS:
                self.guard.misuse(f"describe(): no part {part!r}; write {', '.join(PARTS)}")
                continue
            self._kept += flatten(values, part)
        if self._is_known:
            self._write()

    @guarded()
    def first_step_ended(self) -> None:
        """The rank is known, and what it uses is loaded: write what was found and described."""
        self._is_known = True
        if self._is_first():
            from .found import found

            kept, self._kept = self._kept, []
            self.describe(found())
            self._kept = kept
        self._write()

    def _write(self) -> None:
        kept, self._kept = self._kept, []
        if not self._is_first():
            return
        for fact in kept:
            for index, text in enumerate(piece_texts(fact)):
                self._recorder.write_lifecycle(LifecycleEvent.FACT, index, text)

    def _is_first(self) -> bool:
        ring = self._recorder.ring
        return ring is not None and ring.identity.rank == 0 and not self._recorder.is_child()
