"""Sends and receives that a trainer issues itself; the wait for one is pipeline wait.

`isend` and `irecv` stay unchanged: torch compares them by identity. All transfers, also batched and
blocking ones, go through two methods of the process group, which are replaced. A call counts where
it is issued, and its time where the trainer waits for it. The record's group is the pair of ranks:
so the collector sees which ranks are neighbours.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

from stepwatch.hooks.core import COLLECTIVE, PIPELINE_WAIT, Timeline
from stepwatch.hooks.guard import Guard, guarded
from stepwatch.hooks.instruments import Instruments
from stepwatch.signals.records import Op

_METHODS = (("send", Op.SEND), ("recv", Op.RECV))
_RUNNING = (COLLECTIVE, PIPELINE_WAIT)


class Transfer(NamedTuple):
    """One send or receive: the rank pair's number, the operation and its bytes."""

    pair: int
    op: int
    nbytes: int


class PointToPoint:
    """Counts the sends and receives of the instruments from `following`, and times waits."""

    def __init__(self, following: Callable[[], Instruments | None]) -> None:
        self.guard = Guard()
        self._following = following
        self._started: weakref.WeakKeyDictionary[Any, Transfer] = weakref.WeakKeyDictionary()
        self._newest: Transfer | None = None

    def install(self) -> None:
        """Replace the methods, and `batch_isend_irecv` in `torch.distributed`."""
        import torch.distributed as dist

        group: Any = dist.ProcessGroup
        namespace: Any = dist
        for name, op in _METHODS:
            setattr(group, name, self._noted(getattr(group, name), int(op)))
        namespace.batch_isend_irecv = self._batched(namespace.batch_isend_irecv)

    def waits_for(self, timeline: Timeline, work: Any) -> Transfer | None:
        """Return and forget `work`'s transfer, if the wait for it is timed."""
        transfer = self._started.pop(work, None) if self._started else None
        return None if timeline.bucket in _RUNNING else transfer

    def wait(
        self,
        timeline: Timeline,
        transfer: Transfer,
        function: Callable[..., Any],
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        """Call `function`, which waits for a transfer."""
        began = timeline.enter(PIPELINE_WAIT)
        try:
            return function(*args, **kwargs)
        finally:
            self._waited(timeline, transfer, began, timeline.leave())

    def _waited(self, timeline: Timeline, transfer: Transfer, began: int, ended: int) -> None:
        pair, op, nbytes = transfer
        totals = timeline.totals_of(pair, op)
        if totals is None:  # it began in the step before
            timeline.depart(pair, op, nbytes, began, ended)
        else:
            totals.exposed_ns += ended - began
            totals.longest_ns = max(totals.longest_ns, ended - began)

    def _noted(self, function: Callable[..., Any], op: int) -> Callable[..., Any]:
        import torch

        compiling = torch.compiler.is_compiling

        @functools.wraps(function)
        def call(group: Any, *args: Any, **kwargs: Any) -> Any:
            work = function(group, *args, **kwargs)
            if not compiling():
                self._note(op, work, group, args)
            return work

        return call

    def _batched(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """If a backend makes one work of a batch, it represents the batch's last transfer."""

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            self._newest = None
            works = function(*args, **kwargs)
            self._remember_all(works)
            return works

        return call

    @guarded()
    def _note(self, op: int, work: Any, group: Any, args: tuple[Any, ...]) -> None:
        instruments = self._following()
        timeline = None if instruments is None else instruments.recorder.timeline
        if instruments is None or timeline is None or timeline.bucket in _RUNNING:
            return
        tensors, peer = args[0], args[1]
        nbytes = sum(tensor.nbytes for tensor in tensors)
        transfer = Transfer(instruments.groups.pair(group, peer), op, nbytes)
        now = timeline.clock()
        timeline.depart(*transfer, now, now)
        self._newest = transfer
        if work is not None:
            self._started[work] = transfer

    @guarded()
    def _remember_all(self, works: list[Any]) -> None:
        for work in works:
            if work is not None and self._newest is not None:
                self._started.setdefault(work, self._newest)
