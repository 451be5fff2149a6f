"""Saves that the trainer does not mark: their phase while they last, and a record of each."""

from __future__ import annotations

import io
from contextlib import AbstractContextManager, nullcontext
from types import TracebackType
from typing import Any

from stepwatch.hooks.checkpoints import CheckpointHandle, CheckpointQueue, Stall
from stepwatch.hooks.guard import guarded
from stepwatch.hooks.recorder.exceptions import words_of
from stepwatch.hooks.recorder.recorder import Recorder
from stepwatch.signals.records import Phase

from .interruptions import Interruption
from .save_paths import SaveCall

_CHECKPOINT = int(Phase.CHECKPOINT)


class Saves:
    """Recognises saves on the training thread; a marked checkpoint covers the saves inside it."""

    def __init__(self, recorder: Recorder, queue: CheckpointQueue) -> None:
        self._recorder = recorder
        self._queue = queue
        self._spent = (-1, Stall())

    def save(self, arguments: tuple[Any, ...]) -> AbstractContextManager[Any]:
        """Return a context manager around a save with these positional `arguments`.

        It writes a CHECKPOINT record unless everything goes to memory, or a marked checkpoint is
        around it.
        """
        if not self._counts():
            return self._inner()
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

    def _inner(self) -> AbstractContextManager[Any]:
        marked = self._queue.unnamed
        if marked is None or not self._recorder.thread.is_current():
            return nullcontext()
        return InnerSave(self._queue, marked.step)

    def _phase(self) -> AbstractContextManager[Any]:
        timeline = self._recorder.timeline
        if timeline is None or timeline.bucket == _CHECKPOINT:
            return nullcontext()
        return timeline.buckets[_CHECKPOINT]


class InnerSave:
    """A save inside a marked checkpoint without a path: it names the checkpoint's files."""

    def __init__(self, queue: CheckpointQueue, step: int) -> None:
        self.guard = queue.guard
        self._queue, self._step = queue, step

    def __enter__(self) -> InnerSave:
        # Saves inside this one are parts of its files.
        self._marked, self._queue.unnamed = self._queue.unnamed, None
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._queue.unnamed = self._marked

    @guarded()
    def returned(self, entry: Interruption, call: SaveCall) -> None:
        """The save returned."""
        if entry.path is not None and (entry.by_rank or self._queue.reports_all):
            self._queue.add_path(self._step, entry.path(call))


class RecognisedSave(CheckpointHandle):
    """One save among those between two steps: files for one checkpoint, whose stalls add up."""

    takes_inner = False

    def __init__(self, saves: Saves, queue: CheckpointQueue, step: int) -> None:
        super().__init__(queue, step)
        self._saves = saves
        self._later: Any = ""
        """The path of files that background work writes."""

    def stalled(self, stall: Stall) -> Stall:
        """Return the stall to report after this save took `stall`."""
        return self._saves.total(self._step, stall)

    @guarded()
    def returned(self, entry: Interruption, call: SaveCall) -> None:
        """The save returned: its files are reported when it ends, and a failure behind it."""
        path = "" if entry.path is None else entry.path(call)
        self.by_rank = entry.by_rank
        if entry.is_beside:
            self._later = path
            self.follow(call.result)
        else:
            self.path = path

    @guarded()
    def follow(self, future: Any) -> None:
        """The background work ends with `future`: its files or its failure are recorded."""
        future = getattr(future, "upload_completion", future)
        if hasattr(future, "add_done_callback"):
            future.add_done_callback(self._uploaded)

    @guarded()
    def _uploaded(self, future: Any) -> None:
        if future.cancelled() or self._recorder.closed:
            return
        error = future.exception()
        if error is not None:
            self.failed(words_of(error))
        else:
            self.path = self._later
            self.add_files()
