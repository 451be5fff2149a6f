"""A rank's attempt and its outcome: resume, preemption, failure, finish."""

from __future__ import annotations

import atexit
import signal
from collections.abc import Callable
from typing import Any

from stepwatch.signals.records import LifecycleEvent

from .guard import guarded
from .identity import is_spawned
from .recorder.exceptions import words_of
from .recorder.recorder import Recorder

_ASKED_TO_STOP = (128 + signal.SIGTERM, 128 + signal.SIGINT)


class Lifecycle:
    """Writes LIFECYCLE records and keeps the outcome until the end."""

    def __init__(self, recorder: Recorder) -> None:
        self.guard = recorder.guard
        self._recorder = recorder
        self._preempted = False
        self._outcome: tuple[LifecycleEvent, str] | None = None

    @guarded()
    def resumed(self, from_step: int, checkpoint: str) -> None:
        """The attempt continues from `checkpoint`, with step `from_step`."""
        self._recorder.resume(from_step, checkpoint)

    @guarded()
    def preempted(self) -> None:
        """The rank was asked to stop."""
        self._preempted = True
        step = self._recorder.step_number
        self._recorder.write_lifecycle(LifecycleEvent.PREEMPTION, step, "")

    def finished(self) -> None:
        """The job reached its end."""
        self._outcome = (LifecycleEvent.FINISH, "")

    def failed(self, failure: BaseException) -> None:
        """The process ends with `failure`, unless an outcome is known already.

        Ctrl-C is not a failure, nor is an exit with the code for SIGTERM or SIGINT, as from a
        handler that saves first: the rank was asked to stop. Another exit with a message or with a
        code except 0 is a failure, and so is the error that led to it.
        """
        exits = isinstance(failure, SystemExit)
        cause = failure.__context__ or failure if exits else failure
        if self._outcome is not None or (isinstance(failure, SystemExit) and not failure.code):
            return
        stop_requested = isinstance(failure, SystemExit) and failure.code in _ASKED_TO_STOP
        if isinstance(cause, KeyboardInterrupt) or stop_requested:
            self._outcome = (LifecycleEvent.INTERRUPT, "")
            return
        self._outcome = (LifecycleEvent.FAILURE, type(cause).__name__)
        self._explain(cause)

    @guarded()
    def _explain(self, failure: BaseException) -> None:
        # An exception's own __str__ may fail; its name is kept already.
        self._outcome = (LifecycleEvent.FAILURE, words_of(failure))

    def end(self) -> None:
        """Write the outcome; without one the attempt finished, or was stopped before its end."""
        stopped = (LifecycleEvent.INTERRUPT, "preempted")
        event, text = self._outcome or (stopped if self._preempted else (LifecycleEvent.FINISH, ""))
        self._recorder.write_lifecycle(event, self._recorder.step_number, text)


def at_exit(call: Callable[..., None], argument: Any) -> None:
    """Have `call(argument)` called when this process ends, also by an exception.

    Children of multiprocessing do not run `atexit` handlers.
    """
    if is_spawned():
        from multiprocessing.util import Finalize

        Finalize(None, call, args=(argument,), exitpriority=0)
    else:
        atexit.register(call, argument)
