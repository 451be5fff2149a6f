"""Puts something of ours around a function of a framework; its result and errors pass through."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from stepwatch.hooks.auto import Recorder

Function = Callable[..., Any]


def in_phase(recorder: Recorder, phase: str, inner: Function) -> Function:
    """`inner`, whose time counts as `phase`."""

    @functools.wraps(inner)
    def timed(*args: Any, **kwargs: Any) -> Any:
        with recorder.watch.phase(phase):
            return inner(*args, **kwargs)

    return timed


def before(inner: Function, note: Function) -> Function:
    """`inner`; `note` is called first with the same arguments."""

    @functools.wraps(inner)
    def noting(*args: Any, **kwargs: Any) -> Any:
        note(*args, **kwargs)
        return inner(*args, **kwargs)

    return noting


def after(inner: Function, note: Function) -> Function:
    """`inner`; `note` is called with its result, which is returned."""

    @functools.wraps(inner)
    def noting(*args: Any, **kwargs: Any) -> Any:
        result = inner(*args, **kwargs)
        note(result)
        return result

    return noting


def fetched(recorder: Recorder, batches: Iterable[Any]) -> Iterator[Any]:
    """The same batches; the wait for each counts as data, and what follows it as forward."""
    iterator = iter(batches)
    while True:
        waiting, came = recorder.data_begins(), False
        try:
            batch = next(iterator)
            came = True
        except StopIteration:
            return
        finally:
            if waiting:
                recorder.data_ends(came=came)
        yield batch
