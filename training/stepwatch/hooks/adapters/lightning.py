"""PyTorch Lightning: `Trainer(..., callbacks=[StepwatchCallback("my-job")])`."""

from __future__ import annotations

from typing import Any

from lightning.pytorch import Callback

from stepwatch.hooks import Watch
from stepwatch.hooks.auto import LoopObserver, follow


class StepwatchCallback(Callback):
    """Watches one call of `fit`.

    A step ends with the batch in which the Trainer's global step moves on.
    """

    def __init__(self, job: str | None = None) -> None:
        super().__init__()
        self.job = job
        self.watch: Watch | None = None
        self._observer: LoopObserver | None = None
        self._step = 0

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Begin, at the step that the Trainer resumed from."""
        self.watch = Watch.from_env(
            job=self.job, rank=trainer.global_rank, world=trainer.world_size
        )
        self._step = trainer.global_step
        self.watch.start_at(self._step)
        self._observer = follow(self.watch, boundaries=False)

    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """End the step if an optimizer has stepped in this batch."""
        if self._observer is not None:
            loss = outputs.get("loss") if isinstance(outputs, dict) else outputs
            self._observer.record(loss=loss)
            if trainer.global_step != self._step:
                self._step = trainer.global_step
                self._observer.end_step()

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """Report that training reached its end."""
        if self.watch is not None:
            self.watch.finish()
            self.watch.close()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """Report the error that ends training: the Trainer may exit where nobody else sees it."""
        if self.watch is not None:
            self.watch.failed(exception)
            self.watch.close()
