"""The time in `optimizer.step`, also if the trainer does not mark it as a phase."""

from __future__ import annotations

import functools
import sys
import types
from typing import Any

from stepwatch.signals.records import Phase

from .metrics.learning_rates import LearningRates
from .numerics.replica_updates import ReplicaUpdates
from .pauses.evaluation import Evaluation
from .recorder.recorder import Recorder

_OPTIMIZER = int(Phase.OPTIMIZER)
_STATE_MAKER, _MOST_FRAMES = "_init_optim_state", 8
"""A function in torch.distributed.checkpoint.state_dict, and the frames in which it is sought."""


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
        timeline = None if compiling() or makes_state(optimizer) else recorder.timeline
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


def makes_state(optimizer: Any) -> bool:
    """Return whether this call of `optimizer.step` trains nothing: it only creates the state.

    torch.distributed.checkpoint makes it before it reads the state of a new optimizer, so before
    each resume: on gradients of zeros, at rate 0.
    """
    frame = None if getattr(optimizer, "state", None) else sys._getframe(1)
    for _ in range(_MOST_FRAMES):
        if frame is None:
            return False
        if frame.f_code.co_name == _STATE_MAKER:
            return True
        frame = frame.f_back
    return False


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
