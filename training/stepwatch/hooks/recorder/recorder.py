"""`Recorder`: the object that every hook holds; it holds no hook."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable

from stepwatch.hooks.core import State, Timeline
from stepwatch.hooks.guard import Guard, guarded
from stepwatch.hooks.recorder.whole_numbers import whole_number
from stepwatch.signals.blackbox import RingWriter
from stepwatch.signals.records import Kind, LifecycleEvent, text_bytes

from .attachments import Attachments
from .heartbeat import Heartbeat
from .training_thread import TrainingThread
from .worker_server import WorkerServer

_MAX_STEP = 0xFFFFFFFF
_LIFECYCLE_TEXT_BYTES = 56


class Recorder(State):
    """One rank's ring, timeline, clock, guard, training thread and step number.

    Without a ring it records nothing. `clock` returns monotonic ns.
    """

    def __init__(
        self,
        ring: RingWriter | None,
        guard: Guard,
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self.guard = guard
        self.ring: RingWriter | None = ring
        self.clock = clock
        self.thread: TrainingThread = TrainingThread()
        self.step_number = 0
        """Number of the current step, or of the next one."""
        self.timeline: Timeline | None = (
            Timeline(ring, clock, guard.misuse) if ring is not None else None
        )
        """None while nothing is recorded: without a ring, after `disable`, in a forked child."""
        self.drain_completions: Callable[[], None] | None = None
        """Records collectives that have ended; called on the training thread around each step."""
        self.step_boundary: Callable[[], None] | None = None
        """Called when the first step begins and when it has ended."""
        self.first_step: Callable[[], None] | None = None
        """Called when the first step begins."""
        self.first_step_ended: Callable[[], None] | None = None
        """Called when the first step has ended and is written."""
        self.place: Callable[..., bool] | None = None
        """Applies the known rank (`Placement.settle`); returns whether that moved the ring."""
        self.allocated_s: int | None = None
        """Since when the job's devices are allocated, Unix seconds; None if unknown."""
        self.attachments = Attachments(guard)
        self.heartbeat = Heartbeat(ring, guard) if ring is not None else None
        self.closed = False
        """Whether it has recorded and stopped."""
        self.server = WorkerServer(ring, guard)
        self.began = False
        """Whether the clock of the first step runs or ran."""
        self.has_stepped = False
        """Whether the first step has ended."""
        self._resumed_at = -1
        if ring is not None:
            guard.publish = ring.set_hook_errors

    def start(self) -> None:
        """Record that the rank has started; show from now on that its interpreter runs."""
        self._write_start()
        if self.heartbeat is not None:
            self.heartbeat.start()

    def settle(self, *, assume_single: bool = False) -> None:
        """Apply the currently known rank; `assume_single`: no number will come any more.

        On the training thread only: a ring that moved gets another START record.
        """
        if self.place is not None and self.place(assume_single=assume_single):
            self._write_start()

    def _write_start(self) -> None:
        if self.ring is not None:
            identity = self.ring.identity
            self.write_lifecycle(LifecycleEvent.START, identity.world, identity.node)
            if identity.rank == 0 and self.allocated_s is not None:
                self.write_lifecycle(LifecycleEvent.ALLOCATION, self.allocated_s, "")

    def begin(self) -> Timeline | None:
        """Start the clock of the first step, once; None while nothing is recorded."""
        if self.timeline is None:
            if self.closed and self.ring is not None and not self.is_child():
                self.guard.misuse("Watch used after close(): build a new one with from_env")
            return None
        if not self.began:
            self.began = True
            self.settle(assume_single=True)
            self.server.start()
            self.timeline.step = self.step_number
            self.timeline.begin()
            if self.step_boundary is not None:
                self.step_boundary()
            if self.first_step is not None:
                self.first_step()
        return self.timeline

    def adopt_thread(self) -> None:
        """Make the caller's thread the training thread."""
        self.thread.ident = threading.get_ident()

    @guarded()
    def start_at(self, step: int) -> None:
        """Number the next step `step`; a first step beyond 1 is a resume.

        Loops count from 0 or from 1, so neither is.

        Raises:
            TypeError: it is not a whole number; the guard counts it.
            ValueError: the number does not fit a record, or lies on a device.
        """
        step = whole_number(step, "the number of a step")
        if not 0 <= step <= _MAX_STEP:
            raise ValueError(f"step {step} is not between 0 and {_MAX_STEP}")
        self.step_number = step
        if self.timeline is not None:
            self.timeline.step = step
        if step > 1 and not self.has_stepped:
            self.resume(step, "")

    def resume(self, step: int, checkpoint: str) -> None:
        """Record once that the rank resumes at `step`, from `checkpoint` if that is known."""
        if step != self._resumed_at:
            self._resumed_at = step
            self.write_lifecycle(LifecycleEvent.RESUME, step, checkpoint)

    def number(self, step: int) -> None:
        """Set the trainer's number for the step that begins now."""
        if type(step) is not int or step != self.step_number:
            self.start_at(step)

    def write_lifecycle(self, event: LifecycleEvent, value: int, text: str) -> None:
        """Write one LIFECYCLE record; a forked child writes none into its parent's ring."""
        if self.ring is not None and not self.is_child():
            encoded = text_bytes(text, _LIFECYCLE_TEXT_BYTES)
            self.ring.write(Kind.LIFECYCLE, self.step_number, self.clock(), event, value, encoded)

    def is_child(self) -> bool:
        """Return whether this is a forked child: its inherited ring is its parent's."""
        return self.ring is not None and self.ring.identity.pid != os.getpid()

    def disable(self) -> None:
        """Record nothing from now on; a forked child calls this first, too."""
        if self.timeline is not None:
            self.timeline.detach()
        self.timeline = self.guard.publish = None
        self.closed = True
