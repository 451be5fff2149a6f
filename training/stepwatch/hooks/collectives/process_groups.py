"""Every collective in every group on torch >= 2.14, through process-group hooks.

The hooks run on the thread that issues the operation. An operation from another thread than the
training thread, such as an asynchronous checkpoint's, is not part of the step. The post hook fires
when the operation is enqueued. The end comes from the work's future, whose callback runs on
another thread; it only marks the live line and appends to a queue that the training thread empties.
The callback may run after the thread that waited for the future has continued: at a step's end,
futures are queried too, so that no call counts in the next step.

The end of a work without a future is unknown (Gloo's reduce-scatter answers no query either). Such
an operation is counted, and its time stays in the enclosing phase, unless the hooks time the call
itself, as for FSDP2 on the CPU.
"""

from __future__ import annotations

import functools
import itertools
import time
import weakref
from collections import deque
from typing import Any, NamedTuple

from stepwatch.hooks.accelerators import in_use
from stepwatch.hooks.core import COLLECTIVE, Timeline
from stepwatch.hooks.guard import guarded
from stepwatch.hooks.instruments import Instruments
from stepwatch.signals.records import Op

_HOOK_IDS = itertools.count(7_301)
_MATCHES = (
    ("reduce_scatter", Op.REDUCE_SCATTER),
    ("all_reduce", Op.ALL_REDUCE),
    ("allreduce", Op.ALL_REDUCE),
    ("all_gather", Op.ALL_GATHER),
    ("allgather", Op.ALL_GATHER),
    ("broadcast", Op.BROADCAST),
    ("all_to_all", Op.ALL_TO_ALL),
    ("alltoall", Op.ALL_TO_ALL),
    ("barrier", Op.BARRIER),
    ("send", Op.SEND),
    ("recv", Op.RECV),
)
REDUCTIONS = (int(Op.ALL_REDUCE), int(Op.REDUCE_SCATTER))
"""Operations that mix the ranks' inputs."""


class Call(NamedTuple):
    """One enqueued operation; `bucket` is the bucket that counted time when it began.

    `entered` is its number among all the rank's collectives. An operation with `on_device` ends on
    the device, not with its future, which is complete at once.
    """

    entered: int
    group: int
    op: int
    nbytes: int
    arrived_ns: int
    bucket: int
    blocking: bool
    on_device: bool = False


def has_distributed() -> bool:
    """Return whether torch is loaded, with collectives built in."""
    try:
        import torch.distributed as dist
    except ImportError:
        return False
    return dist.is_available()


def has_group_hooks() -> bool:
    """Return whether this torch offers `ProcessGroup.register_pre_hook`; False without torch."""
    if not has_distributed():
        return False
    import torch.distributed as dist

    return hasattr(dist.ProcessGroup, "register_pre_hook")


@functools.lru_cache(maxsize=64)
def op_of(name: Any) -> Op:
    """Return the operation for a `HookOpName` such as `ALLREDUCE`, or for its text."""
    lowered = str(getattr(name, "name", name)).lower()
    return next((op for part, op in _MATCHES if part in lowered), Op.OTHER)


def watch_process_groups(instruments: Instruments) -> None:
    """Hook every group, and search for new ones at each step: they inherit no hooks."""
    recorder = instruments.recorder
    if recorder.drain_completions is not None:  # attached: a second pair of hooks would count twice
        recorder.drain_completions()
        return
    hooks = GroupHooks(instruments)
    hooks.adopt_groups()
    recorder.drain_completions = hooks.drain_completions


class _HookPair:
    """A group's two hooks, as a handle that removes them; the group may no longer exist then."""

    def __init__(self, group: Any, hook_id: int) -> None:
        self._group = weakref.ref(group)
        self._id = hook_id

    def remove(self) -> None:
        """Remove both hooks."""
        group = self._group()
        if group is not None:
            group.unregister_pre_hook(self._id)
            group.unregister_post_hook(self._id)


