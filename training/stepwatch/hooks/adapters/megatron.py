"""Megatron-style loops: `train_step = watch_train_step(train_step, watch)` before the loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stepwatch.hooks import Watch
from stepwatch.hooks.auto import LoopObserver, follow

from .wrappers import Fetched

TrainStep = Callable[..., Any]


def watch_train_step(train_step: TrainStep, watch: Watch) -> TrainStep:
    """Wrap a `train_step` with Megatron-LM's signature; each call is one step in `watch`.

    `train_step(forward_step_func, data_iterator, model, optimizer, ...)` returns a tuple. Its first
    item maps names to losses. The other items differ between releases; the first float among them
    is the gradient norm.
    """
    observer = follow(watch, boundaries=False)
    if observer is None:
        return train_step

    def step(forward_step: Any, data: Any, *args: Any, **kwargs: Any) -> Any:
        result = train_step(forward_step, _watched(observer, data), *args, **kwargs)
        loss, norm = _numbers(result)
        observer.record(loss=loss, grad_norm=norm)
        observer.end_step()
        return result

    return step


def _watched(observer: LoopObserver, data: Any) -> Any:
    """Return the iterator, or the list with one per model chunk, with its waits counted as data.

    Megatron-LM insists on its own `RerunDataIterator`, which rewinds: a rewinding iterator is
    returned unchanged, and its source is watched. An iterator with an unknown source stays
    unwatched.
    """
    if isinstance(data, list):
        return [_watched(observer, chunk) for chunk in data]
    if hasattr(data, "rewind"):
        source = getattr(data, "iterable", None)
        if hasattr(source, "__next__") and not isinstance(source, Fetched):
            data.iterable = Fetched(observer, source)
        return data
    return Fetched(observer, data) if hasattr(data, "__next__") else data


def _numbers(result: Any) -> tuple[Any, Any]:
    """Return (loss, gradient norm) from the result of `train_step`; None for a missing number."""
    items = result if isinstance(result, tuple) else (result,)
    losses = items[0] if isinstance(items[0], dict) else {}
    norms = [item for item in items[1:] if isinstance(item, float)]
    return next(iter(losses.values()), None), norms[0] if norms else None
