"""One checkpoint as the hooks see it: the stall of the loop, then what became of the files."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING

from stepwatch.signals.records import CheckpointEvent, Phase, text_bytes

from .guard import guarded

if TYPE_CHECKING:
    from .watch import Watch

TEXT_SIZE = 48
Fact = tuple[int, CheckpointEvent, int, int, int, bytes]
"""(step, event, stall_ns, durable_ns, bytes, text) waiting to be written by the training thread."""


class CheckpointHandle:
    """Context manager around a save; its methods may be called later and from any thread.

    Entered on a thread other than the training thread, it counts no stall: the loop goes on.

    Facts go through a queue that the training thread empties, because a ring has one writer.
    """

    def __init__(
        self,
        watch: Watch,
        step: int,
        facts: deque[Fact],
        flush: Callable[[], None],
    ) -> None:
        self.guard = watch.guard
        self._watch = watch
        self._step = step
        self._facts = facts
        self._flush = flush
        self._open = False
        self._entered = 0

    def __enter__(self) -> CheckpointHandle:
        timeline = self._watch.timeline
        if timeline is not None:
            self._open = True
            self._fact(CheckpointEvent.BEGIN)
            if self._watch.thread.is_current():
                self._flush()
                self._entered = timeline.enter(Phase.CHECKPOINT)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        timeline = self._watch.timeline
        if timeline is None or not self._open:
            return
        self._open = False
        entered, self._entered = self._entered, 0
        stall = timeline.leave() - entered if entered else 0
        if error is not None:
            self._fact(CheckpointEvent.FAILED, stall_ns=stall, text=f"{type(error).__name__}")
        else:
            self._fact(CheckpointEvent.BEGIN, stall_ns=stall)
        if entered:
            self._flush()

    def written(self, *, nbytes: int, durable_seconds: float) -> None:
        """The files are durable: size of the whole checkpoint, seconds from begin to durable."""
        self._written(nbytes, durable_seconds)

    def verified(self) -> None:
        """The files were read back and match their digests; only now does the checkpoint count."""
        self._fact(CheckpointEvent.VERIFIED)

    def failed(self, reason: str) -> None:
        """The save did not succeed."""
        self._fact(CheckpointEvent.FAILED, text=reason)

    def rejected(self, reason: str) -> None:
        """The checkpoint was found bad when somebody wanted to resume from it."""
        self._fact(CheckpointEvent.REJECTED, text=reason)

    @guarded()
    def _written(self, nbytes: int, durable_seconds: float) -> None:
        durable = max(int(durable_seconds * 1e9), 0)
        self._fact(CheckpointEvent.WRITTEN, durable_ns=durable, nbytes=max(int(nbytes), 0))

    @guarded()
    def _fact(
        self,
        event: CheckpointEvent,
        *,
        stall_ns: int = 0,
        durable_ns: int = 0,
        nbytes: int = 0,
        text: str = "",
    ) -> None:
        fact = (self._step, event, stall_ns, durable_ns, nbytes, text_bytes(str(text), TEXT_SIZE))
        if self._watch.closed:
            self.guard.misuse("a checkpoint fact came after close(): close() the Watch last")
            return
        self._facts.append(fact)