class GroupHooks:
    """The hooks on all this rank's groups and the operations in flight."""

    def __init__(self, instruments: Instruments) -> None:
        self.guard = instruments.guard
        self._recorder = instruments.recorder
        self._instruments = instruments
        self._hooked: weakref.WeakSet[Any] = weakref.WeakSet()
        self._started: dict[tuple[int, int], Call] = {}
        self._flying: dict[int, tuple[Call, Any]] = {}
        self._ended: deque[tuple[Call, int]] = deque()
        self._endless: list[Call] = []

    def adopt_groups(self) -> None:
        """Register on groups that are not hooked yet."""
        import torch.distributed as dist

        groups: list[Any] = list(dist.distributed_c10d._world.pg_map)
        for group in groups:
            if group in self._hooked:
                continue
            self._hooked.add(group)
            number = self._instruments.groups.number(group)
            hook_id = next(_HOOK_IDS)
            # torch passes a hook's exceptions on to the trainer: both are guarded.
            group.register_pre_hook(hook_id, functools.partial(self._began, number))
            group.register_post_hook(hook_id, functools.partial(self._enqueued, number))
            self._recorder.attachments.keep(_HookPair(group, hook_id))

    @guarded()
    def drain_completions(self) -> None:
        """Record operations that ended since the last call; adopt groups created meanwhile."""
        import torch.distributed as dist

        timeline = self._recorder.timeline
        if timeline is None:
            return
        if len(dist.distributed_c10d._world.pg_map) != len(self._hooked):
            self.adopt_groups()
        for call in self._endless:
            timeline.step_outside(call.entered)
            timeline.depart(call.group, call.op, call.nbytes, call.arrived_ns, call.arrived_ns)
        self._endless.clear()
        for call, future in list(self._flying.values()):
            if future.done():
                self._finished(timeline, call)
        while self._ended:
            call, ended_ns = self._ended.popleft()
            timeline.depart(call.group, call.op, call.nbytes, call.arrived_ns, ended_ns)
            if call.blocking:
                timeline.move_to_collective(call.bucket, ended_ns - call.arrived_ns)

    @guarded()
    def _began(self, number: int, arguments: Any) -> None:
        timeline = self._recorder.timeline
        if timeline is None or not self._recorder.thread.is_current():
            return
        if timeline.bucket == COLLECTIVE:  # the enclosing call is timed
            return
        op = int(op_of(arguments.name))
        if op in (Op.SEND, Op.RECV):  # counted where they are issued, by the pair of ranks
            return
        nbytes = sum(tensor.nbytes for tensor in arguments.input_tensors)
        if op in REDUCTIONS:
            self._instruments.numerics.check_reduction(arguments.input_tensors, Op(op).name.lower())
        arrived = timeline.arrive(number, op, nbytes)
        blocking = not arguments.async_op
        kinds = {tensor.device.type for tensor in arguments.input_tensors}
        # A barrier has no tensor; NCCL's barrier is on a device.
        on_device = kinds != {"cpu"} if kinds else in_use() is not None
        # Operations are numbered per group: the number alone would mix two groups up.
        self._started[number, arguments.op_id] = Call(
            timeline.entered, number, op, nbytes, arrived, timeline.bucket, blocking, on_device
        )

    @guarded()
    def _enqueued(self, number: int, arguments: Any) -> None:
        call = self._started.pop((number, arguments.op_id), None)
        timeline = self._recorder.timeline
        if call is None or timeline is None or arguments.work is None:
            return
        # Requesting the future for a device's work makes a stream from torch's pool wait for it,
        # holds its memory for longer, and joins that stream to a graph that is captured meanwhile.
        if call.on_device:
            self._endless.append(call)
            return
        try:
            future = arguments.work.get_future()
        except RuntimeError:  # this backend's work has none
            self._endless.append(call)
            return
        self._flying[call.entered] = call, future
        future.add_done_callback(lambda _: self._finished(timeline, call))

    @guarded()
    def _finished(self, timeline: Timeline, call: Call) -> None:
        if self._flying.pop(call.entered, None) is None:  # the other thread came first
            return
        self._ended.append((call, time.monotonic_ns()))
        if self._recorder.timeline is timeline:
            timeline.step_outside(call.entered)
