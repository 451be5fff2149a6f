"""One checkpoint in the hooks: the loop's stall, then the outcome for the files."""

from __future__ import annotations

from collections import deque
from types import TracebackType
from typing import Any, NamedTuple

from stepwatch.signals.records import (
    CheckpointEvent,
    Kind,
    LifecycleEvent,
    Phase,
    piece_texts,
    text_bytes,
)
from stepwatch.signals.records.pieces import PIECE_BYTES

from .core import COLLECTIVE, Timeline
from .guard import guarded
from .pauses.save_paths import plain_path
from .recorder.exceptions import words_of
from .recorder.recorder import Recorder

TEXT_SIZE = 48
Fact = tuple[int, CheckpointEvent, int, int, int, bytes, int]
"""(step, event, stall_ns, durable_ns, bytes, text, blocked_ns), as in a CHECKPOINT record."""


class SavedPath(NamedTuple):
    """The path of a finished save, for CHECKPOINT_PATH records."""

    step: int
    path: str


class Stall(NamedTuple):
    """The loop's stall in a checkpoint, and the part in the checkpoint's collectives, in ns."""

    stall_ns: int = 0
    blocked_ns: int = 0


_NO_STALL = Stall()


class CheckpointQueue:
    """Facts from any thread, written by the training thread: a ring has one writer."""

    def __init__(self, recorder: Recorder) -> None:
        self.guard = recorder.guard
        self.recorder = recorder
        self.facts: deque[Fact | SavedPath] = deque()
        """Facts to write."""
        self.inside = 0
        """Number of checkpoints that the training thread is inside."""
        self.unnamed: CheckpointHandle | None = None
        """The outermost of these, if it has no path: saves inside it name its files."""

    @property
    def reports_all(self) -> bool:
        """Whether this rank reports the files that all ranks save together: rank 0 does."""
        return self.recorder.ring is not None and self.recorder.ring.identity.rank == 0

    @guarded()
    def add_path(self, step: int, place: Any) -> None:
        """Queue the path of saved files; one that `plain_path` refuses is left out."""
        path = plain_path(place)
        if path:
            self.add(SavedPath(step, path))

    def add(self, fact: Fact | SavedPath) -> None:
        """Queue one fact; after `close` it is counted as misuse."""
        if self.recorder.closed:
            self.guard.misuse("a checkpoint fact came after close(): close() the Watch last")
            return
        self.facts.append(fact)

    @guarded()
    def write(self) -> None:
        """Write the queued facts; call it on the training thread."""
        recorder = self.recorder
        while self.facts and recorder.ring is not None and recorder.timeline is not None:
            fact = self.facts.popleft()
            if isinstance(fact, SavedPath):
                for index, text in enumerate(piece_texts((fact.path, ""))):
                    recorder.ring.write(
                        *(Kind.LIFECYCLE, fact.step, recorder.clock()),
                        *(LifecycleEvent.CHECKPOINT_PATH, index, text_bytes(text, PIECE_BYTES)),
                    )
                continue
            recorder.ring.write(Kind.CHECKPOINT, fact[0], recorder.clock(), *fact[1:])


class CheckpointHandle:
    """Context manager around a checkpoint; its methods may be called later and from any thread.

    Entered on a thread other than the training thread, it counts no stall: the loop continues.
    """

    takes_inner = True
    """Whether saves inside it name its files, unless it has a path."""

    def __init__(self, queue: CheckpointQueue, step: int, path: Any = "") -> None:
        self.guard = queue.guard
        self.path = path
        self.by_rank = False
        """Whether each rank has files of its own at `path`; else rank 0 reports those of all."""
        self._recorder = queue.recorder
        self._queue = queue
        self._step = step
        self._open = False
        self._entered = 0
        self._blocked_before = 0

    def __enter__(self) -> CheckpointHandle:
        timeline = self._recorder.timeline
        if timeline is not None:
            self._open = True
            self._add(CheckpointEvent.BEGIN)
            if self._recorder.thread.is_current():
                self._queue.write()
                self._queue.inside += 1
                if self._queue.inside == 1 and self.takes_inner and not self.path:
                    self._queue.unnamed = self
                self._entered = timeline.enter(Phase.CHECKPOINT)
                self._blocked_before = timeline.totals[COLLECTIVE]
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        timeline = self._recorder.timeline
        entered, self._entered = self._entered, 0
        if entered:
            self._queue.inside -= 1
            if self._queue.unnamed is self:
                self._queue.unnamed = None
        if timeline is None or not self._open:
            return
        self._open = False
        stall = self.stalled(self._leave(timeline, entered)) if entered else _NO_STALL
        if error is not None:
            self._add(CheckpointEvent.FAILED, stall, text=self._words(error))
        else:
            self._add(CheckpointEvent.BEGIN, stall)
            self.add_files()
        if entered:
            self._queue.write()

    def _leave(self, timeline: Timeline, entered: int) -> Stall:
        """Leave the phase entered at `entered`.

        The rank for which the others wait in the save's collectives is blocked least.
        """
        if self._recorder.drain_completions is not None:
            self._recorder.drain_completions()
        blocked = timeline.totals[COLLECTIVE] - self._blocked_before
        # Negative if a step ended inside the save: totals start at zero in each step.
        return Stall(timeline.leave() - entered, max(blocked, 0))

    def add_files(self) -> None:
        """Report the path of the saved files, if it is known and this rank reports it."""
        if self.path and (self.by_rank or self._queue.reports_all):
            self._queue.add_path(self._step, self.path)

    @property
    def step(self) -> int:
        """The checkpoint's step."""
        return self._step

    def stalled(self, stall: Stall) -> Stall:
        """Return the stall to report for a measured `stall`."""
        return stall

    def written(self, *, nbytes: int, durable_seconds: float) -> None:
        """The files are durable: the whole checkpoint's size, seconds from begin to durable."""
        self._written(nbytes, durable_seconds)
        self.add_files()

    def verified(self) -> None:
        """The files were read and match their digests; only now does the checkpoint count."""
        self._add(CheckpointEvent.VERIFIED)

    def failed(self, reason: str) -> None:
        """The checkpoint was not written."""
        self._add(CheckpointEvent.FAILED, text=reason)

    def rejected(self, reason: str) -> None:
        """The checkpoint was invalid when a run tried to resume from it."""
        self._add(CheckpointEvent.REJECTED, text=reason)

    @guarded(fallback="")
    def _words(self, error: BaseException) -> str:
        return words_of(error)

    @guarded()
    def _written(self, nbytes: int, durable_seconds: float) -> None:
        durable = max(int(durable_seconds * 1e9), 0)
        self._add(CheckpointEvent.WRITTEN, durable_ns=durable, nbytes=max(int(nbytes), 0))

    @guarded()
    def _add(
        self,
        event: CheckpointEvent,
        stall: Stall = _NO_STALL,
        *,
        durable_ns: int = 0,
        nbytes: int = 0,
        text: str = "",
    ) -> None:
        encoded = text_bytes(str(text), TEXT_SIZE)
        fact = (self._step, event, stall.stall_ns, durable_ns, nbytes, encoded, stall.blocked_ns)
        self._queue.add(fact)
