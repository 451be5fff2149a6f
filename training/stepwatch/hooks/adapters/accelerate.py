"""Accelerate: `watch = watch_accelerator(accelerator, job="my-job")` after `prepare`."""

from __future__ import annotations

from typing import Any

from accelerate import Accelerator

from stepwatch.hooks import Watch
from stepwatch.hooks.auto import follow

from .batches import count_batches
from .numbers import numbers_in
from .tokens import Tokens
from .wrappers import call_after, call_before


def watch_accelerator(
    accelerator: Accelerator, job: str | None = None, *, tokens: Tokens = None
) -> Watch:
    """Watch the loop around `accelerator`: its losses, gradient norms, tokens, logs and saves.

    A step ends when the optimizer steps, which it does not while gradients accumulate. A step's
    loss is its last batch's loss. `tokens` counts the tokens in a batch from a prepared loader: a
    function that takes the batch, or a number. Without it, batches with `input_ids` and pairs with
    `input_ids` are counted. Numbers for `accelerator.log` belong to the step that ended last. Call
    `close()` on the result after the last step.
    """
    watch = Watch.from_env(job=job, rank=accelerator.process_index, world=accelerator.num_processes)
    observer = follow(watch)
    if observer is None:
        return watch

    def note_loss(loss: Any, *args: Any, **kwargs: Any) -> None:
        observer.record(loss=loss)

    def note_norm(norm: Any) -> None:
        observer.record(grad_norm=norm)

    def note_log(values: Any, *args: Any, **kwargs: Any) -> None:
        watch.instruments.metrics.record_ended(numbers_in(values))

    accelerator.backward = call_before(observer, accelerator.backward, note_loss)
    accelerator.clip_grad_norm_ = call_after(observer, accelerator.clip_grad_norm_, note_norm)
    accelerator.log = call_before(observer, accelerator.log, note_log)
    count_batches(watch, observer, tokens)
    return watch
