"""Hugging Face `transformers.Trainer`: `Trainer(..., callbacks=[StepwatchCallback("my-job")])`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from transformers import TrainerCallback

from stepwatch.hooks import Watch
from stepwatch.hooks.auto import LoopObserver, follow

from .batches import count_batches
from .numbers import numbers_in
from .tokens import Tokens

_IN_STEPS = frozenset({"loss", "grad_norm", "learning_rate"})
"""Logged numbers that the step or its optimizer shows anyway."""
_EVAL_PREFIX = "eval_"


class StepwatchCallback(TrainerCallback):
    """Watches one call to `train`.

    A step ends where the Trainer ends it. Its loss is available when the Trainer logs it: the mean
    since the last log. The Trainer counts tokens with `include_num_input_tokens_seen`. Without
    that, `tokens` counts the tokens in a batch: a function that takes the batch, or a number.
    Without `tokens`, batches with `input_ids` are counted.
    """

    def __init__(self, job: str | None = None, *, tokens: Tokens = None) -> None:
        self.job = job
        self._count = tokens
        self.watch: Watch | None = None
        self._observer: LoopObserver | None = None
        self._tokens = 0

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Begin, at the step that the Trainer resumed from."""
        self.watch = Watch.from_env(job=self.job, rank=args.process_index, world=args.world_size)
        self.watch.start_at(state.global_step)
        self._observer = follow(self.watch, boundaries=False)
        self._tokens = state.num_input_tokens_seen
        if self._observer is not None and args.include_num_input_tokens_seen in ("no", False):
            count_batches(self.watch, self._observer, self._count)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """End the step, unless its loss is about to be logged."""
        if self._observer is not None:
            tokens = (state.num_input_tokens_seen - self._tokens) // max(args.world_size, 1)
            self._tokens = state.num_input_tokens_seen
            self._observer.record(tokens=tokens)
            if not control.should_log:
                self._observer.end_step()

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
        """End the step that was logged; other numbers that the trainer logs belong to its step."""
        if self._observer is None or self.watch is None or not logs or _is_summary(logs):
            return
        self.watch.record(**numbers_in(logs, _IN_STEPS))
        if "loss" in logs:
            self._observer.record(loss=logs["loss"], grad_norm=logs.get("grad_norm"))
            self._observer.end_step()

    def on_evaluate(
        self, args: Any, state: Any, control: Any, metrics: Any = None, **kwargs: Any
    ) -> None:
        """Record the evaluation's values, `eval_loss` as `loss` of `eval`."""
        if self.watch is not None and metrics:
            named = {name.removeprefix(_EVAL_PREFIX): value for name, value in metrics.items()}
            self.watch.record_evaluation(numbers_in(named), name="eval")

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Report that training reached its end."""
        if self.watch is not None:
            self.watch.finish()
            self.watch.close()


def _is_summary(logs: Mapping[str, Any]) -> bool:
    """Return whether the Trainer logs the results of an evaluation or of the whole training.

    With `include_num_input_tokens_seen` the log of a step has a runtime, too.
    """
    return "loss" not in logs and any(name.endswith("_runtime") for name in logs)
