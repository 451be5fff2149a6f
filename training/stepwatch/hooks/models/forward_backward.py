"""A watched model's forward and backward, if the trainer marks neither.

Forward is the time in a model that DistributedDataParallel or FSDP2 wraps: hooks on another model
would keep it out of `make_graphed_callables` and `torch.jit.script`. Backward is the time in
`torch.autograd.backward`, which `Tensor.backward` calls. Both count only if the time would be
other work: a phase that the trainer marks, an evaluation or a save takes precedence.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any

from stepwatch.hooks.core import Timeline
from stepwatch.hooks.gradients import in_backward
from stepwatch.hooks.guard import guarded
from stepwatch.hooks.pauses.evaluation import Evaluation
from stepwatch.hooks.recorder.recorder import Recorder
from stepwatch.signals.records import Phase

from .module_hooks import ModuleHook
from .wrapped import is_wrapped

Function = Callable[..., Any]
_OTHER, _FORWARD, _BACKWARD = int(Phase.OTHER), int(Phase.FORWARD), int(Phase.BACKWARD)


class ForwardBackward:
    """Counts the time in one Watch's models; counts nothing outside the training thread."""

    def __init__(self, recorder: Recorder, evaluation: Evaluation) -> None:
        self._evaluation = evaluation
        self.guard = recorder.guard
        self._recorder = recorder
        self._followed: weakref.WeakSet[Any] = weakref.WeakSet()
        self._wanted = True
        self._running: weakref.ref[Any] | None = None

    @guarded()
    def follow(self, model: Any) -> None:
        """Count `model`'s forward, if it is wrapped, and from now on every backward."""
        if not self._wanted:
            return
        attachments = self._recorder.attachments
        self._follow_backward()
        if is_wrapped(model) and model not in self._followed:
            self._followed.add(model)
            attachments.keep(model.register_forward_pre_hook(ModuleHook(self.begins)))
            ends = ModuleHook(self.ends)
            attachments.keep(model.register_forward_hook(ends, always_call=True))

    @guarded()
    def close(self) -> None:
        """Count nothing from now on: the Watch closes, or an observer of the loop finds phases."""
        self._wanted = False

    @guarded()
    def begins(self, model: Any) -> None:
        """`model` is called; inside backward, recomputation is part of backward."""
        import torch

        self._leave_interrupted(model)
        timeline = self._other_work()
        if timeline is None or in_backward() or not torch.is_grad_enabled():
            return
        self._running = weakref.ref(model)
        timeline.enter(_FORWARD)

    @guarded()
    def ends(self, model: Any, _output: Any = None) -> None:
        """`model` returned or raised."""
        timeline = self._recorder.timeline
        if self._running is None or self._running() is not model:
            return
        self._running = None
        if timeline is not None and timeline.bucket == _FORWARD:
            timeline.leave()

    def _follow_backward(self) -> None:
        import torch

        attachments, inner = self._recorder.attachments, torch.autograd.backward
        if not attachments.has(inner):
            attachments.replace(torch.autograd, "backward", self._counted(inner))

    def _counted(self, inner: Function) -> Function:
        import torch

        compiling = torch.compiler.is_compiling

        @functools.wraps(inner)
        def backward(*args: Any, **kwargs: Any) -> Any:
            timeline = None if compiling() else self._begins_backward()
            if timeline is None:
                return inner(*args, **kwargs)
            with timeline.buckets[_BACKWARD]:
                return inner(*args, **kwargs)

        return backward

    @guarded()
    def _begins_backward(self) -> Timeline | None:
        """Return the timeline if it counts this backward, which also ends an evaluation."""
        if self._wanted and self._evaluation.pending and not self._evaluation.inside:
            self._evaluation.ends()
        return self._other_work()

    def _other_work(self) -> Timeline | None:
        """Return the timeline if it counts this thread's time as other work."""
        timeline = self._recorder.timeline
        if timeline is None or not self._wanted or not self._recorder.thread.is_current():
            return None
        return timeline if timeline.bucket == _OTHER else None

    def _leave_interrupted(self, model: Any) -> None:
        # KeyboardInterrupt and similar exceptions bypass torch's hooks after a forward.
        if self._running is not None and self._running() is model:
            self.ends(model)
