"""Answers that were made a moment ago: many tabs ask the same question about the same state."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, NamedTuple, TypeVar

from stepwatch.collector.runtime.views import Published

T = TypeVar("T")
_MAKERS = 16
"""Values that can be made at the same time; keys share these places by their hash."""


class _Entry(NamedTuple, Generic[T]):
    """A value, its size, and the published state that it was made from."""

    value: T
    size: int
    version: int
    as_of: float


class Kept(Generic[T]):
    """The most recently used values within a total size; thread-safe.

    A key has one value, made from the newest published state. The size includes the keys, which a
    client chooses. Threads that ask for one key at the same time wait for one of them to make it.
    """

    def __init__(self, most: int, size_of: Callable[[T], int]) -> None:
        self._most, self._size_of = most, size_of
        self._entries: OrderedDict[Hashable, _Entry[T]] = OrderedDict()
        self._size = 0
        self._lock = threading.Lock()
        self._making = [threading.Lock() for _ in range(_MAKERS)]

    def get(self, key: Hashable, published: Published, make: Callable[[], T]) -> T:
        """Return the value for a published state, made now unless it is kept."""
        entry = self._known(key, published)
        if entry is None:
            with self._making[hash(key) % _MAKERS]:
                entry = self._known(key, published) or self._made(key, published, make)
        return entry.value

    def _known(self, key: Hashable, published: Published) -> _Entry[T] | None:
        with self._lock:
            entry = self._entries.get(key)
            if entry and (entry.version, entry.as_of) == (published.version, published.as_of):
                self._entries.move_to_end(key)
                return entry
        return None

    def _made(self, key: Hashable, published: Published, make: Callable[[], T]) -> _Entry[T]:
        value = make()
        size = self._size_of(value) + len(repr(key))
        entry = _Entry(value, size, published.version, published.as_of)
        self._put(key, entry)
        return entry

    def _put(self, key: Hashable, entry: _Entry[T]) -> None:
        with self._lock:
            previous = self._entries.pop(key, None)
            self._size += entry.size - (previous.size if previous else 0)
            self._entries[key] = entry
            while self._size > self._most:
                _, oldest = self._entries.popitem(last=False)
                self._size -= oldest.size
