"""Pipeline stages: the rank's self time per microbatch, and its wait for other stages."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from stepwatch.hooks.communication.microbatches import Work
from stepwatch.hooks.core import COLLECTIVE, PIPELINE_WAIT
from stepwatch.hooks.instruments import Instruments
from stepwatch.signals.records import Phase

_WEIGHT_ONLY = "backward_weight_one_chunk"
_STAGE_WORK = {
    "forward_one_chunk": Phase.FORWARD,
    "backward_one_chunk": Phase.BACKWARD,
    _WEIGHT_ONLY: Phase.BACKWARD,
}


def watch_schedule(instruments: Instruments, schedule: Any) -> None:
    """Wrap `schedule.step` and each stage's work.

    Inside `step`, all time outside a stage's forward and backward is pipeline wait.

    Raises:
        AttributeError: the object is not a torch pipeline schedule.
    """
    attachments = instruments.recorder.attachments
    stages = getattr(schedule, "_stages", None) or [schedule._stage]
    for stage in stages:
        for name, phase in _STAGE_WORK.items():
            method = getattr(stage, name, None)
            if method is not None and not attachments.has(method):
                work = Work(int(stage.stage_index), int(phase), int(name == _WEIGHT_ONLY))
                attachments.replace(stage, name, _timed_chunk(instruments, method, work))
    if not attachments.has(schedule.step):
        attachments.replace(schedule, "step", _timed_schedule(instruments, schedule))


def _timed_chunk(
    instruments: Instruments, method: Callable[..., Any], work: Work
) -> Callable[..., Any]:
    counts = work.phase == Phase.FORWARD
    bucket, samples, recorder = work.phase, instruments.microbatches, instruments.recorder

    @functools.wraps(method)
    def call(*args: Any, **kwargs: Any) -> Any:
        timeline = recorder.timeline
        if timeline is None:
            return method(*args, **kwargs)
        chunk = args[0] if args and isinstance(args[0], int) else timeline.microbatches
        timeline.microbatches += counts
        sampled = samples.active
        blocked = timeline.totals[COLLECTIVE] if sampled else 0
        began = timeline.enter_microbatch(bucket, chunk)
        try:
            return method(*args, **kwargs)
        finally:
            if recorder.timeline is not None:  # else a signal handler closed it
                ended = timeline.leave()
                if sampled:
                    blocked = timeline.totals[COLLECTIVE] - blocked
                    samples.chunk_ends(work, chunk, began, ended, blocked)

    return call


def _timed_schedule(instruments: Instruments, schedule: Any) -> Callable[..., Any]:
    method = schedule.step
    samples, recorder = instruments.microbatches, instruments.recorder

    @functools.wraps(method)
    def call(*args: Any, **kwargs: Any) -> Any:
        timeline = recorder.timeline
        if timeline is None:
            return method(*args, **kwargs)
        if timeline.step >= samples.due:
            # torch's `eval` goes through `step`; other evaluations have a phase around them.
            training = timeline.bucket != Phase.EVAL and getattr(schedule, "_has_backward", True)
            samples.call_begins(timeline.step, training=training)
        began = timeline.enter(PIPELINE_WAIT)
        try:
            return method(*args, **kwargs)
        finally:
            if recorder.timeline is not None:
                ended = timeline.leave()
                if samples.active:
                    samples.call_ends(began, ended)

    return call
