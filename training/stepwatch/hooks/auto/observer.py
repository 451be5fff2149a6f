"""Turns torch's calls, one event after the other, into phases and steps.

The order of events shows more than any single call. A rank is in forward from a batch's arrival
until backward begins. If no loader delivers batches, it is in forward while a
DistributedDataParallel model runs: afterwards come its loss or the next batch, which are other
work. A batch without a backward is other work, unless its model was called without gradients:
then the batch was evaluated, and so are the next ones. The first optimizer seen ends the step.
"""

from __future__ import annotations

import threading
import weakref
from contextlib import AbstractContextManager
from typing import Any

from stepwatch.hooks.collectives.ddp import ReducerWait
from stepwatch.hooks.core import Timeline
from stepwatch.hooks.guard import guarded
from stepwatch.hooks.numerics.deferred_scalars import Scalar
from stepwatch.hooks.optimizers import steps_done
from stepwatch.hooks.steps import Steps
from stepwatch.signals.records import UNKNOWN_FLOAT, Phase

_OTHER, _DATA, _FORWARD = int(Phase.OTHER), int(Phase.DATA), int(Phase.FORWARD)
_BACKWARD, _OPTIMIZER = int(Phase.BACKWARD), int(Phase.OPTIMIZER)
_EVAL = int(Phase.EVAL)


