"""One checkpoint as the hooks see it: the stall of the loop, then what became of the files."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from types import TracebackType

from stepwatch.signals.records import CheckpointEvent, Phase, text_bytes

from .timeline import Timeline

TEXT_SIZE = 48
Fact = tuple[int, CheckpointEvent, int, int, int, bytes]
"""(step, event, stall_ns, durable_ns, bytes, text) waiting to be written by the training thread."""


class CheckpointHandle:
    """Context manager around a save; its methods may be called later and from any thread.

    Facts go through a queue that the training thread empties, because a ring has one writer.
    """

    def __init__(
        self,
        step: int,
        facts: deque[Fact],
        flush: Callable[[], None],
        timeline: Timeline | None,
        clock: Callable[[], int],
    ) -> None:
        self._step = step
        self._facts = facts
        self._flush = flush
        self._timeline = timeline
        self._clock = clock
        self._entered = 0

    def __enter__(self) -> CheckpointHandle:
        if self._timeline is not None:
            self._entered = self._clock()
            self._fact(CheckpointEvent.BEGIN)
            self._flush()
            self._timeline.enter(Phase.CHECKPOINT)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._timeline is None:
            return
        self._timeline.leave()
        stall = self._clock() - self._entered
        if error is not None:
            self._fact(CheckpointEvent.FAILED, stall_ns=stall, text=f"{type(error).__name__}")
        else:
            self._fact(CheckpointEvent.BEGIN, stall_ns=stall)
        self._flush()

    def written(self, *, nbytes: int, durable_seconds: float) -> None:
        """The files are durable: size of the whole checkpoint, and seconds from begin to durable."""
        self._fact(CheckpointEvent.WRITTEN, durable_ns=int(durable_seconds * 1e9), nbytes=nbytes)

    def verified(self) -> None:
        """The files were read back and match their digests; only now does the checkpoint count."""
        self._fact(CheckpointEvent.VERIFIED)

    def failed(self, reason: str) -> None:
        """The save did not succeed."""
        self._fact(CheckpointEvent.FAILED, text=reason)

    def rejected(self, reason: str) -> None:
        """The checkpoint was found bad when somebody wanted to resume from it."""
        self._fact(CheckpointEvent.REJECTED, text=reason)

    def _fact(
        self,
        event: CheckpointEvent,
        *,
        stall_ns: int = 0,
        durable_ns: int = 0,
        nbytes: int = 0,
        text: str = "",
    ) -> None:
        fact = (self._step, event, stall_ns, durable_ns, nbytes, text_bytes(text, TEXT_SIZE))
        self._facts.append(fact)
