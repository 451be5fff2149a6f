"""Collectives that a trainer calls by name, and waits for those it started.

Only the names in `torch.distributed` are replaced: inside its own module torch compares functions
by identity. Hence `isend` and `irecv` are left alone; their wait is seen when it comes. NCCL
returns before the work is done: on CUDA the time spent here is that of the host.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from stepwatch.hooks.guard import guarded
from stepwatch.hooks.process_groups import has_group_hooks, op_of
from stepwatch.hooks.timeline import COLLECTIVE, Timeline
from stepwatch.signals.records import Op

if TYPE_CHECKING:
    from .router import Router

_INPUTS = {
    "all_reduce": (0, "tensor"),
    "all_reduce_coalesced": (0, "tensors"),
    "all_gather": (1, "tensor"),
    "all_gather_into_tensor": (1, "input_tensor"),
    "all_gather_single": (1, "input_tensor"),
    "reduce_scatter": (1, "input_list"),
    "reduce_scatter_tensor": (1, "input"),
    "reduce_scatter_single": (1, "input"),
    "all_to_all": (1, "input_tensor_list"),
    "all_to_all_single": (1, "input"),
    "broadcast": (0, "tensor"),
    "_broadcast_coalesced": (1, "tensors"),
    "reduce": (0, "tensor"),
    "gather": (0, "tensor"),
    "scatter": (0, "tensor"),
    "send": (0, "tensor"),
    "recv": (0, "tensor"),
    "barrier": (-1, ""),
    "monitored_barrier": (-1, ""),
    "all_gather_object": (-1, ""),
    "gather_object": (-1, ""),
    "scatter_object_list": (-1, ""),
    "broadcast_object_list": (-1, ""),
}
"""Functions and where their input is: position and keyword; -1 where it has no size in advance."""


class Calls:
    """Times calls and waits for the recorder of `router`."""

    def __init__(self, router: Router) -> None:
        self.guard = router.guard
        self._router = router
        self._hooked = has_group_hooks()
        self._started: weakref.WeakKeyDictionary[Any, tuple[int, int, int]] = (
            weakref.WeakKeyDictionary()
        )

    def install(self) -> None:
        """Replace the functions that this torch has."""
        import torch.distributed as dist
        import torch.distributed._functional_collectives as functional

        namespace: Any = dist
        for name, place in _INPUTS.items():
            if hasattr(namespace, name):
                setattr(namespace, name, self._timed_call(getattr(namespace, name), name, place))
        work: Any = dist.Work
        work.wait = self._timed_wait(work.wait)
        loose: Any = functional
        loose.wait_tensor = self._timed_wait(loose.wait_tensor)

    def _timed_call(
        self, function: Callable[..., Any], name: str, place: tuple[int, str]
    ) -> Callable[..., Any]:
        import torch

        op = int(op_of(name))
        compiling = torch.compiler.is_compiling

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            timeline = None if compiling() else self._free()
            if timeline is None:
                return function(*args, **kwargs)
            number, nbytes = self._describe(args, kwargs, place) or (0, 0)
            if kwargs.get("async_op") is True:
                work = function(*args, **kwargs)
                self._remember(work, (number, op, nbytes))
                return work
            arrived = timeline.enter_collective(number, op, nbytes)
            try:
                return function(*args, **kwargs)
            finally:
                if self._router.enabled:  # closed meanwhile, by a signal handler say
                    timeline.leave_collective(number, op, nbytes, arrived)

        return call

    def _timed_wait(self, function: Callable[..., Any]) -> Callable[..., Any]:
        import torch

        compiling = torch.compiler.is_compiling

        @functools.wraps(function)
        def wait(work: Any, *args: Any, **kwargs: Any) -> Any:
            timeline = None if compiling() else self._free()
            if timeline is None:
                return function(work, *args, **kwargs)
            number, op, nbytes = self._recall(work) or (0, int(Op.OTHER), 0)
            if self._hooked:  # the hooks count it
                timeline.enter(COLLECTIVE)
            else:
                arrived = timeline.enter_collective(number, op, nbytes)
            try:
                return function(work, *args, **kwargs)
            finally:
                if self._router.enabled and self._hooked:
                    timeline.leave()
                elif self._router.enabled:
                    timeline.leave_collective(number, op, nbytes, arrived)

        return wait

    @guarded()
    def _free(self) -> Timeline | None:
        """The timeline, unless the call around this one is timed already."""
        recorder = self._router.recorder
        timeline = None if recorder is None else recorder.timeline()
        return None if timeline is None or timeline.bucket == COLLECTIVE else timeline

    @guarded()
    def _describe(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], place: tuple[int, str]
    ) -> tuple[int, int]:
        position, keyword = place
        value = args[position] if 0 <= position < len(args) else kwargs.get(keyword)
        parts = value if isinstance(value, list | tuple) else (value,)
        recorder = self._router.recorder
        group = next((one for one in (*args, kwargs.get("group")) if _is_group(one)), None)
        number = 0 if recorder is None else recorder.watch.groups.number(group)
        return number, sum(getattr(part, "nbytes", 0) for part in parts)

    @guarded()
    def _remember(self, work: Any, call: tuple[int, int, int]) -> None:
        if work is not None:
            self._started[work] = call

    @guarded()
    def _recall(self, work: Any) -> tuple[int, int, int] | None:
        known = self._started.pop(work, None) if self._started else None
        if known is None and self._router.recorder is not None and not self._hooked:
            return self._router.recorder.watch.groups.number(None), int(Op.OTHER), 0
        return known


def _is_group(value: Any) -> bool:
    import torch.distributed as dist

    return isinstance(value, dist.ProcessGroup)