class LoopObserver:
    """Follows the loop in one training thread: the thread that creates it.

    `boundaries`: an optimizer's step ends the step. Without it, an adapter that knows its
    framework's steps ends them itself with `end_step`.
    """

    def __init__(self, steps: Steps, *, boundaries: bool = True) -> None:
        self.guard = steps.guard
        self.reducer = ReducerWait.for_instruments(steps.instruments)
        self._steps = steps
        self._recorder = steps.recorder
        self._boundaries = boundaries
        self._pauses = steps.instruments.pauses
        self._evaluation = self._pauses.evaluation
        self._evaluation.on_begin = self._evaluation_begins
        self._evaluation.on_end = self._resume
        self._batch_came: tuple[int, int] | None = None
        self._batch_tokens = 0
        self._inferred = False
        self._by_fetch = self._trains_without_gradients = False
        self._in_data = False
        self._forward_from = -1  # the step's forward time when forward was opened; -1 while closed
        self._by_model = self._after_model = False  # a model call opened forward; it returned
        self._depth = 0
        self._stepping: weakref.ref[Any] | None = None
        self._in_optimizer = False
        self._leader: weakref.ref[Any] | None = None
        self._others: set[int] = set()
        self._loss: Scalar = UNKNOWN_FLOAT
        self._grad_norm: Scalar = UNKNOWN_FLOAT
        self._tokens = 0
        self._recorder.adopt_thread()
        self._recorder.begin()

    def timeline(self) -> Timeline | None:
        """Return the timeline if this is the training thread and a Watch records."""
        trains = threading.get_ident() == self._recorder.thread.ident
        return self._recorder.timeline if trains else None

    def phase(self, name: str) -> AbstractContextManager[None]:
        """Return a context manager around a phase that a framework names."""
        return self._steps.phases.named(name)

    @guarded(fallback=False)
    def data_begins(self) -> bool:
        """Note that the loader is asked for a batch; False if `data_ends` must not be called."""
        timeline = self.timeline()
        if timeline is None or self._in_data or self._depth:
            return False
        self._compare_with_training(timeline)
        self._in_data = True
        timeline.enter(_EVAL if self._evaluation.active else _DATA)
        return True

    @guarded()
    def data_ends(self, *, came: bool) -> None:
        """Note that the loader answered: with a batch if `came`, else it has no more."""
        self._in_data = False
        timeline = self.timeline()
        if timeline is not None:
            timeline.leave()
            if not self._evaluation.active:
                if came:
                    self._open_forward(timeline)
            elif self._evaluation.lasting:
                self._batch_came = (timeline.step, timeline.totals[_EVAL]) if came else None

    @guarded()
    def forward_begins(self) -> None:
        """Note that a framework calls its model to train it; backward or the next batch ends it."""
        timeline = self.timeline()
        if timeline is not None and not self._in_optimizer:
            self._evaluation.ends()
            self._open_forward(timeline)

    @guarded()
    def model_called(self, module: Any) -> None:
        """Note that a DistributedDataParallel `module` is called with gradients."""
        timeline = self.timeline()
        if timeline is not None:
            self._steps.instruments.digests.follow(module)
            self._evaluation.called(gradients=True, training=module.training)
            self._inferred = False
            if not (self._in_optimizer or self._evaluation.active):
                self._open_forward(timeline, by_model=True)

    @guarded()
    def model_returned(self) -> None:
        """Note that the model that was called last has returned."""
        timeline = self.timeline()
        if timeline is not None and self._by_model and not self._after_model:
            self._after_model = True
            timeline.enter(_OTHER)

    @guarded()
    def model_inferred(self) -> None:
        """Note that a DistributedDataParallel model is called without gradients."""
        if self.timeline() is not None:
            if self._forward_from >= 0:
                self._inferred = True
            else:
                self._evaluation.called(gradients=False, training=False)

    @guarded(fallback=False)
    def backward_begins(self) -> bool:
        """Note a backward call, maybe nested; False if `backward_ends` must not be called."""
        timeline = self.timeline()
        if timeline is None:
            return False
        if not self._depth and not self._evaluation.inside:
            self._close_forward(timeline)
            self._end_evaluation(timeline)
            timeline.microbatches += 1
            self._tokens, self._batch_tokens = self._tokens + self._batch_tokens, 0
        self._depth += 1
        timeline.enter(_BACKWARD)
        return True

    @guarded()
    def backward_ends(self) -> None:
        """Note that the backward that began last has returned."""
        self._depth -= 1
        timeline = self.timeline()
        if timeline is None:
            return
        timeline.leave()
        if not self._depth and self._stepping is not None and not self._in_optimizer:
            self._in_optimizer = True
            timeline.enter(_OPTIMIZER)

    @guarded()
    def optimizer_begins(self, optimizer: Any, *, closure: bool) -> None:
        """Note that `optimizer.step` is called; a `closure` runs forward and backward first."""
        timeline = self.timeline()
        if timeline is None:
            return
        if self._stepping is not None and self._stepping() not in (None, optimizer):
            return  # an optimizer that wraps others, as Accelerate's does
        self._leave_optimizer(timeline)
        if self._boundaries and self._leader is None:
            self._count_on(optimizer)
        self._stepping = weakref.ref(optimizer)
        self._steps.instruments.learning_rates.note(optimizer)
        self._steps.instruments.replica_updates.note_update()
        self._pauses.follow_optimizer(optimizer)
        self._evaluation.ends()
        if closure:
            self._open_forward(timeline)
        else:
            self._close_forward(timeline)
            self._in_optimizer = True
            timeline.enter(_OPTIMIZER)

    @guarded()
    def optimizer_ends(self, optimizer: Any) -> None:
        """Note that `optimizer.step` returns."""
        timeline = self.timeline()
        if timeline is None or self._stepping is None or self._stepping() is not optimizer:
            return
        self._leave_optimizer(timeline)
        if self._boundaries and self._leads(optimizer):
            self.end_step()

    @guarded()
    def record(self, *, loss: Any = None, grad_norm: Any = None, tokens: int = 0) -> None:
        """Note numbers for the current step: floats or one-element tensors; `tokens` add up."""
        if self.timeline() is not None:
            if loss is not None:
                self._loss = self._steps.scalar(loss)
            if grad_norm is not None:
                self._grad_norm = self._steps.scalar(grad_norm)
            self._tokens += tokens

    @guarded()
    def batch_holds(self, tokens: int) -> None:
        """Note that the trainer got a batch with `tokens`, which count once a backward follows."""
        if self.timeline() is not None and not self._evaluation.inside:
            earlier_tokens = 0 if self._evaluation.lasting else self._batch_tokens
            self._batch_tokens = earlier_tokens + tokens

    @guarded()
    def end_step(self) -> None:
        """End the step, at the request of a framework or the leading optimizer."""
        loss, grad_norm, tokens = self._loss, self._grad_norm, self._tokens
        self._loss = self._grad_norm = UNKNOWN_FLOAT
        self._tokens = 0
        self._steps.end(tokens, loss, grad_norm, 0)

    def _count_on(self, optimizer: Any) -> None:
        """Number the first step like a loaded optimizer's state, unless the trainer numbered it."""
        loaded_steps = steps_done(optimizer)
        if loaded_steps and not self._recorder.step_number:
            self._recorder.start_at(loaded_steps)

    def _open_forward(self, timeline: Timeline, *, by_model: bool = False) -> None:
        self._leave_after_model(timeline)
        if self._forward_from < 0:
            self._forward_from = timeline.totals[_FORWARD]
            self._by_model = by_model
            timeline.enter(_FORWARD)

    def _close_forward(self, timeline: Timeline) -> None:
        self._leave_after_model(timeline)
        if self._forward_from >= 0:
            self._forward_from = -1
            self._inferred = self._by_model = False
            timeline.leave()

    def _leave_after_model(self, timeline: Timeline) -> None:
        if self._after_model:
            self._after_model = False
            timeline.leave()

    def _drop_forward(self, timeline: Timeline) -> None:
        """Close a forward that had no backward and move its time to evaluation or other work."""
        baseline_ns, inferred = self._forward_from, self._inferred
        self._close_forward(timeline)
        spent = timeline.totals[_FORWARD] - baseline_ns
        if baseline_ns >= 0 and spent > 0:
            timeline.move(_FORWARD, _EVAL if inferred else _OTHER, spent)

    def _compare_with_training(self, timeline: Timeline) -> None:
        """A batch is requested: find out whether it is a training batch."""
        import torch

        evaluation, gradients = self._evaluation, torch.is_grad_enabled()
        if self._by_fetch and gradients:
            evaluation.ends()
        evaluation.ends_if_training()
        if evaluation.active:
            return
        inferred = self._inferred
        self._pause()
        by_fetch = not (gradients or self._trains_without_gradients)
        if inferred or by_fetch:
            evaluation.begins()
            self._by_fetch = by_fetch

    def _end_evaluation(self, timeline: Timeline) -> None:
        """Backward begins: an apparent evaluation since the last batch was forward."""
        came, was = self._batch_came, self._evaluation.lasting
        self._evaluation.on_end = None
        self._evaluation.ends()
        self._evaluation.on_end = self._resume
        self._batch_came = None
        if was and came is not None:
            self._trains_without_gradients |= self._by_fetch
            step, baseline_ns = came
            spent = timeline.totals[_EVAL] - (baseline_ns if step == timeline.step else 0)
            timeline.move(_EVAL, _FORWARD, spent)

    def _evaluation_begins(self) -> None:
        self._batch_tokens = 0
        self._pause()

    def _pause(self) -> None:
        """Close the current forward or optimizer phase: no backward follows."""
        timeline = self.timeline()
        if timeline is not None:
            self._leave_optimizer(timeline)
            self._drop_forward(timeline)
            self._batch_came, self._by_fetch = None, False

    def _resume(self) -> None:
        """An evaluation has ended; a batch that arrived in it is a training batch."""
        timeline = self.timeline()
        if timeline is not None and self._batch_came is not None:
            self._open_forward(timeline)
        else:
            self._batch_tokens = 0
        self._batch_came = None

    def _leave_optimizer(self, timeline: Timeline) -> None:
        self._stepping = None
        if self._in_optimizer:
            self._in_optimizer = False
            timeline.leave()

    def _leads(self, optimizer: Any) -> bool:
        """Return whether `optimizer` ends steps: it is the first seen and still steps.

        Another optimizer that steps twice in the meantime takes its place.
        """
        leader = self._leader() if self._leader is not None else None
        if leader is not optimizer:
            if leader is not None and id(optimizer) not in self._others:
                self._others.add(id(optimizer))
                return False
            self._leader = weakref.ref(optimizer)
        self._others.clear()
        return True
