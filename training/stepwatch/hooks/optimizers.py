"""The time in `optimizer.step`, also if the trainer does not mark it as a phase."""

from __future__ import annotations

import functools
import types
from typing import Any

from stepwatch.signals.records import Phase

from .metrics.learning_rates import LearningRates
from .numerics.replica_updates import ReplicaUpdates
from .pauses.evaluation import Evaluation
from .recorder.recorder import Recorder

_OPTIMIZER = int(Phase.OPTIMIZER)


def watch_optimizer(
    recorder: Recorder,
    evaluation: Evaluation,
    rates: LearningRates,
    updates: ReplicaUpdates,
    optimizer: Any,
) -> None:
    """Wrap `optimizer.step`, once; a call inside the phase `optimizer` counts with that phase.

    A step is a sign of training: it ends an `evaluation`. Its learning rates go to `rates`, and
    `updates` counts it.

    Raises:
        AttributeError: the object has no `step`.
    """
    import torch

    compiling = torch.compiler.is_compiling
    inner = optimizer.step
    if recorder.attachments.has(inner):
        return

    # A method, with the attributes of its original: LR schedulers replace `step` as well, and
    # call its function.
    @functools.wraps(getattr(inner, "__func__", inner))
    def step(_self: Any, *args: Any, **kwargs: Any) -> Any:
        timeline = None if compiling() else recorder.timeline
        if timeline is not None and evaluation.pending:
            evaluation.ends()
        if timeline is not None and recorder.thread.is_current():
            rates.note(_self)
            updates.note_update()
        if timeline is None or timeline.bucket == _OPTIMIZER or not recorder.thread.is_current():
            return inner(*args, **kwargs)
        timeline.enter(_OPTIMIZER)
        try:
            return inner(*args, **kwargs)
        finally:
            if recorder.timeline is timeline:
                timeline.leave()

    recorder.attachments.replace(optimizer, "step", types.MethodType(step, optimizer))


def steps_done(optimizer: Any) -> int | None:
    """Return a torch optimizer's completed steps, as its state counts them; None if unknown.

    A count on a device is not read: reading it would wait for the device.
    """
    state = getattr(optimizer, "state", None)
    first = next(iter(state.values()), None) if isinstance(state, dict) else None
    count = first.get("step") if isinstance(first, dict) else None
    if isinstance(count, int | float):
        return int(count)
    on_host = getattr(getattr(count, "device", None), "type", "") == "cpu"
    return int(count) if on_host and count is not None and count.numel() == 1 else None
