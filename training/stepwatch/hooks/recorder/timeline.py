"""A step's time: a stack of buckets whose self times add up to the step.

Buckets are the phases in `records.Phase`, then time blocked in collectives, then a pipeline
stage's wait for its neighbours. Entering an inner bucket stops the outer one, so that "forward" is
the rank's self time in forward, without any wait inside.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType

from stepwatch.signals.blackbox import LiveLine, RingWriter
from stepwatch.signals.blackbox.layout import COLLECTIVE_AT, LIVE_AT, pack_live
from stepwatch.signals.records import Kind, Op, Phase, StepFlag

COLLECTIVE = len(Phase)
PIPELINE_WAIT = COLLECTIVE + 1
BUCKETS = COLLECTIVE + 2

_LIVE = LIVE_AT // 8
_LIVE_WORD = _LIVE + 1
_COLLECTIVE = COLLECTIVE_AT // 8
# High part of a live word for each bucket; a collective leaves the live line unchanged.
_LIVE_BITS = (
    *(pack_live(LiveLine(0, 0, 0, phase))[1] for phase in Phase),
    0,
    pack_live(LiveLine(0, 0, 0, Phase.OTHER, waiting=True))[1],
)
_MICROBATCH_SHIFT = 32
_INSIDE = 1 << 56
_DETACHED_WORDS = max(_LIVE_WORD, _COLLECTIVE + 2) + 1


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

    def __init__(self, timeline: Timeline, index: int, clock: Callable[[], int]) -> None:
        self._timeline = timeline
        self._index = index
        self._bits = _LIVE_BITS[index]
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
            words[_LIVE] = now
            words[_LIVE_WORD] = timeline.step | self._bits
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
            words[_LIVE] = now
            words[_LIVE_WORD] = timeline.step | _LIVE_BITS[outer]
        except IndexError:
            timeline.misuse("a phase was left twice: use `with step.phase(name):`")
        except ValueError:
            timeline.detach()


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
            self.words[_LIVE_WORD] |= (microbatch & 0xFFFF) << _MICROBATCH_SHIFT
        except ValueError:
            self.detach()
        return now

    def arrive(self, group: int, op: int, nbytes: int = 0) -> int:
        """A collective with `nbytes` begins: show it in the collective line; return the moment."""
        now = self.clock()
        words = self.words
        with self._line:
            self.entered += 1
            try:
                words[_COLLECTIVE] = now
                words[_COLLECTIVE + 2] = nbytes
                words[_COLLECTIVE + 1] = (
                    self.entered & 0xFFFFFFFF | (group & 0xFFFF) << 32 | op << 48 | _INSIDE
                )
            except ValueError:
                self.detach()
        return now

    def step_outside(self, entered: int) -> None:
        """Collective number `entered` has ended; called from any thread."""
        with self._line:
            if self.entered == entered:
                self._outside()

    def _outside(self) -> None:
        try:
            self.words[_COLLECTIVE + 1] &= _INSIDE - 1
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
        now = self.arrive(group, op, nbytes)
        self._block(now)
        return now

    def _block(self, now: int) -> None:
        self.totals[self.bucket] += now - self.since
        self.since = now
        self.stack.append(self.bucket)
        self.bucket = COLLECTIVE

    def enter_wait(self, group: int, op: int) -> None:
        """The rank waits for a collective that is counted where it was called."""
        self._block(self.clock())

    def leave_wait(self) -> None:
        """That wait has ended: return to the bucket it interrupted."""
        now = self.clock()
        self.totals[COLLECTIVE] += now - self.since
        self.since = now
        self.bucket = self.stack.pop()

    def leave_collective(self, group: int, op: int, nbytes: int, arrived_ns: int) -> None:
        """A blocking collective has ended: return to the bucket it interrupted."""
        Timeline.leave_wait(self)  # not the override in a class that marks waits on a device
        self._outside()
        self.depart(group, op, nbytes, arrived_ns, self.since)

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
                totals.nbytes,
                totals.exposed_ns,
                totals.longest_ns,
                totals.first_arrival_ns,
            )
        self.collectives.clear()


OPS_BY_NAME = {op.name.lower(): op for op in Op}
