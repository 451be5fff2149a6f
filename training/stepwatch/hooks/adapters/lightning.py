"""PyTorch Lightning: `Trainer(..., callbacks=[StepwatchCallback("my-job")])`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lightning.pytorch import Callback

from stepwatch.hooks import Watch
from stepwatch.hooks.auto import LoopObserver, follow

from .numbers import numbers_in
from .tokens import Tokens, counter
from .wrappers import Note


class StepwatchCallback(Callback):
    """Watches one call to `fit`.

    A step ends with the batch that advances the Trainer's global step. Its loss is its last
    batch's loss, as `training_step` returned it. `tokens` counts the tokens in a batch: a function
    that takes the batch, or a number. Without it, batches with `input_ids` and pairs with
    `input_ids` are counted.
    """

    def __init__(self, job: str | None = None, *, tokens: Tokens = None) -> None:
        super().__init__()
        self.job = job
        self._tokens = counter(tokens)
        self.watch: Watch | None = None
        self._observer: LoopObserver | None = None
        self._step = 0
        self._logged: dict[str, Any] = {}
        """Numbers recorded already, by name."""

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
            Note(self._observer, self._note)(trainer, pl_module, outputs, batch)
            if trainer.global_step != self._step:
                Note(self._observer, self._record_logged)(trainer)
                self._step = trainer.global_step
                self._observer.end_step()

    def _note(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any) -> None:
        """Note the batch's loss, undivided, and its tokens."""
        loss = outputs.get("loss") if isinstance(outputs, dict) else outputs
        # Lightning divides the loss that it trains on, and passes the quotient to callbacks.
        parts = trainer.accumulate_grad_batches if pl_module.automatic_optimization else 1
        if loss is not None and parts > 1:
            loss = loss * parts
        if self._observer is not None:
            self._observer.record(loss=loss, tokens=self._tokens(batch))

    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        """Record what validation logged; the check before training is none."""
        if self._observer is not None and self.watch is not None and not trainer.sanity_checking:
            Note(self._observer, self._record_validation)(trainer)

    def _record_logged(self, trainer: Any) -> None:
        if self.watch is not None:
            self.watch.record(**self._new_in(trainer.callback_metrics))

    def _record_validation(self, trainer: Any) -> None:
        if self.watch is not None:
            self.watch.record_evaluation(self._new_in(trainer.callback_metrics))

    def _new_in(self, logged: Mapping[str, Any]) -> dict[str, Any]:
        """Return the logged numbers that were replaced since the last call: it keeps old ones."""
        new = {
            name: value
            for name, value in numbers_in(logged).items()
            if not _are_same(self._logged.get(name), value)
        }
        self._logged |= new
        return new

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """Report that training reached its end."""
        if self.watch is not None:
            self.watch.finish()
            self.watch.close()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """Report the error that ends training: the Trainer may exit before its callers see it."""
        if self.watch is not None:
            self.watch.failed(exception)
            self.watch.close()


def _are_same(earlier: Any, value: Any) -> bool:
    """Return whether a logged value is an earlier one: Lightning detaches it at each reading.

    The earlier one is held, so no other tensor has its memory.
    """
    if earlier is value or not hasattr(value, "data_ptr") or not hasattr(earlier, "data_ptr"):
        return earlier is value
    return bool(earlier.data_ptr() == value.data_ptr())
