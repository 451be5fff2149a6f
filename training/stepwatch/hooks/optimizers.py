"""Time in `optimizer.step`, also where the trainer does not mark it as a phase."""

from __future__ import annotations

import functools
import types
from typing import Any

from stepwatch.signals.records import Phase

from .pauses.evaluation import Evaluation
from .recorder.recorder import Recorder

_OPTIMIZER = int(Phase.OPTIMIZER)


def watch_optimizer(recorder: Recorder, evaluation: Evaluation, optimizer: Any) -> None:
    """Wrap `optimizer.step`, once; a call inside the phase `optimizer` counts with that phase.

    A step is a sign of training: it ends an `evaluation`.

    Raises:
        AttributeError: the object has no `step`.
    """
    import torch

    compiling = torch.compiler.is_compiling
    inner = optimizer.step
    if hasattr(inner, "stepwatch_wrapped"):
        return

    # A method, with the attributes of what it wraps: LR schedulers replace `step` as well, and
    # call its function.
    @functools.wraps(getattr(inner, "__func__", inner))
    def step(_self: Any, *args: Any, **kwargs: Any) -> Any:
        timeline = None if compiling() else recorder.timeline
        if timeline is not None and evaluation.pending:
            evaluation.ends()
        if timeline is None or timeline.bucket == _OPTIMIZER or not recorder.thread.is_current():
            return inner(*args, **kwargs)
        timeline.enter(_OPTIMIZER)
        try:
            return inner(*args, **kwargs)
        finally:
            if recorder.timeline is timeline:
                timeline.leave()

    step.stepwatch_wrapped = True  # type: ignore[attr-defined]
    optimizer.step = types.MethodType(step, optimizer)
