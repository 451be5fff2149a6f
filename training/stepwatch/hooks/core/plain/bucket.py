"""A context manager that counts time to one bucket, and the totals of one operation."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any

from stepwatch.hooks.core.buckets import LIVE, LIVE_BITS, LIVE_WORD


class CollectiveTotals:
    """All collectives with one operation in one group since the last step ended."""

    __slots__ = ("count", "exposed_ns", "first_arrival_ns", "longest_ns", "nbytes")

    def __init__(self, first_arrival_ns: int) -> None:
        self.count = 0
        self.nbytes = 0
        self.exposed_ns = 0
        self.longest_ns = 0
        self.first_arrival_ns = first_arrival_ns


class Bucket:
    """Counts time to one bucket while it is entered: reusable, and at any depth.

    It raises nothing: surplus leaves are counted as misuse, and once the timeline is detached it
    shows nothing.
    """

    __slots__ = ("_bits", "_clock", "_index", "_timeline")

    def __init__(self, timeline: Any, index: int, clock: Callable[[], int]) -> None:
        self._timeline = timeline
        self._index = index
        self._bits = LIVE_BITS[index]
        self._clock = clock

    def __enter__(self) -> None:
        timeline = self._timeline
        now = self._clock()
        outer = timeline.bucket
        timeline.totals[outer] += now - timeline.since
        timeline.since = now
        timeline.stack.append(outer)
        timeline.bucket = self._index
        words = timeline.words
        try:
            words[LIVE] = now
            words[LIVE_WORD] = timeline.step | self._bits
        except ValueError:  # a signal handler closed the ring in between
            timeline.detach()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        timeline = self._timeline
        now = self._clock()
        try:
            outer = timeline.stack.pop()
            timeline.totals[timeline.bucket] += now - timeline.since
            timeline.since = now
            timeline.bucket = outer
            words = timeline.words
            words[LIVE] = now
            words[LIVE_WORD] = timeline.step | LIVE_BITS[outer]
        except IndexError:
            timeline.misuse("a phase was left twice: use `with step.phase(name):`")
        except ValueError:
            timeline.detach()
