"""The current evaluation on the training thread, recognised by the trainer's calls.

`model.eval()` shows when an evaluation begins, but no call shows when it ends: the model may train
again without `train()`. So such an evaluation is below all phases: time without a phase is
evaluation instead of other work, until a sign of training. An evaluation inside a function that
evaluates or generates ends with that function, and counts as evaluation inside any phase.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from types import TracebackType
from typing import Any

from stepwatch.hooks.core import Timeline
from stepwatch.hooks.guard import guarded
from stepwatch.hooks.recorder.recorder import Recorder
from stepwatch.signals.records import Phase

LEAST_CALLS, LEAST_NS = 2, 1_000_000_000
"""Calls and time that make a loop an evaluation.

These are consecutive calls without gradients, and ns since the first. Fewer are part of a step,
for a teacher, a reference or a metric.
"""
_EVAL = int(Phase.EVAL)
_BELOW = 1
"""An evaluation's place in the timeline's stack: on OTHER, below all phases."""

Listener = Callable[[], None]


class Evaluation:
    """Counts time as evaluation from a sign of one to a sign of training.

    Called on any thread; outside the training thread nothing happens.
    """

    def __init__(self, recorder: Recorder) -> None:
        self.guard = recorder.guard
        self._recorder = recorder
        self.lasting = False
        """Whether an evaluation is active that a sign of training ends."""
        self.pending = False
        """Whether `ends` has anything to do."""
        self.inside = 0
        """Active calls that evaluate."""
        self._model: weakref.ref[Any] | None = None
        self._calls = 0
        self._first_call = 0
        self._expects_backward = False
        self.on_begin: Listener | None = None
        """Called before a lasting evaluation begins."""
        self.on_end: Listener | None = None
        """Called after a lasting evaluation has ended."""

    @property
    def active(self) -> bool:
        """Return whether any evaluation is active."""
        return self.lasting or self.inside > 0

    @guarded()
    def begins(self, model: Any = None) -> None:
        """One begins, because `model` was put into evaluation mode or is called as if it were."""
        timeline = self._timeline()
        if timeline is None or self.active:
            return
        if self.on_begin is not None:
            self.on_begin()
        self.lasting = self.pending = True
        self._model = None if model is None else weakref.ref(model)
        # [] -> evaluation runs; [OTHER] in forward -> [OTHER, EVAL] in forward: it comes next
        if timeline.stack:
            timeline.insert_outer(_BELOW, _EVAL)
        else:
            timeline.enter(_EVAL)

    @guarded()
    def ends(self) -> None:
        """A sign of training: a lasting evaluation has ended, and the call count restarts."""
        timeline = self._timeline() if self.pending else None
        if timeline is None:
            return
        self._calls, self._expects_backward, self.pending = 0, False, False
        if not self.lasting:
            return
        self.lasting = False
        is_below = timeline.remove_outer(_BELOW, _EVAL)
        if not is_below and timeline.bucket == _EVAL and len(timeline.stack) == _BELOW:
            timeline.leave()
        if self.on_end is not None:
            self.on_end()

    def ends_if_training(self) -> None:
        """End a lasting evaluation whose model trains again, without a `train()` call."""
        model = self._model() if self.lasting and self._model is not None else None
        if model is not None and model.training:
            self.ends()

    @guarded()
    def called(self, *, gradients: bool, training: bool) -> None:
        """A whole model is called, with or without `gradients`, in `training` mode or not."""
        timeline = self._timeline()
        if timeline is None or self.inside:
            return
        if gradients:
            if training or not self.lasting:
                self.ends()
                self._expects_backward = self.pending = True
            return
        if self.lasting or self._expects_backward:
            return
        now = self._recorder.clock()
        self._first_call = self._first_call if self._calls else now
        self._calls += 1
        self.pending = True
        if self._calls >= LEAST_CALLS and now - self._first_call >= LEAST_NS:
            self.begins()

    def scope(self) -> AbstractContextManager[None]:
        """Return a context manager around a call that evaluates; a no-op inside another one."""
        if self._timeline() is None or self.active:
            return nullcontext()
        return _Scope(self)

    def enter(self) -> Timeline | None:
        """Count the time as evaluation from now on; return the argument for `leave`."""
        timeline = self._timeline()
        if timeline is not None:
            self.inside += 1
            timeline.enter(_EVAL)
        return timeline

    def leave(self, timeline: Timeline) -> None:
        """The call that `enter` started has returned."""
        self.inside -= 1
        if self._recorder.timeline is timeline:
            timeline.leave()

    def _timeline(self) -> Timeline | None:
        trains = threading.get_ident() == self._recorder.thread.ident
        return self._recorder.timeline if trains else None


class _Scope:
    def __init__(self, evaluation: Evaluation) -> None:
        self._evaluation = evaluation
        self._timeline: Timeline | None = None

    def __enter__(self) -> None:
        self._timeline = self._evaluation.enter()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._timeline is not None:
            self._evaluation.leave(self._timeline)
