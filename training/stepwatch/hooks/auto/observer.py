"""Turns what torch does, one event after the other, into phases and steps.

The order of events gives what no single call does. From the moment a batch came, or a
DistributedDataParallel model was called, until backward begins, a rank is in forward. A batch that
no backward followed was evaluated, if `eval()` was called, and is other work if not. The first
optimizer seen ends the step.
"""

from __future__ import annotations

import threading
import weakref
from contextlib import AbstractContextManager
from typing import Any

from stepwatch.hooks.collectives.ddp import ReducerWait
from stepwatch.hooks.guard import guarded
from stepwatch.hooks.numerics.deferred_scalars import Scalar
from stepwatch.hooks.recorder.timeline import Timeline
from stepwatch.hooks.steps import Steps
from stepwatch.signals.records import UNKNOWN_FLOAT, Phase

_OTHER, _DATA, _FORWARD = int(Phase.OTHER), int(Phase.DATA), int(Phase.FORWARD)
_BACKWARD, _OPTIMIZER = int(Phase.BACKWARD), int(Phase.OPTIMIZER)
_CHECKPOINT, _EVAL = int(Phase.CHECKPOINT), int(Phase.EVAL)


class LoopObserver:
    """Follows the loop of one training thread: the one that makes it.

    `boundaries`: an optimizer's step ends the step. Without it, an adapter that knows the steps of
    its framework ends them itself with `end_step`.
    """

    def __init__(self, steps: Steps, *, boundaries: bool = True) -> None:
        self.guard = steps.guard
        self.reducer = ReducerWait.of(steps.instruments)
        self._steps = steps
        self._recorder = steps.recorder
        self._boundaries = boundaries
        self._evaluating = False
        self._in_data = False
        self._forward_from = -1  # forward time of the step when it was opened; -1 while closed
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
        """The timeline if this is the training thread and something is recorded."""
        trains = threading.get_ident() == self._recorder.thread.ident
        return self._recorder.timeline if trains else None

    def phase(self, name: str) -> AbstractContextManager[None]:
        """Context manager around a phase that a framework names."""
        return self._steps.phases.named(name)

    @guarded(fallback=False)
    def data_begins(self) -> bool:
        """The loader is asked for a batch; False where `data_ends` must not be called."""
        timeline = self.timeline()
        if timeline is None or self._in_data or self._depth:
            return False
        self._leave_optimizer(timeline)
        self._drop_forward(timeline)
        self._in_data = True
        timeline.enter(_EVAL if self._evaluating else _DATA)
        return True

    @guarded()
    def data_ends(self, *, came: bool) -> None:
        """The loader answered: a batch `came`, or there are no more."""
        self._in_data = False
        timeline = self.timeline()
        if timeline is not None:
            timeline.leave()
            if came:
                self._open_forward(timeline)

    @guarded()
    def forward_begins(self) -> None:
        """A framework calls its model; backward or the next batch ends it."""
        timeline = self.timeline()
        if timeline is not None and not self._in_optimizer:
            self._open_forward(timeline)

    @guarded()
    def model_called(self, module: Any) -> None:
        """A DistributedDataParallel `module` is called with gradients."""
        timeline = self.timeline()
        if timeline is not None:
            self._steps.instruments.digests.follow(module)
            if not self._in_optimizer:
                self._open_forward(timeline)

    @guarded()
    def evaluation_begins(self) -> None:
        """A model was put into evaluation mode; the next backward ends it."""
        if self.timeline() is not None:
            self._evaluating = True

    @guarded(fallback=False)
    def backward_begins(self) -> bool:
        """Backward is called, maybe inside another; False where `backward_ends` must not be."""
        timeline = self.timeline()
        if timeline is None:
            return False
        if not self._depth:
            self._close_forward(timeline)
            self._evaluating = False
            timeline.microbatches += 1
        self._depth += 1
        timeline.enter(_BACKWARD)
        return True

    @guarded()
    def backward_ends(self) -> None:
        """The backward that began last has returned."""
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
        """`optimizer.step` is called; with a `closure`, forward and backward come first."""
        timeline = self.timeline()
        if timeline is None:
            return
        if self._stepping is not None and self._stepping() not in (None, optimizer):
            return  # an optimizer that wraps others, as Accelerate's does
        self._leave_optimizer(timeline)
        self._stepping = weakref.ref(optimizer)
        if closure:
            self._open_forward(timeline)
        else:
            self._close_forward(timeline)
            self._in_optimizer = True
            timeline.enter(_OPTIMIZER)

    @guarded()
    def optimizer_ends(self, optimizer: Any) -> None:
        """`optimizer.step` returns."""
        timeline = self.timeline()
        if timeline is None or self._stepping is None or self._stepping() is not optimizer:
            return
        self._leave_optimizer(timeline)
        if self._boundaries and self._leads(optimizer):
            self.end_step()

    @guarded(fallback=False)
    def save_begins(self) -> bool:
        """Something is saved; False where `save_ends` must not be called."""
        timeline = self.timeline()
        if timeline is None or timeline.bucket == _CHECKPOINT:
            return False
        timeline.enter(_CHECKPOINT)
        return True

    @guarded()
    def save_ends(self) -> None:
        """It is saved."""
        timeline = self.timeline()
        if timeline is not None:
            timeline.leave()

    @guarded()
    def record(self, *, loss: Any = None, grad_norm: Any = None, tokens: int = 0) -> None:
        """Note numbers of the running step: floats or one-element tensors; `tokens` add up."""
        if self.timeline() is not None:
            if loss is not None:
                self._loss = self._steps.scalar(loss)
            if grad_norm is not None:
                self._grad_norm = self._steps.scalar(grad_norm)
            self._tokens += tokens

    @guarded()
    def end_step(self) -> None:
        """The step ends, as a framework or the leading optimizer has it."""
        loss, grad_norm, tokens = self._loss, self._grad_norm, self._tokens
        self._loss = self._grad_norm = UNKNOWN_FLOAT
        self._tokens = 0
        self._steps.end(tokens, loss, grad_norm, 0)

    def _open_forward(self, timeline: Timeline) -> None:
        if self._forward_from < 0:
            self._forward_from = timeline.totals[_FORWARD]
            timeline.enter(_FORWARD)

    def _close_forward(self, timeline: Timeline) -> None:
        if self._forward_from >= 0:
            self._forward_from = -1
            timeline.leave()

    def _drop_forward(self, timeline: Timeline) -> None:
        """Close a forward that had no backward and book its time to what it was."""
        before = self._forward_from
        self._close_forward(timeline)
        spent = timeline.totals[_FORWARD] - before
        if before >= 0 and spent > 0:
            timeline.totals[_FORWARD] -= spent
            timeline.totals[_EVAL if self._evaluating else _OTHER] += spent

    def _leave_optimizer(self, timeline: Timeline) -> None:
        self._stepping = None
        if self._in_optimizer:
            self._in_optimizer = False
            timeline.leave()

    def _leads(self, optimizer: Any) -> bool:
        """Whether `optimizer` is the one that ends steps: the first seen, while it steps on.

        One that steps twice in the meantime takes its place.
        """
        leader = self._leader() if self._leader is not None else None
        if leader is not optimizer:
            if leader is not None and id(optimizer) not in self._others:
                self._others.add(id(optimizer))
                return False
            self._leader = weakref.ref(optimizer)
        self._others.clear()
        return True
