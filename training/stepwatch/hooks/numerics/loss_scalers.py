"""Finds out whether the trainer scales its loss: then occasional gradient overflow is healthy.

A scaler doubles its scale until gradients overflow, skips that step and halves the scale. The
hooks neither replace nor wrap it: they search the interpreter's objects for scalers, and only
after a gradient was not finite.
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
"""Modules and classes of scalers that skip a step when it overflows, with their subclasses."""
SEARCH_EVERY = 1024
"""Calls between two searches without success: one takes milliseconds per 100,000 objects."""


class LossScalers:
    """This process's loss scalers; objects under `gc.freeze()` are not found."""

    def __init__(self, guard: Guard) -> None:
        self.guard = guard
        self._scalers: list[weakref.ref[Any]] = []
        self._calls = 0

    @guarded(fallback=False)
    def in_use(self) -> bool:
        """Return whether a scaler is active; call it only after gradients were not finite."""
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
    # An object refers to its class: finding the classes' referrers is one pass in C.
    for scaler in gc.get_referrers(*classes) if classes else ():
        if issubclass(type(scaler), tuple(classes)):  # isinstance would call a foreign __class__
            yield scaler


def _with_subclasses(base: type) -> Iterator[type]:
    yield base
    subclasses: list[type] = base.__subclasses__()
    for derived in subclasses:
        yield from _with_subclasses(derived)


def _works(scaler: Any) -> bool:
    """Return whether it scales: torch's makes its scale at the first loss, a disabled one never."""
    return (
        scaler is not None
        and getattr(scaler, "_scale", scaler) is not None
        and bool(getattr(scaler, "_enabled", True))
    )
