"""Wraps a framework's functions; their results and errors pass through."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from stepwatch.hooks.auto import LoopObserver
from stepwatch.hooks.guard import guarded

Function = Callable[..., Any]


def in_phase(observer: LoopObserver, phase: str, inner: Function) -> Function:
    """Wrap `inner` so that its time counts as `phase`."""

    @functools.wraps(inner)
    def timed(*args: Any, **kwargs: Any) -> Any:
        with observer.phase(phase):
            return inner(*args, **kwargs)

    return timed


class Note:
    """An action next to a framework's function; its errors are counted and do not propagate."""

    def __init__(self, observer: LoopObserver, note: Function) -> None:
        self.guard = observer.guard
        self._note = note

    @guarded()
    def __call__(self, *args: Any, **kwargs: Any) -> None:
        """Call the action; its result is dropped."""
        self._note(*args, **kwargs)


def call_before(observer: LoopObserver, inner: Function, action: Function) -> Function:
    """Wrap `inner` so that `action` is called first with the same arguments."""
    note = Note(observer, action)

    @functools.wraps(inner)
    def noting(*args: Any, **kwargs: Any) -> Any:
        note(*args, **kwargs)
        return inner(*args, **kwargs)

    return noting


def call_after(observer: LoopObserver, inner: Function, action: Function) -> Function:
    """Wrap `inner` so that `action` is called with its result, which is then returned."""
    note = Note(observer, action)

    @functools.wraps(inner)
    def noting(*args: Any, **kwargs: Any) -> Any:
        result = inner(*args, **kwargs)
        note(result)
        return result

    return noting


class Fetched:
    """The same batches; the wait for each counts as data, and the time after it as forward.

    `iterator` needs only `__next__`; its other attributes are available through this object.
    """

    def __init__(self, observer: LoopObserver, iterator: Any) -> None:
        self._observer = observer
        self._iterator = iterator

    def __iter__(self) -> Fetched:
        return self

    def __next__(self) -> Any:
        waiting, came = self._observer.data_begins(), False
        try:
            batch = next(self._iterator)
            came = True
            return batch
        finally:
            if waiting:
                self._observer.data_ends(came=came)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # a copy asks before it has any attribute
            raise AttributeError(name)
        return getattr(self.__dict__["_iterator"], name)
