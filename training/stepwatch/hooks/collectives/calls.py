"""Collectives that a trainer calls by name, and waits for those it started.

Only the names in `torch.distributed` are replaced, once per process: inside its own module torch
compares functions by identity. `pipeline.point_to_point` handles sends and receives. NCCL returns
before the work is complete: on CUDA this is the host's time.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

from stepwatch.hooks.core import COLLECTIVE
from stepwatch.hooks.guard import Guard, guarded
from stepwatch.hooks.instruments import Instruments
from stepwatch.hooks.pipeline.point_to_point import PointToPoint
from stepwatch.signals.records import Op

from .process_groups import REDUCTIONS, has_group_hooks, op_of

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
    "barrier": (-1, ""),
    "monitored_barrier": (-1, ""),
    "all_gather_object": (-1, ""),
    "gather_object": (-1, ""),
    "scatter_object_list": (-1, ""),
    "broadcast_object_list": (-1, ""),
}
"""Functions and their inputs: position and keyword; -1 if the size is unknown in advance."""


class Started(NamedTuple):
    """A collective call: its group's number, its operation, its input in bytes."""

    group: int
    op: int
    nbytes: int


class Calls:
    """Times calls and waits for the instruments that it follows."""

    def __init__(self) -> None:
        self.guard = Guard()
        self._instruments: weakref.ref[Instruments] | None = None
        self._every_wait = False
        self._hooked = has_group_hooks()
        self._transfers = PointToPoint(self._following)
        self._started: weakref.WeakKeyDictionary[Any, Started] = weakref.WeakKeyDictionary()

    def follow(self, instruments: Instruments, *, every_wait: bool = False) -> None:
        """Record this thread's calls from now on; this thread trains.

        `every_wait`: also record waits for works that no call by name began. Without it, the hooks
        of a pipeline or FSDP2 time those waits.
        """
        previous = self._instruments() if self._instruments is not None else None
        self._every_wait = every_wait or (self._every_wait and previous is instruments)
        self._instruments = weakref.ref(instruments)
        instruments.recorder.adopt_thread()
        self.guard = instruments.guard

    def install(self) -> None:
        """Replace the functions that this torch has."""
        import torch.distributed as dist
        import torch.distributed._functional_collectives as functional

        namespace: Any = dist
        for name, place in _INPUTS.items():
            if hasattr(namespace, name):
                setattr(namespace, name, self._timed_call(getattr(namespace, name), name, place))
        self._transfers.install()
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
            instruments = None if compiling() else self._following()
            timeline = None if instruments is None else instruments.recorder.timeline
            if instruments is None or timeline is None or timeline.bucket == COLLECTIVE:
                return function(*args, **kwargs)
            started = self._describe(instruments, name, op, args, kwargs, place)
            started = started or Started(0, op, 0)
            if kwargs.get("async_op") is True:
                work = function(*args, **kwargs)
                self._remember(work, started)
                return work
            arrived = timeline.enter_collective(*started)
            try:
                return function(*args, **kwargs)
            finally:
                # It differs if a signal handler closed the Watch meanwhile.
                if instruments.recorder.timeline is timeline:
                    timeline.leave_collective(*started, arrived)

        return call

    def _timed_wait(self, function: Callable[..., Any]) -> Callable[..., Any]:
        import torch

        compiling = torch.compiler.is_compiling

        @functools.wraps(function)
        def wait(work: Any, *args: Any, **kwargs: Any) -> Any:
            instruments = None if compiling() else self._following()
            timeline = None if instruments is None else instruments.recorder.timeline
            if instruments is None or timeline is None or timeline.bucket == COLLECTIVE:
                return function(work, *args, **kwargs)
            transfer = self._transfers.waits_for(timeline, work)
            if transfer is not None:
                return self._transfers.wait(timeline, transfer, function, work, *args, **kwargs)
            started = self._recall(instruments, work)
            if started is None:
                return instruments.waits.during(function, work, *args, **kwargs)
            arrived = 0
            if self._hooked:  # the hooks count it
                timeline.enter_wait(started.group, started.op)
            else:
                arrived = timeline.enter_collective(*started)
            try:
                return function(work, *args, **kwargs)
            finally:
                if instruments.recorder.timeline is timeline:
                    if self._hooked:
                        timeline.leave_wait()
                    else:
                        timeline.leave_collective(*started, arrived)

        return wait

    @guarded()
    def _following(self) -> Instruments | None:
        """Return the instruments if this is the training thread."""
        instruments = self._instruments() if self._instruments is not None else None
        return (
            instruments
            if instruments is not None and instruments.recorder.thread.is_current()
            else None
        )

    @guarded()
    def _describe(
        self,
        instruments: Instruments,
        name: str,
        op: int,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        place: tuple[int, str],
    ) -> Started:
        position, keyword = place
        value = args[position] if 0 <= position < len(args) else kwargs.get(keyword)
        parts = value if isinstance(value, list | tuple) else (value,)
        tensors = [part for part in parts if hasattr(part, "nbytes")]
        group = next(
            (argument for argument in (*args, kwargs.get("group")) if _is_group(argument)), None
        )
        # The hooks check the inputs of async calls, and leave out calls that are timed around them.
        if op in REDUCTIONS and not (self._hooked and kwargs.get("async_op") is True):
            instruments.numerics.check_reduction(tensors, name)
        nbytes = sum(tensor.nbytes for tensor in tensors)
        return Started(instruments.groups.number(group), op, nbytes)

    @guarded()
    def _remember(self, work: Any, started: Started) -> None:
        if work is not None:
            self._started[work] = started

    @guarded()
    def _recall(self, instruments: Instruments, work: Any) -> Started | None:
        started = self._started.pop(work, None) if self._started else None
        if started is None and self._every_wait:
            return Started(instruments.groups.number(None), int(Op.OTHER), 0)
        return started


def _is_group(value: Any) -> bool:
    import torch.distributed as dist

    return isinstance(value, dist.ProcessGroup)


_calls: Calls | None = None


def calls() -> Calls:
    """Return this process's calls; the first use replaces the functions in `torch.distributed`."""
    global _calls
    if _calls is None:
        _calls = Calls()
        _calls.install()
    return _calls
