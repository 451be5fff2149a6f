"""The phases that a trainer can name."""

from __future__ import annotations

from contextlib import AbstractContextManager

from stepwatch.signals.records import PHASE_BY_NAME

from .core import Nothing
from .recorder.recorder import Recorder

PhaseContext = AbstractContextManager[None]
"""Counts time to one phase while entered; reusable, and at any depth."""


class Phases:
    """A context manager for each phase, by name."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self.by_name: dict[str, PhaseContext] = dict.fromkeys(PHASE_BY_NAME, Nothing())
        self.renew()

    def renew(self) -> None:
        """Fetch the timeline's buckets again into the same dict: other objects hold it."""
        timeline = self._recorder.timeline
        if timeline is not None:
            buckets = timeline.buckets
            self.by_name.update({name: buckets[phase] for name, phase in PHASE_BY_NAME.items()})

    def named(self, name: str) -> PhaseContext:
        """Return the phase called `name`, or `other` if unknown; a no-op on another thread."""
        phase = self.by_name.get(name) if isinstance(name, str) else None
        if phase is None:
            names = ", ".join(PHASE_BY_NAME)
            message = f"phase {name!r:.80} is not one of {names}; counted as other"
            self._recorder.guard.misuse(message)
            phase = self.by_name["other"]
        return phase if self._recorder.thread.is_current() else Nothing()
