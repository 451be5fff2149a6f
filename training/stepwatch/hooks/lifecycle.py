"""How the attempt of a rank goes and how it ends: resume, preemption, failure, finish."""

from __future__ import annotations

from stepwatch.signals.records import LifecycleEvent

from .guard import guarded
from .recorder.recorder import Recorder


class Lifecycle:
    """Writes LIFECYCLE records and keeps the outcome until the end."""

    def __init__(self, recorder: Recorder) -> None:
        self.guard = recorder.guard
        self._recorder = recorder
        self._preempted = False
        self._outcome: tuple[LifecycleEvent, str] | None = None

    @guarded()
    def resumed(self, from_step: int, steps_lost: int) -> None:
        """The attempt goes on from the checkpoint of `from_step`."""
        text = f"steps_lost={steps_lost}"
        self._recorder.write_lifecycle(LifecycleEvent.RESUME, from_step, text)

    @guarded()
    def preempted(self) -> None:
        """Somebody asked the rank to stop."""
        self._preempted = True
        step = self._recorder.step_number
        self._recorder.write_lifecycle(LifecycleEvent.PREEMPTION, step, "")

    def finished(self) -> None:
        """The job reached its end."""
        self._outcome = (LifecycleEvent.FINISH, "")

    def failed(self, failure: BaseException) -> None:
        """The process ends with `failure`, unless an outcome is known already."""
        if self._outcome is None:
            self._outcome = (LifecycleEvent.FAILURE, type(failure).__name__)
            self._explain(failure)

    @guarded()
    def _explain(self, failure: BaseException) -> None:
        # An exception's own __str__ may fail; its name is kept already.
        self._outcome = (LifecycleEvent.FAILURE, f"{type(failure).__name__}: {failure}")

    def end(self) -> None:
        """Write the outcome; without one the attempt finished."""
        stopped = "preempted" if self._preempted else ""
        event, text = self._outcome or (LifecycleEvent.FINISH, stopped)
        self._recorder.write_lifecycle(event, self._recorder.step_number, text)
