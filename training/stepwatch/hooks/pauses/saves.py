"""Saves that the trainer does not mark: their phase while they last, and a record of each."""

from __future__ import annotations

import io
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from stepwatch.hooks.checkpoints import CheckpointHandle, CheckpointQueue, Stall
from stepwatch.hooks.guard import guarded
from stepwatch.hooks.recorder.exceptions import words_of
from stepwatch.hooks.recorder.recorder import Recorder
from stepwatch.signals.records import Phase

_CHECKPOINT = int(Phase.CHECKPOINT)


class Saves:
    """Recognises saves on the training thread; a marked checkpoint covers the saves inside it."""

    def __init__(self, recorder: Recorder, queue: CheckpointQueue) -> None:
        self._recorder = recorder
        self._queue = queue
        self._spent = (-1, Stall())

    def save(self, arguments: tuple[Any, ...]) -> AbstractContextManager[Any]:
        """Return a context manager around a save with these positional `arguments`.

        It writes a CHECKPOINT record unless everything goes to memory.
        """
        if not self._counts():
            return nullcontext()
        if any(isinstance(argument, io.BytesIO) for argument in arguments[:3]):
            return self._phase()
        return RecognisedSave(self, self._queue, self._recorder.step_number)

    def load(self) -> AbstractContextManager[Any]:
        """Return a context manager around reading a checkpoint."""
        return self._phase() if self._counts() else nullcontext()

    def total(self, step: int, stall: Stall) -> Stall:
        """Return the loop's total stall for saves in `step`, including another one with `stall`."""
        previous = self._spent[1] if self._spent[0] == step else Stall()
        total = Stall(previous.stall_ns + stall.stall_ns, previous.blocked_ns + stall.blocked_ns)
        self._spent = step, total
        return total

    def _counts(self) -> bool:
        recorder = self._recorder
        on = recorder.timeline is not None and recorder.thread.is_current()
        return on and not self._queue.inside

    def _phase(self) -> AbstractContextManager[Any]:
        timeline = self._recorder.timeline
        if timeline is None or timeline.bucket == _CHECKPOINT:
            return nullcontext()
        return timeline.buckets[_CHECKPOINT]


class RecognisedSave(CheckpointHandle):
    """One save among those between two steps: files for one checkpoint, whose stalls add up."""

    def __init__(self, saves: Saves, queue: CheckpointQueue, step: int) -> None:
        super().__init__(queue, step)
        self._saves = saves

    def stalled(self, stall: Stall) -> Stall:
        """Return the stall to report after this save took `stall`."""
        return self._saves.total(self._step, stall)

    @guarded()
    def follow(self, future: Any) -> None:
        """The background work ends with `future`: its failure is recorded."""
        future = getattr(future, "upload_completion", future)
        if hasattr(future, "add_done_callback"):
            future.add_done_callback(self._uploaded)

    @guarded()
    def _uploaded(self, future: Any) -> None:
        error = None if future.cancelled() else future.exception()
        if error is not None and not self._recorder.closed:
            self.failed(words_of(error))
