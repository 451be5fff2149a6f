"""Decides whether a rank's steps are timed on its device, and which thread does the work."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable
from typing import Any

from stepwatch.hooks import accelerators
from stepwatch.hooks.core import FAILURES, Timeline, put_boundaries, remove_boundaries
from stepwatch.hooks.guard import guarded
from stepwatch.hooks.recorder.recorder import Recorder
from stepwatch.signals.blackbox import DeviceLine, RingWriter
from stepwatch.signals.records import LifecycleEvent

from .backend import Backend, accelerator_of, open_backend
from .marks import DeviceMarks
from .model_marks import ModelMarks, mark_model
from .pool import EventPool
from .progress import Progress
from .resolver import Resolver

STEPS_AT_ONCE, STEPS_BESIDE = 2, 64
"""Most steps that one call resolves, on the training thread and on the side thread."""
CLOSE_PATIENCE_S = 0.05
STEPS_LEFT_BESIDE = 24
"""Steps that wait for the side thread before the training thread takes part.

While the training thread waits for a device or a collective, the side thread's work costs it
nothing.
"""


class DeviceTiming:
    """Decides once whether there is a device, then times it until it fails or the Watch closes."""

    def __init__(self, recorder: Recorder) -> None:
        self.guard = recorder.guard
        self._recorder = recorder
        self.changed: Callable[[], None] | None = None
        """Called when the timeline has other buckets."""
        self.marks: DeviceMarks | None = None
        """None while steps are timed only on the host."""
        self._resolver: Resolver | None = None
        self._progress: Progress | None = None
        self._may_ask = False
        self._prepare_thread: Callable[[], bool] = bool
        self._decided = False
        self._models: list[weakref.ref[Any]] = []
        self._reason = ""
        recorder.step_boundary = self.consider

    @guarded()
    def follow(self, model: Any) -> None:
        """Time the device that holds `model`'s parameters, with marks inside the model."""
        if all(reference() is not model for reference in self._models):
            self._models.append(weakref.ref(model))
            self._mark(model)
        device = None if self._decided else accelerator_of(model)
        if device is not None:
            self._decide(device)

    def _mark(self, model: Any) -> None:
        if self.marks is not None and hasattr(model, "register_forward_pre_hook"):
            for handle in mark_model(ModelMarks(self._recorder, self.marks), model):
                self._recorder.attachments.keep(handle)

    @guarded()
    def consider(self) -> None:
        """Time the device that this process has initialised, if any; called around step 0."""
        if not self._decided and self._recorder.timeline is not None:
            device = accelerators.in_use()
            if device is not None:
                self._decide(device)

    def _decide(self, device: Any) -> None:
        self._decided = True
        try:
            backend = open_backend(device)
        except FAILURES as error:
            self._refuse(f"{type(error).__name__}: {error}")
            return
        self.start(backend)

    def start(self, backend: Backend) -> None:
        """Time `backend`'s work from now on."""
        timeline = self._recorder.timeline
        if timeline is None:
            return
        self._decided, self._prepare_thread = True, backend.prepare_thread
        pool = EventPool(backend.new_event)
        marks = DeviceMarks(backend, pool, self._failed, self._recorder.clock)
        resolver = Resolver(marks)
        clock = self._recorder.clock
        self.marks, self._resolver = marks, resolver
        self._progress = Progress(marks, resolver, clock, lambda: self._recorder.step_number)
        put_boundaries(timeline, marks, self._step_ends)
        if self._recorder.began:
            marks.begin(clock(), timeline.bucket)
        if self.changed is not None:
            self.changed()
        self._recorder.write_lifecycle(LifecycleEvent.DEVICE_TIMING, 1, backend.kind)
        self._set_background_call(self._look)
        for reference in self._models:
            self._mark(reference())

    @guarded()
    def close(self) -> None:
        """Write the steps that the device has passed; the others stay unknown."""
        if self._resolver is not None and self.marks is not None:
            self._set_background_call(None)
            most = len(self._resolver.closed)
            self._resolve(self._resolver, self._recorder.clock(), most, CLOSE_PATIENCE_S)
            self.marks.active = False

    @guarded()
    def _step_ends(self, now: int, duration: int, bucket: int) -> None:
        """Resolve steps before this one, then close it."""
        timeline, resolver, marks = self._recorder.timeline, self._resolver, self.marks
        if timeline is None or resolver is None or marks is None:
            return
        if not self._reason:
            must_resolve = len(resolver.closed) > STEPS_LEFT_BESIDE or not self._may_ask
            self._resolve(resolver, now, STEPS_AT_ONCE if must_resolve else 0)
        if self._reason:
            self._stop(timeline)
            return
        resolver.add(marks.end_step(now, timeline.step, duration, bucket))

    def _resolve(self, resolver: Resolver, now: int, most: int, patience_s: float = 0.0) -> None:
        try:
            # Querying an event ends a graph capture on the same thread.
            if self.marks is None or self.marks.is_capturing():
                return
            resolver.resolve(now, most, patience_s)
        except FAILURES as error:
            self._failed(f"{type(error).__name__}: {error}")
        while resolver.rows and self._recorder.ring is not None:
            self._recorder.ring.append(*resolver.rows.popleft())

    @guarded()
    def _look(self) -> None:
        """On the side thread: resolve, and show the device's work."""
        resolver, progress, ring = self._resolver, self._progress, self._recorder.ring
        if resolver is None or progress is None or ring is None or self._reason:
            return
        try:
            self._may_ask = self._may_ask or self._prepare_thread()
            if not self._may_ask:
                return
            resolver.resolve(self._recorder.clock(), STEPS_BESIDE)
            _show(ring, progress.look())
            progress.narrow_error()
        except FAILURES as error:
            self._failed(f"{type(error).__name__}: {error}")

    def _failed(self, reason: str) -> None:
        """Called from any thread; the end of the step acts on it."""
        self._reason = self._reason or reason
        if self.marks is not None:
            self.marks.active = False

    def _set_background_call(self, call: Callable[[], None] | None) -> None:
        if self._recorder.heartbeat is not None:
            self._recorder.heartbeat.background_call = call

    def _stop(self, timeline: Timeline) -> None:
        self._set_background_call(None)
        remove_boundaries(timeline)
        self.marks = self._resolver = self._progress = None
        if self.changed is not None:
            self.changed()
        self._refuse(self._reason)

    def _refuse(self, reason: str) -> None:
        self.guard.misuse(f"steps are timed on the host alone: {reason}")
        self._recorder.write_lifecycle(LifecycleEvent.DEVICE_TIMING, 0, reason)


def _show(ring: RingWriter, line: DeviceLine | None) -> None:
    if line is not None:
        with contextlib.suppress(ValueError):  # the ring was closed meanwhile
            ring.set_device(line)
