"""DeepSpeed: `watch = watch_engine(engine, job="my-job")` after `deepspeed.initialize`."""

from __future__ import annotations

from typing import Any

import torch
from deepspeed import DeepSpeedEngine

from stepwatch.hooks import Watch
from stepwatch.hooks.auto import follow

from .numbers import numbers_in
from .wrappers import call_after, call_before, in_phase


def watch_engine(engine: DeepSpeedEngine, job: str | None = None) -> Watch:
    """Watch the loop around `engine`: losses, gradient norms, monitor events, steps, checkpoints.

    A step ends with the `engine.step()` that advances the engine's global step, so not while
    gradients accumulate. A monitor's numbers belong to the step in progress, or between two steps
    to the one that ended. `engine.load_checkpoint` before the first step is a resume. Call
    `close()` on the result after the last step.
    """
    watch = Watch.from_env(job=job)
    watch.start_at(engine.global_steps)
    observer = follow(watch, boundaries=False)
    if observer is None:
        return watch
    counted_steps = [engine.global_steps]
    is_in_step = is_trained = False

    def begin(*args: Any, **kwargs: Any) -> None:
        nonlocal is_in_step
        if torch.is_grad_enabled():
            is_in_step = True
            observer.forward_begins()
        else:
            observer.model_inferred()

    def note_loss(loss: Any, *args: Any, **kwargs: Any) -> None:
        observer.record(loss=loss)

    def end(_result: Any) -> None:
        nonlocal is_in_step, is_trained
        if engine.global_steps != counted_steps[0]:
            counted_steps[0] = engine.global_steps
            is_in_step, is_trained = False, True
            observer.record(grad_norm=engine.get_global_grad_norm())
            observer.end_step()

    def continue_from(result: Any) -> None:
        path = result[0]
        if path and not is_trained:
            counted_steps[0] = engine.global_steps
            watch.resumed(from_step=engine.global_steps, checkpoint=str(path))
            watch.start_at(engine.global_steps)

    def note_events(events: Any) -> None:
        # ("Train/Samples/train_loss", 2.5, 512): a folder and a name, a number, the samples so far.
        # The engine's rate is the next step's; the optimizer has this step's.
        named = {name: value for name, value, *_ in events if name != "Train/Samples/lr"}
        numbers = numbers_in({name.rpartition("/")[2]: value for name, value in named.items()})
        if is_in_step:
            watch.record(**numbers)
        else:
            watch.instruments.metrics.record_ended(numbers)

    if monitor := getattr(engine, "monitor", None):
        monitor.write_events = call_before(observer, monitor.write_events, note_events)
    engine.forward = call_before(observer, engine.forward, begin)
    engine.backward = call_before(
        observer, in_phase(observer, "backward", engine.backward), note_loss
    )
    engine.load_checkpoint = call_after(observer, engine.load_checkpoint, continue_from)
    engine.step = call_after(observer, in_phase(observer, "optimizer", engine.step), end)
    return watch
