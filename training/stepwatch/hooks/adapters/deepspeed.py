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
    gradients accumulate. Call `close()` on the result after the last step.
    """
    watch = Watch.from_env(job=job)
    watch.start_at(engine.global_steps)
    observer = follow(watch, boundaries=False)
    if observer is None:
        return watch
    counted_steps = [engine.global_steps]

    def begin(*args: Any, **kwargs: Any) -> None:
        if torch.is_grad_enabled():
            observer.forward_begins()
        else:
            observer.model_inferred()

    def note_loss(loss: Any, *args: Any, **kwargs: Any) -> None:
        observer.record(loss=loss)

    def end(_result: Any) -> None:
        if engine.global_steps != counted_steps[0]:
            counted_steps[0] = engine.global_steps
            observer.record(grad_norm=engine.get_global_grad_norm())
            observer.end_step()

    def note_events(events: Any) -> None:
        # ("Train/Samples/lr", 0.001, 512): a name with its folder, a number, the samples so far.
        watch.record(**numbers_in({name.rpartition("/")[2]: value for name, value, *_ in events}))

    if monitor := getattr(engine, "monitor", None):
        monitor.write_events = call_before(observer, monitor.write_events, note_events)
    engine.forward = call_before(observer, engine.forward, begin)
    engine.backward = call_before(
        observer, in_phase(observer, "backward", engine.backward), note_loss
    )
    engine.step = call_after(observer, in_phase(observer, "optimizer", engine.step), end)
    return watch
