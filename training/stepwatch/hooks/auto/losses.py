"""Losses under `stepwatch run`, from the calls in which a framework shows them.

A step's loss is the one that an adapter would record: Hugging Face's Trainer divides each batch's
loss, so they add up; Accelerate and Lightning show it undivided, so the last batch's counts.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any, NamedTuple

from stepwatch.hooks.guard import guarded
from stepwatch.hooks.pauses.imports import Imports

from .router import Router

Function = Callable[..., Any]


class LossCall(NamedTuple):
    """A method that trains on a batch: its module and class, and where its loss is.

    The loss is the argument `loss`, or else the result. `adds_up`: a step's batches show parts.
    """

    module: str
    owner: str
    name: str
    by_argument: bool = False
    adds_up: bool = False


LOSS_CALLS = (
    LossCall("transformers.trainer", "Trainer", "training_step", adds_up=True),
    LossCall("accelerate.accelerator", "Accelerator", "backward", by_argument=True),
    *(
        LossCall(f"{package}.strategies.strategy", "Strategy", "training_step")
        for package in ("lightning.pytorch", "pytorch_lightning")
    ),
)


class Losses:
    """Records the shown losses while nothing but `stepwatch run` watches this process."""

    def __init__(self, router: Router, calls: Sequence[LossCall] = LOSS_CALLS) -> None:
        self.guard = router.guard
        self._router = router
        self._calls = calls
        self._step = -1
        self._sum: Any = None
        """Of the batches in step `_step` so far."""

    @guarded()
    def start(self) -> None:
        """Watch the calls in modules that are imported, now or later."""
        Imports({call.module for call in self._calls}, self._imported).start()

    @guarded()
    def _imported(self, module: ModuleType) -> None:
        for call in self._calls:
            owner = getattr(module, call.owner, None) if call.module == module.__name__ else None
            inner = None if owner is None else vars(owner).get(call.name)
            if callable(inner):
                setattr(owner, call.name, self._watched(call, inner))

    def _watched(self, call: LossCall, inner: Function) -> Function:
        @functools.wraps(inner)
        def train(*args: Any, **kwargs: Any) -> Any:
            # The Trainer calls Accelerate's `backward`: the outer call is noted last, and counts.
            result = inner(*args, **kwargs)
            self._note(call, args, kwargs, result)
            return result

        return train

    @guarded()
    def _note(
        self, call: LossCall, args: tuple[Any, ...], kwargs: Mapping[str, Any], result: Any
    ) -> None:
        """Record a loss for the current step: a number or a tensor, which is read later."""
        observer = self._router.unasked_observer
        timeline = None if observer is None else observer.timeline()
        if observer is None or timeline is None:
            return
        argument = kwargs.get("loss", args[1] if len(args) > 1 else None)
        shown = argument if call.by_argument else result
        loss = shown.get("loss") if isinstance(shown, Mapping) else shown
        if loss is not None and call.adds_up:
            is_same = timeline.step == self._step and self._sum is not None
            self._step, self._sum = timeline.step, self._sum + loss if is_same else loss
            loss = self._sum
        observer.record(loss=loss)
