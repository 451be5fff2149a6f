"""FSDP2's all-gathers and reduce-scatters, timed where FSDP2 issues them.

What goes into a reduce-scatter is this rank's own gradient: it is checked here, before those of
the others mix with it.
"""

from __future__ import annotations

from typing import Any

from stepwatch.hooks.instruments import Instruments
from stepwatch.signals.records import NumericsSource, Op

from .stream_waits import StreamWaits


class TimedCommunication:
    """Stands in for an FSDP2 communication object and times each call of it.

    FSDP2 calls `allocate` for its buffers and the object itself for the collective. A call that
    returns a work handle runs asynchronously: only its enqueue time is exposed here. Without
    `timed` a call's input is checked and nothing else.
    """

    def __init__(
        self,
        instruments: Instruments,
        inner: Any,
        op: Op,
        group: Any = None,
        *,
        timed: bool = True,
    ) -> None:
        self._recorder = instruments.recorder
        self._instruments = instruments
        self._inner = inner
        self._op = int(op)
        self._reduces = op is Op.REDUCE_SCATTER
        self._parameters = group
        self._timed = timed

    def allocate(self, *args: Any, **kwargs: Any) -> Any:
        """Allocate a buffer as the wrapped object does."""
        if self._reduces:  # what goes in is copied next: the waits before that are over
            self._instruments.waits.end()
        return self._inner.allocate(*args, **kwargs)

    def __call__(
        self, output_tensor: Any, input_tensor: Any, group: Any, *args: Any, **kwargs: Any
    ) -> Any:
        """Run the collective; time blocked in it is taken off the phase around it."""
        recorder = self._recorder
        timeline = recorder.timeline if recorder.thread.is_current() else None
        if timeline is not None and self._reduces:
            source = NumericsSource.COLLECTIVE_INPUT
            self._instruments.numerics.check((input_tensor,), self._name_of, source)
        if timeline is None or not self._timed:
            return self._inner(output_tensor, input_tensor, group, *args, **kwargs)
        number = self._instruments.groups.number(group)
        arrived = timeline.enter_collective(number, self._op, input_tensor.nbytes)
        try:
            return self._inner(output_tensor, input_tensor, group, *args, **kwargs)
        finally:
            if recorder.timeline is not None:  # else a signal handler closed it
                timeline.leave_collective(number, self._op, input_tensor.nbytes, arrived)

    def _name_of(self, _index: int) -> str:
        return str(getattr(self._parameters, "_module_fqn", None) or "root module")


def watch_fsdp2(instruments: Instruments, module: Any, *, hooked: bool) -> None:
    """Time the collectives of `module` if FSDP2 manages it; other modules are left alone.

    `hooked` says that process-group hooks see them too, all but the end of reduce-scatters on the
    CPU.
    """
    if not hasattr(module, "set_custom_all_gather"):
        return
    instruments.numerics.at_source = True
    for group in _parameter_groups(module):
        if isinstance(group._reduce_scatter_comm, TimedCommunication):
            continue
        if group.device.type != "cpu":
            _time_waits(instruments.waits, group)
        if not hooked:
            gather = TimedCommunication(instruments, group._all_gather_comm, Op.ALL_GATHER)
            group._all_gather_comm = gather
        group._reduce_scatter_comm = TimedCommunication(
            instruments,
            group._reduce_scatter_comm,
            Op.REDUCE_SCATTER,
            group,
            timed=not hooked or group.device.type == "cpu",
        )


def _time_waits(waits: StreamWaits, group: Any) -> None:
    """Time where the compute stream waits for the collectives of a parameter group.

    FSDP2 looks these methods up on the group whenever it calls them. The wait for an all-gather
    includes the copies out of its buffer. Before a reduce-scatter, the wait ends where its input
    is allocated.
    """

    def shards() -> Any:
        return getattr(group.mesh_info, "shard_process_group", None)

    def gathered() -> Any:
        return shards() if group._all_gather_result is not None else None

    def reduced() -> Any:
        """None where gradients are only accumulated: nothing is reduced there."""
        return shards() if getattr(group, "reduce_grads", True) else None

    for name, op, group_of in (
        ("wait_for_unshard", Op.ALL_GATHER, gathered),
        ("post_backward", Op.REDUCE_SCATTER, reduced),
        ("finalize_backward", Op.REDUCE_SCATTER, reduced),
    ):
        method = getattr(group, name, None)
        if method is not None and not hasattr(method, "stepwatch_wrapped"):
            setattr(group, name, waits.around(method, int(op), group_of))


def _parameter_groups(module: Any) -> list[Any]:
    # The public setters refuse a module whose parameters lie on several meshes, and cannot wrap
    # what is set already; both matter to a guest in somebody else's trainer.
    state = module._get_fsdp_state()
    groups = getattr(state, "_fsdp_param_groups", None)
    if groups is None:
        single = getattr(state, "_fsdp_param_group", None)
        groups = [] if single is None else [single]
    return list(groups)
