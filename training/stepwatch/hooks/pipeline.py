"""Pipeline stages: the rank's own work per microbatch, and the wait for its neighbours."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from stepwatch.signals.records import Phase

from .timeline import PIPELINE_WAIT

if TYPE_CHECKING:
    from .watch import Watch

_STAGE_WORK = {
    "forward_one_chunk": Phase.FORWARD,
    "backward_one_chunk": Phase.BACKWARD,
    "backward_weight_one_chunk": Phase.BACKWARD,
}


def watch_schedule(watch: Watch, schedule: Any) -> None:
    """Wrap `schedule.step` and the work of each of its stages.

    Inside `step`, whatever is not a stage's forward or backward is waiting for neighbours.

    Raises:
        AttributeError: the object is not a torch pipeline schedule.
    """
    stages = getattr(schedule, "_stages", None) or [schedule._stage]
    for stage in stages:
        for name, phase in _STAGE_WORK.items():
            method = getattr(stage, name, None)
            if method is not None and not hasattr(method, "stepwatch_wrapped"):
                setattr(stage, name, _timed_chunk(watch, method, phase))
    if not hasattr(schedule.step, "stepwatch_wrapped"):
        schedule.step = _timed_schedule(watch, schedule.step)


def _timed_chunk(watch: Watch, method: Callable[..., Any], phase: Phase) -> Callable[..., Any]:
    counts = phase is Phase.FORWARD
    bucket = int(phase)

    @functools.wraps(method)
    def call(*args: Any, **kwargs: Any) -> Any:
        timeline = watch.timeline
        if timeline is None:
            return method(*args, **kwargs)
        chunk = args[0] if args and isinstance(args[0], int) else timeline.microbatches
        timeline.microbatches += counts
        timeline.enter_microbatch(bucket, chunk)
        try:
            return method(*args, **kwargs)
        finally:
            if watch.timeline is not None:  # closed meanwhile, by a signal handler say
                timeline.leave()

    call.stepwatch_wrapped = True  # type: ignore[attr-defined]
    return call


def _timed_schedule(watch: Watch, method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def call(*args: Any, **kwargs: Any) -> Any:
        timeline = watch.timeline
        if timeline is None:
            return method(*args, **kwargs)
        timeline.enter(PIPELINE_WAIT)
        try:
            return method(*args, **kwargs)
        finally:
            if watch.timeline is not None:
                timeline.leave()

    call.stepwatch_wrapped = True  # type: ignore[attr-defined]
    return call
