"""Whether the trainer scales its loss: then gradients overflow now and then, and that is healthy.

A scaler doubles its scale until gradients overflow, leaves that step out and halves the scale.
Nothing of it is replaced or wrapped: scalers are searched for among the objects of the interpreter,
and only once a gradient was not finite.
"""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Iterator
from typing import Any

from stepwatch.hooks.guard import Guard, guarded

CLASSES = (
    ("torch.amp.grad_scaler", "GradScaler"),
    ("deepspeed.runtime.fp16.loss_scaler", "DynamicLossScaler"),
    ("megatron.core.optimizer.grad_scaler", "DynamicGradScaler"),
)
"""Modules and classes of scalers that leave a step out when it overflows, with their subclasses."""
SEARCH_EVERY = 1024
"""Calls between two searches without success: one takes milliseconds per 100,000 objects."""


class LossScalers:
    """The loss scalers of this process; objects under `gc.freeze()` are not found."""

    def __init__(self, guard: Guard) -> None:
        self.guard = guard
        self._scalers: list[weakref.ref[Any]] = []
        self._calls = 0

    @guarded(fallback=False)
    def in_use(self) -> bool:
        """Whether one is at work now; call it where gradients were not finite and only there."""
        self._scalers = [reference for reference in self._scalers if reference() is not None]
        if any(_works(reference()) for reference in self._scalers):
            return True
        if self._calls % SEARCH_EVERY == 0:
            self._scalers = [weakref.ref(scaler) for scaler in _search()]
        self._calls += 1
        return any(_works(reference()) for reference in self._scalers)


def _search() -> Iterator[Any]:
    classes: list[type] = []
    for module, name in CLASSES:
        scaler_class = getattr(sys.modules.get(module), name, None)
        if isinstance(scaler_class, type):
            classes.extend(_with_subclasses(scaler_class))
    # An object refers to its class: asking who refers to the classes is one pass in C.
    for scaler in gc.get_referrers(*classes) if classes else ():
        if issubclass(type(scaler), tuple(classes)):  # isinstance would ask a stranger's __class__
            yield scaler


def _with_subclasses(base: type) -> Iterator[type]:
    yield base
    subclasses: list[type] = base.__subclasses__()
    for derived in subclasses:
        yield from _with_subclasses(derived)


def _works(scaler: Any) -> bool:
    """Torch's makes its scale when it first scales a loss; a disabled one never does."""
    return (
        scaler is not None
        and getattr(scaler, "_scale", scaler) is not None
        and bool(getattr(scaler, "_enabled", True))
    )
