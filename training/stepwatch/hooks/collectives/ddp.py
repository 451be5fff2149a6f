"""DistributedDataParallel: its reducer works in C++, where no hook reaches.

The reducer starts its all-reduces while backward computes and waits for all of them in a callback
after the graph. Callbacks run in the order in which they were queued: the first gradient queues
ours before the reducer queues its own, and ours queues another one that runs last. Between these
two the rank waits. The overlap with backward is not seen, and the buckets count as one all-reduce.

Before the reducer's callback, `grad` is still this rank's own gradient: the reducer reduces
copies. Only with `gradient_as_bucket_view` they share memory, and each gradient is checked when it
is ready.
"""

from __future__ import annotations

import functools
import weakref
from typing import Any

from stepwatch.hooks.gradients import in_eager_backward, queue
from stepwatch.hooks.guard import guarded
from stepwatch.hooks.instruments import Instruments
from stepwatch.hooks.models.module_hooks import ModuleHook
from stepwatch.hooks.numerics.replica_updates import keeps_gradients
from stepwatch.signals.records import NumericsSource, Op

from .process_groups import has_group_hooks

_ALL_REDUCE = int(Op.ALL_REDUCE)
_INPUT = NumericsSource.COLLECTIVE_INPUT
_NAME_END = 40

_waits: weakref.WeakKeyDictionary[Any, ReducerWait] = weakref.WeakKeyDictionary()


def watch_ddp(instruments: Instruments, module: Any) -> None:
    """Watch `module`'s reducer if it is DistributedDataParallel; ignore other modules."""
    if not hasattr(module, "require_backward_grad_sync") or not hasattr(module, "reducer"):
        return
    waits = ReducerWait.for_instruments(instruments)
    if waits.adopt(module):
        handle = module.register_forward_hook(ModuleHook(waits.expect))
        instruments.recorder.attachments.keep(handle)


class ReducerWait:
    """Times the end of each backward that reduces gradients, and checks the reducer's input.

    If process-group hooks count the buckets (torch >= 2.14), only the time is taken here.
    """

    def __init__(self, instruments: Instruments) -> None:
        self.guard = instruments.guard
        self._recorder = instruments.recorder
        self._instruments = weakref.proxy(instruments)  # the key for this object
        self._hooked = has_group_hooks()
        self._parameters: weakref.WeakKeyDictionary[Any, list[tuple[str, Any]]] = (
            weakref.WeakKeyDictionary()
        )
        self._pending: list[Any] = []
        self._queued = False
        self._arrived = -1

    @classmethod
    def for_instruments(cls, instruments: Instruments) -> ReducerWait:
        """Return the reducer wait for `instruments`."""
        wait = _waits.get(instruments)
        if wait is None:
            wait = _waits[instruments] = cls(instruments)
        return wait

    @guarded(fallback=False)
    def adopt(self, module: Any) -> bool:
        """Remember `module`'s parameters; return False if they were known already."""
        if module in self._parameters:
            return False
        named = [
            (name, parameter)
            for name, parameter in module.module.named_parameters()
            if parameter.requires_grad
        ]
        self._parameters[module] = named
        self._instruments.numerics.at_source = True
        if module.gradient_as_bucket_view:
            for name, parameter in named:
                if parameter.device.type == "cpu":
                    check = functools.partial(self._check_one, name)
                    handle = parameter.register_post_accumulate_grad_hook(check)
                    self._recorder.attachments.keep(handle)
        return True

    @guarded()
    def expect(self, module: Any, output: Any) -> None:
        """`module` returned `output`: the backward from there reduces, unless under `no_sync`."""
        import torch
        from torch.nn.parallel.distributed import _find_tensors

        if not torch.is_grad_enabled() or self._recorder.timeline is None:
            return
        if not self._recorder.thread.is_current():
            return
        number = self._instruments.groups.number(module.process_group)
        step = self._recorder.step_number
        self._instruments.replica_updates.note_forward(number, step, keeps_gradients(module))
        if not module.require_backward_grad_sync:
            return
        self.adopt(module)
        self._queued = False
        self._abandon()
        on_gradient = functools.partial(self._first_gradient, weakref.ref(module))
        first = in_eager_backward(on_gradient)
        find: Any = _find_tensors
        for tensor in find(output):
            if tensor.grad_fn is not None:
                tensor.register_hook(first)

    def _abandon(self) -> None:
        """Leave a wait that never ended because its backward failed."""
        timeline = self._recorder.timeline
        if self._arrived >= 0 and timeline is not None:
            timeline.step_outside(timeline.entered)
            timeline.leave_wait()
            self._pending.clear()
        self._arrived = -1

    @guarded()
    def _first_gradient(self, reference: weakref.ref[Any], _gradient: Any) -> None:
        module = reference()
        if module is None or not self._recorder.thread.is_current():
            return
        if all(module is not pending for pending in self._pending):
            self._pending.append(module)
        if not self._queued:
            self._queued = True
            queue(self._work_ends)

    @guarded()
    def _work_ends(self) -> None:
        self._queued = False
        timeline = self._recorder.timeline
        if timeline is None or not self._pending or self._arrived >= 0:
            return
        for module in self._pending:
            if not module.gradient_as_bucket_view:
                self._check(self._parameters[module])
        number = self._instruments.groups.number(self._pending[0].process_group)
        if self._hooked:
            timeline.enter_wait(number, _ALL_REDUCE)
            self._arrived = 0
        else:
            self._arrived = timeline.enter_collective(
                number, _ALL_REDUCE, self._nbytes(self._pending)
            )
        queue(self._reduced)

    @guarded()
    def _reduced(self) -> None:
        pending, self._pending = self._pending, []
        arrived, self._arrived = self._arrived, -1
        timeline = self._recorder.timeline
        if timeline is None or arrived < 0:
            return
        if not arrived:
            timeline.leave_wait()
            return
        number = self._instruments.groups.number(pending[0].process_group)
        timeline.leave_collective(number, _ALL_REDUCE, self._nbytes(pending), arrived)

    def _nbytes(self, modules: list[Any]) -> int:
        return sum(
            parameter.nbytes for module in modules for _, parameter in self._parameters[module]
        )

    def _check(self, named: list[tuple[str, Any]]) -> None:
        gradients = [
            (name, parameter.grad) for name, parameter in named if parameter.grad is not None
        ]
        names = [name for name, _ in gradients]  # names only: a check outlives the gradients
        self._instruments.numerics.check(
            [gradient for _, gradient in gradients], lambda index: _short(names[index]), _INPUT
        )

    @guarded()
    def _check_one(self, name: str, parameter: Any) -> None:
        if self._recorder.timeline is not None and self._recorder.thread.is_current():
            self._instruments.numerics.check((parameter.grad,), lambda _: _short(name), _INPUT)


def _short(name: str) -> str:
    """Return the end of a parameter's name, which distinguishes it from its neighbours."""
    return name[-_NAME_END:]
