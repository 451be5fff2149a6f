"""DistributedDataParallel: the wait for its reducer, which works in C++ and has no hooks.

The reducer starts its all-reduces while backward computes and waits for all of them in a callback
that runs when the graph is done. Callbacks run in the order in which they were queued: ours, queued
by the first gradient, runs before it. From there until backward returns, the rank waits. What
overlaps with backward is not seen, and the buckets are one all-reduce here.
"""

from __future__ import annotations

import weakref
from typing import Any

from stepwatch.hooks.guard import guarded
from stepwatch.hooks.process_groups import has_group_hooks
from stepwatch.hooks.timeline import COLLECTIVE
from stepwatch.hooks.watch import Watch
from stepwatch.signals.records import Op

_ALL_REDUCE = int(Op.ALL_REDUCE)


class ReducerWait:
    """Times the end of each backward that reduces gradients.

    Where process-group hooks count the buckets (torch >= 2.14), only the time is taken here.
    """

    def __init__(self, watch: Watch) -> None:
        self.guard = watch.guard
        self._watch = watch
        self._hooked = has_group_hooks()
        self._pending: list[Any] = []
        self._armed: list[Any] = []
        self._arrived = -1
        self._nbytes: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()

    @guarded()
    def called(self, module: Any) -> None:
        """`module` is called: the next backward reduces its gradients, unless under `no_sync`."""
        if module.require_backward_grad_sync and all(module is not one for one in self._pending):
            self._pending.append(module)

    @guarded()
    def arm(self, tensors: Any) -> None:
        """Backward begins at `tensors`."""
        root = None
        if self._pending:
            roots = tensors if isinstance(tensors, tuple | list) else (tensors,)
            root = next((one for one in roots if one.grad_fn is not None), None)
        self._armed.append(None if root is None else root.register_hook(self._first_gradient))

    @guarded()
    def disarm(self) -> None:
        """The backward that was armed last has returned."""
        handle = self._armed.pop()
        if handle is not None:
            handle.remove()
        timeline = self._watch.timeline
        if timeline is not None and self._arrived >= 0:
            if self._arrived:
                first = self._pending[0]
                nbytes = sum(self._gradient_bytes(module) for module in self._pending)
                number = self._watch.groups.number(first.process_group)
                timeline.leave_collective(number, _ALL_REDUCE, nbytes, self._arrived)
            else:
                timeline.leave()
        self._arrived = -1
        if not self._armed:
            self._pending.clear()

    @guarded()
    def _first_gradient(self, gradient: Any) -> None:
        import torch

        engine: Any = torch.autograd.Variable._execution_engine
        engine.queue_callback(self._work_ends)

    @guarded()
    def _work_ends(self) -> None:
        timeline = self._watch.timeline
        if timeline is None or not self._pending or self._arrived >= 0:
            return
        if self._hooked or len(self._armed) > 1:  # counted elsewhere, or not the whole backward
            timeline.enter(COLLECTIVE)
            self._arrived = 0
        else:
            number = self._watch.groups.number(self._pending[0].process_group)
            self._arrived = timeline.enter_collective(number, _ALL_REDUCE)

    def _gradient_bytes(self, module: Any) -> int:
        known = self._nbytes.get(module)
        if known is None:
            known = sum(one.nbytes for one in module.parameters() if one.requires_grad)
            self._nbytes[module] = known
        return known
