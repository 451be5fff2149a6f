"""A step's time: a stack of buckets whose self times add up to the step.

Buckets are the phases in `records.Phase`, then time blocked in collectives, then a pipeline
stage's wait for its neighbours. Entering an inner bucket stops the outer one, so that "forward" is
the rank's self time in forward, without any wait inside.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from stepwatch.hooks.core.buckets import (
    BUCKETS,
    COLLECTIVE,
    COLLECTIVE_LINE,
    INSIDE,
    LIVE_WORD,
    MICROBATCH_SHIFT,
)
from stepwatch.signals.blackbox import RingWriter
from stepwatch.signals.records import Kind, Phase, StepFlag

from .bucket import Bucket, CollectiveTotals

_COLLECTIVE_WORD = COLLECTIVE_LINE + 1
_COLLECTIVE_BYTES = COLLECTIVE_LINE + 2
_OUTSIDE = INSIDE - 1
_MOST_BYTES = (1 << 64) - 1
_DETACHED_WORDS = max(LIVE_WORD, _COLLECTIVE_BYTES) + 1


class Timeline:
    """Accounts for one rank's time and keeps its live line up to date.

    `clock` returns monotonic nanoseconds; `misuse` gets the trainer's mistakes. Called from
    one thread at a time: the training thread, or the autograd thread while the training thread is
    inside `backward`.
    """

    # With a dict, an object whose class is replaced reads its attributes several times slower: a
    # `DeviceTimeline` is created so, and `marks` and `ended` are its own.
    __slots__ = (
        "__weakref__",
        "_began",
        "_line",
        "_ring",
        "bucket",
        "buckets",
        "clock",
        "collectives",
        "ended",
        "entered",
        "flags",
        "marks",
        "microbatches",
        "misuse",
        "since",
        "stack",
        "step",
        "totals",
        "words",
    )

    def __init__(
        self, ring: RingWriter, clock: Callable[[], int], misuse: Callable[[str], None]
    ) -> None:
        self._ring = ring
        self.words: memoryview | list[int] = ring.words
        """The ring's words, or an unread list once the timeline is detached."""
        self.clock = clock
        """Returns monotonic ns."""
        self.misuse = misuse
        self.bucket = int(Phase.OTHER)
        """The bucket to which time counts now."""
        self.since = clock()
        """Moment up to which time is counted, in monotonic ns."""
        self.stack: list[int] = []
        """The buckets that were entered and not left, without the current one."""
        self._began = self.since
        self._line = threading.RLock()  # a signal handler may run a collective inside `arrive`
        self.entered = 0
        """Collectives begun so far."""
        self.collectives: dict[tuple[int, int], CollectiveTotals] = {}
        """Collectives in the current step, by (group, op)."""
        self.totals = [0] * BUCKETS
        self.step = 0
        self.microbatches = 0
        self.flags = int(StepFlag.FIRST)
        self.marks: Any = None
        """The boundaries on a device; None while the host alone is timed."""
        self.ended: Callable[[int, int, int], None] | None = None
        self.buckets = tuple(Bucket(self, index, clock) for index in range(BUCKETS))
        """A context manager for each bucket."""

    def begin(self) -> None:
        """Start counting the first step now; earlier time was start-up, not a step."""
        self.since = self._began = self.clock()
        self.totals = [0] * BUCKETS

    def detach(self) -> None:
        """Show nothing more: the ring is closed, or it is a parent process's."""
        self.words = [0] * _DETACHED_WORDS

    def enter(self, bucket: int) -> int:
        """Count time to `bucket` from now on; return the moment in ns."""
        self.buckets[bucket].__enter__()
        return self.since

    def leave(self) -> int:
        """Return to the bucket that the last `enter` left; return the moment in ns."""
        self.buckets[0].__exit__(None, None, None)
        return self.since

    def enter_microbatch(self, bucket: int, microbatch: int) -> int:
        """Like `enter`, and show the microbatch in the live line; return the moment in ns."""
        now = self.enter(bucket)
        try:
            self.words[LIVE_WORD] |= (microbatch & 0xFFFF) << MICROBATCH_SHIFT
        except ValueError:
            self.detach()
        return now

    def arrive(self, group: int, op: int, nbytes: int = 0) -> int:
        """A collective with `nbytes` begins: show it in the collective line; return the moment."""
        now = self.clock()
        word = (group & 0xFFFF) << 32 | op << 48 | INSIDE
        words = self.words
        with self._line:
            self.entered += 1
            try:
                words[COLLECTIVE_LINE] = now
                words[_COLLECTIVE_BYTES] = nbytes
                words[_COLLECTIVE_WORD] = self.entered & 0xFFFFFFFF | word
            except ValueError:
                self.detach()
        return now

    def step_outside(self, entered: int) -> None:
        """Collective number `entered` has ended; called from any thread."""
        with self._line:
            if self.entered == entered:
                try:
                    self.words[_COLLECTIVE_WORD] &= _OUTSIDE
                except ValueError:
                    self.detach()

    def depart(self, group: int, op: int, nbytes: int, arrived_ns: int, now: int) -> None:
        """The collective that arrived at `arrived_ns` has ended at `now`."""
        totals = self.collectives.get((group, op))
        if totals is None:
            totals = self.collectives[group, op] = CollectiveTotals(arrived_ns)
        spent = now - arrived_ns
        totals.count += 1
        totals.nbytes += nbytes
        totals.exposed_ns += spent
        if spent > totals.longest_ns:
            totals.longest_ns = spent

    def enter_collective(self, group: int, op: int, nbytes: int = 0) -> int:
        """A blocking collective begins: stop the current bucket's clock."""
        now = Timeline.arrive(self, group, op, nbytes)
        bucket = self.bucket
        self.totals[bucket] += now - self.since
        self.since = now
        self.stack.append(bucket)
        self.bucket = COLLECTIVE
        return now

    def enter_wait(self, group: int, op: int) -> None:
        """The rank waits for a collective that is counted where it was called."""
        now = self.clock()
        self.totals[self.bucket] += now - self.since
        self.since = now
        self.stack.append(self.bucket)
        self.bucket = COLLECTIVE

    def leave_wait(self) -> None:
        """That wait has ended: return to the bucket it interrupted."""
        now = self.clock()
        self.totals[COLLECTIVE] += now - self.since
        self.since = now
        self.bucket = self.stack.pop()

    def leave_collective(self, group: int, op: int, nbytes: int, arrived_ns: int) -> None:
        """A blocking collective has ended: return to the bucket it interrupted."""
        now = self.clock()
        self.totals[COLLECTIVE] += now - self.since
        self.since = now
        self.bucket = self.stack.pop()
        try:
            self.words[_COLLECTIVE_WORD] &= _OUTSIDE
        except ValueError:
            self.detach()
        try:
            totals = self.collectives[group, op]
        except KeyError:
            totals = self.collectives[group, op] = CollectiveTotals(arrived_ns)
        spent = now - arrived_ns
        totals.count += 1
        totals.nbytes += nbytes
        totals.exposed_ns += spent
        if spent > totals.longest_ns:
            totals.longest_ns = spent

    def move_to_collective(self, bucket: int, spent_ns: int) -> None:
        """Move time in `bucket` that turned out to be blocked in a collective.

        Never more than the bucket holds: a collective may have begun in the step before.
        """
        now = self.clock()
        self.totals[self.bucket] += now - self.since
        self.since = now
        spent_ns = min(spent_ns, self.totals[bucket])
        self.totals[bucket] -= spent_ns
        self.totals[COLLECTIVE] += spent_ns

    def move(self, source: int, target: int, spent_ns: int) -> None:
        """Move `spent_ns` of the current step from one bucket to another."""
        self.totals[source] -= spent_ns
        self.totals[target] += spent_ns

    def insert_outer(self, place: int, bucket: int) -> None:
        """Put `bucket` at `place` below the buckets that were entered; time counts to it later."""
        self.stack.insert(place, bucket)

    def remove_outer(self, place: int, bucket: int) -> bool:
        """Remove `bucket` from `place` in the stack; return whether it was there."""
        is_there = self.stack[place : place + 1] == [bucket]
        if is_there:
            del self.stack[place]
        return is_there

    def totals_of(self, group: int, op: int) -> CollectiveTotals | None:
        """Return the current step's totals for `op` in `group`; None before the first call."""
        return self.collectives.get((group, op))

    def end_step(self) -> tuple[int, int, list[int]]:
        """Close the step: (end, duration, totals by bucket) in ns; the next step begins here."""
        now = self.clock()
        totals = self.totals
        totals[self.bucket] += now - self.since
        duration = now - self._began
        self.since = self._began = now
        self.totals = [0] * BUCKETS
        return now, duration, totals

    def write_collectives(self, now: int) -> None:
        """Write one record for each (group, op) used since the last call."""
        for (group, op), totals in self.collectives.items():
            self._ring.write(
                Kind.COLLECTIVE,
                self.step,
                now,
                group,
                op,
                totals.count,
                min(totals.nbytes, _MOST_BYTES),
                totals.exposed_ns,
                totals.longest_ns,
                totals.first_arrival_ns,
            )
        self.collectives.clear()
