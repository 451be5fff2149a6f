"""Counts the tokens in the batches that Accelerate's loaders deliver to this rank."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

from accelerate.data_loader import DataLoaderDispatcher, DataLoaderShard

from stepwatch.hooks import Watch
from stepwatch.hooks.auto import LoopObserver

from .tokens import Tokens, counter
from .wrappers import Note


def count_batches(watch: Watch, observer: LoopObserver, tokens: Tokens) -> None:
    """Count each batch that a backward follows, until `watch` is closed."""
    count = counter(tokens)
    note = Note(observer, lambda batch: observer.batch_holds(count(batch)))

    def counted(inner: Callable[[Any], Iterator[Any]]) -> Callable[[Any], Iterator[Any]]:
        @functools.wraps(inner)
        def batches(loader: Any) -> Iterator[Any]:
            for batch in inner(loader):
                note(batch)
                yield batch

        return batches

    for loader in (DataLoaderShard, DataLoaderDispatcher):
        watch.instruments.pauses.replace(loader, "__iter__", counted)
