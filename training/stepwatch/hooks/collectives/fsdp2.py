"""FSDP2's all-gathers and reduce-scatters, timed where FSDP2 issues them.

The input to a reduce-scatter is this rank's own gradient: it is checked here, before the other
ranks' gradients mix with it.
"""

from __future__ import annotations

from typing import Any

from stepwatch.hooks.communication.stream_waits import Awaited, StreamWaits
from stepwatch.hooks.core import TimedCall
from stepwatch.hooks.instruments import Instruments
from stepwatch.signals.records import NumericsSource, Op

_ALL_GATHER, _REDUCE_SCATTER, _ALL_REDUCE = (
    int(op) for op in (Op.ALL_GATHER, Op.REDUCE_SCATTER, Op.ALL_REDUCE)
)
_ATTRIBUTES = {op: f"_{op.name.lower()}_comm" for op in (Op.ALL_GATHER, Op.REDUCE_SCATTER)}
"""The parameter group's attribute for the object that performs each operation."""


class TimedCommunication(TimedCall):
    """Replaces an FSDP2 communication object and times each call to it.

    FSDP2 calls `allocate` for its buffers and the object itself for the collective. A call that
    returns a work handle runs asynchronously: only its enqueue time is exposed here. Without
    `timed`, only a call's input is checked.
    """

    def __init__(
        self,
        instruments: Instruments,
        inner: Any,
        op: Op,
        parameters: Any,
        *,
        timed: bool = True,
    ) -> None:
        super().__init__(instruments, inner, int(op), parameters, _ATTRIBUTES[op], timed)
        self._waits = instruments.waits
        self._numerics = instruments.numerics
        self.checks = op is Op.REDUCE_SCATTER

    @property  # type: ignore[misc]  # `object` may be given another class, this one may not
    def __class__(self) -> type:
        """The wrapped object's class: FSDP2's setters check whether their own object is set."""
        return type(self._inner)

    def allocate(self, *args: Any, **kwargs: Any) -> Any:
        """Allocate a buffer as the wrapped object does."""
        if self.checks:  # the input is copied next: the waits before it are over
            self._waits.end()
        return self._inner.allocate(*args, **kwargs)

    def check(self, input_tensor: Any) -> None:
        """Check the collective's input, this rank's own gradient."""
        self._numerics.check((input_tensor,), self._name_of, NumericsSource.COLLECTIVE_INPUT)

    def _name_of(self, _index: int) -> str:
        return str(getattr(self._parameters, "_module_fqn", None) or "root module")


def watch_fsdp2(instruments: Instruments, module: Any, *, hooked: bool) -> None:
    """Time `module`'s collectives if FSDP2 manages it; ignore other modules.

    `hooked` says that process-group hooks see them too, except for the end of reduce-scatters on
    the CPU.
    """
    if not hasattr(module, "set_custom_all_gather"):
        return
    instruments.numerics.at_source = True
    _time_end_of_backward(instruments.waits, module._get_fsdp_state())
    for group in _parameter_groups(module):
        if group.device.type != "cpu":
            _time_waits(instruments.waits, group)
        if not hooked:
            _time_calls(instruments, group, Op.ALL_GATHER)
        timed = not hooked or group.device.type == "cpu"
        _time_calls(instruments, group, Op.REDUCE_SCATTER, timed=timed)


def _time_calls(instruments: Instruments, group: Any, op: Op, *, timed: bool = True) -> None:
    """Wrap the object that performs `op` for `group` in a `TimedCommunication`."""
    attachments, name = instruments.recorder.attachments, _ATTRIBUTES[op]
    inner = getattr(group, name)
    if not attachments.has(inner):
        around = TimedCommunication(instruments, inner, op, group, timed=timed)
        attachments.replace(group, name, around)


def _time_waits(waits: StreamWaits, group: Any) -> None:
    """Time the compute stream's waits for a parameter group's collectives.

    FSDP2 looks these methods up on the group whenever it calls them. The wait for an all-gather
    includes the copies out of its buffer. Before a reduce-scatter, the wait ends where its input
    is allocated.
    """

    def gathered() -> Awaited:
        waits = group._all_gather_result is not None
        return (_ALL_GATHER, _shards(group)) if waits else None

    def reduced() -> Awaited:
        """Return None if gradients are only accumulated: nothing is reduced there."""
        return _reduction(group) if getattr(group, "reduce_grads", True) else None

    waits.replace(group, "wait_for_unshard", gathered)
    waits.replace(group, "post_backward", reduced)
    waits.replace(group, "finalize_backward", reduced)


def _time_end_of_backward(waits: StreamWaits, state: Any) -> None:
    """Time the wait for the last reductions; from 2.15 on, the root waits for all groups.

    The first forward determines which module is the root; it may have no parameters of its own.
    """

    def reduced() -> Awaited:
        pending = getattr(state._comm_ctx, "_last_post_reduce_events", None)
        groups = (group for member in state._state_ctx.all_states for group in _groups_of(member))
        return next(filter(None, map(_reduction, groups)), None) if pending else None

    waits.replace(state, "_end_backward_iteration", reduced)


def _shards(group: Any) -> Any:
    """Return the process group over which `group` is sharded; None if it is only replicated."""
    return getattr(group.mesh_info, "shard_process_group", None)


def _reduction(group: Any) -> Awaited:
    """Return the operation that reduces `group`'s gradients; all-reduce if nothing is sharded."""
    mesh = getattr(group, "mesh_info", None)
    for op, name in ((_REDUCE_SCATTER, "shard"), (_ALL_REDUCE, "replicate")):
        members = getattr(mesh, f"{name}_process_group", None)
        if members is not None:
            return op, members
    return None


def _parameter_groups(module: Any) -> list[Any]:
    # The public setters refuse a module with parameters on several meshes, and cannot wrap an
    # object that is set already; both matter inside another project's trainer.
    return _groups_of(module._get_fsdp_state())


def _groups_of(state: Any) -> list[Any]:
    groups = getattr(state, "_fsdp_param_groups", None)
    if groups is None:
        single = getattr(state, "_fsdp_param_group", None)
        groups = [] if single is None else [single]
    return list(groups)
