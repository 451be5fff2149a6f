"""Counts a rank's optimizer steps by what its gradients went through before them.

Replicas hold equal parameters only after equally many updates from exchanged gradients. A forward
through DistributedDataParallel exchanges gradients in its backward, unless the trainer keeps them
local on purpose (`no_sync`, local SGD). An update without such a forward went past the wrapper.
Without a watched optimizer each step with a forward counts as one update.
"""

from __future__ import annotations

from typing import Any

from stepwatch.signals.records import UNKNOWN_EXCHANGES

_TORCH_HOOKS = "torch.distributed.algorithms.ddp_comm_hooks."
_LOCAL_SGD, _NOOP = "post_localSGD_hook", "noop_hook"


class _Counts:
    """The counts for one group; `has_synced` and `has_kept` describe forwards since an update."""

    __slots__ = ("exchanges", "has_kept", "has_synced", "is_known", "local_updates", "step")

    def __init__(self) -> None:
        self.exchanges = self.local_updates = 0
        self.has_synced = self.has_kept = False
        self.is_known = True
        self.step = -1

    def update(self) -> None:
        """Count an update from the forwards since the last one."""
        if self.has_synced:
            self.exchanges += 1
        elif self.has_kept:
            self.local_updates += 1
        self.has_synced = self.has_kept = False


class ReplicaUpdates:
    """Counts of updates by group number."""

    def __init__(self) -> None:
        self._groups: dict[int, _Counts] = {}
        self._sees_optimizer = False

    def note_forward(self, group: int, step: int, keeps: bool | None) -> None:
        """Note a wrapped model's forward with gradients; `keeps` is from `keeps_gradients`."""
        counts = self._groups.get(group)
        if counts is None:
            counts = self._groups[group] = _Counts()
        if counts.step != step and not self._sees_optimizer:
            counts.update()
        counts.step = step
        if keeps is None:
            counts.is_known = False
        elif keeps:
            counts.has_kept = True
        else:
            counts.has_synced = True

    def note_update(self) -> None:
        """Note that an optimizer steps."""
        self._sees_optimizer = True
        for counts in self._groups.values():
            counts.update()

    def take(self, group: int) -> tuple[int, int]:
        """Return the updates from exchanged gradients, and the local ones since the last call.

        Call it at the end of a step.
        """
        counts = self._groups.get(group)
        if counts is None:
            return 0, 0
        if not counts.is_known:
            return UNKNOWN_EXCHANGES, 0
        if not self._sees_optimizer:
            counts.update()
        local, counts.local_updates = counts.local_updates, 0
        return counts.exchanges, min(local, 0xFFFF)


def keeps_gradients(module: Any) -> bool | None:
    """Return whether a DistributedDataParallel module keeps the next gradients on each rank.

    It does under `no_sync` and in torch's local SGD. With a trainer's own communication hook the
    result is None, which is unknown.
    """
    if not module.require_backward_grad_sync:
        return True
    for hook, state in getattr(module, "_comm_hooks", ()):
        name = getattr(hook, "__name__", "")
        if not str(getattr(hook, "__module__", "")).startswith(_TORCH_HOOKS):
            return None
        if name == _NOOP or (name == _LOCAL_SGD and _is_past_warm_up(state)):
            return True
    return False


def _is_past_warm_up(state: Any) -> bool:
    """Return whether torch's local SGD has ended its steps with exchanged gradients."""
    return bool(getattr(state, "iter", 0) >= getattr(state, "start_localSGD_iter", 0))
