"""torchtitan: `watch = watch_trainer(trainer, job="my-job")` before `trainer.train()`."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

from torchtitan.trainer import Trainer

from stepwatch.hooks import Watch
from stepwatch.hooks.auto import follow

from .wrappers import Fetched, Note, call_after, call_before, in_phase


def watch_trainer(trainer: Trainer, job: str | None = None) -> Watch:
    """Watch `trainer`: its steps, with torchtitan's numbers, pipeline and checkpoints.

    Tokens are this rank's labels. Loss and gradient norm are available in the steps that
    torchtitan logs. Call `close()` on the result after training.
    """
    watch = Watch.from_env(job=job)
    watch.attach(model=trainer.model_parts, schedule=getattr(trainer, "pp_schedule", None))
    observer = follow(watch, boundaries=False)
    if observer is None:
        return watch
    batches, log = trainer.batch_generator, trainer.metrics_processor.log

    count = Note(observer, lambda labels: observer.record(tokens=labels.numel()))

    @functools.wraps(batches)
    def watched_batches(loader: Any) -> Iterator[Any]:
        for inputs, labels in Fetched(observer, iter(batches(loader))):
            count(labels)
            yield inputs, labels

    def note_numbers(
        step: int, loss: float, largest: float, norm: float, *args: Any, **kwargs: Any
    ) -> None:
        observer.record(loss=loss, grad_norm=norm)

    def number(*_: Any, **__: Any) -> None:
        if watch.step_number != trainer.step:
            watch.start_at(trainer.step)

    trainer.batch_generator = watched_batches
    trainer.metrics_processor.log = call_before(observer, log, note_numbers)
    trainer.train_step = call_after(
        observer, call_before(observer, trainer.train_step, number), lambda _: observer.end_step()
    )
    trainer.checkpointer.save = in_phase(observer, "checkpoint", trainer.checkpointer.save)
    return watch
