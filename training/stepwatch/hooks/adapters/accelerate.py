"""Accelerate: `watch = watch_accelerator(accelerator, job="my-job")` after `prepare`."""

from __future__ import annotations

from typing import Any

from accelerate import Accelerator

from stepwatch.hooks import Watch
from stepwatch.hooks.auto import follow

from .wrappers import after, before, in_phase


def watch_accelerator(accelerator: Accelerator, job: str | None = None) -> Watch:
    """Watch the loop around `accelerator`: its losses, gradient norms and saved states.

    A step ends when the optimizer steps, which it does not while gradients accumulate. The loss of
    a step is that of its last batch. Call `close()` on the result after the last step.
    """
    watch = Watch.from_env(job=job)
    recorder = follow(watch)
    if recorder is None:
        return watch

    def note_loss(loss: Any, *args: Any, **kwargs: Any) -> None:
        recorder.record(loss=loss)

    def note_norm(norm: Any) -> None:
        recorder.record(grad_norm=norm)

    accelerator.backward = before(recorder, accelerator.backward, note_loss)
    accelerator.clip_grad_norm_ = after(recorder, accelerator.clip_grad_norm_, note_norm)
    accelerator.save_state = in_phase(recorder, "checkpoint", accelerator.save_state)
    return watch
