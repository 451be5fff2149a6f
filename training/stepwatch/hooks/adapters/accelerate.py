"""Accelerate: `watch = watch_accelerator(accelerator, job="my-job")` after `prepare`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from accelerate import Accelerator

from stepwatch.hooks import Watch
from stepwatch.hooks.auto import Recorder, follow


def watch_accelerator(accelerator: Accelerator, job: str | None = None) -> Watch:
    """Watch the loop around `accelerator`: its losses, gradient norms and saved states.

    A step ends when the optimizer steps, which it does not while gradients accumulate. The loss of
    a step is that of its last batch. Call `close()` on the result after the last step.
    """
    watch = Watch.from_env(job=job)
    recorder = follow(watch)
    if recorder is not None:
        accelerator.backward = _noting_loss(recorder, accelerator.backward)
        accelerator.clip_grad_norm_ = _noting_norm(recorder, accelerator.clip_grad_norm_)
        accelerator.save_state = _timed_save(recorder, accelerator.save_state)
    return watch


def _noting_loss(recorder: Recorder, inner: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(inner)
    def backward(loss: Any, **kwargs: Any) -> Any:
        recorder.record(loss=loss)
        return inner(loss, **kwargs)

    return backward


def _noting_norm(recorder: Recorder, inner: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(inner)
    def clip(*args: Any, **kwargs: Any) -> Any:
        norm = inner(*args, **kwargs)
        recorder.record(grad_norm=norm)
        return norm

    return clip


def _timed_save(recorder: Recorder, inner: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(inner)
    def save(*args: Any, **kwargs: Any) -> Any:
        with recorder.watch.phase("checkpoint"):
            return inner(*args, **kwargs)

    return save
