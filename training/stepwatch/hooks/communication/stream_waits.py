"""Times the compute stream's waits for collectives that run on other streams.

FSDP2 starts its collectives on its own streams, which costs the compute stream nothing. The compute
stream waits for an all-gather when a module is about to use the gathered parameters. It waits for
reduce-scatters before FSDP2 starts another one and at the end of backward. A collective that a
trainer starts runs on another stream too, and the compute stream waits where the trainer waits.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from stepwatch.hooks.core import PIPELINE_WAIT
from stepwatch.hooks.device.timing import DeviceTiming
from stepwatch.hooks.guard import guarded
from stepwatch.hooks.recorder.recorder import Recorder
from stepwatch.signals.records import Op

from .groups import GroupNumbers

Awaited = tuple[int, Any] | None
"""An operation and its process group, for which a stream waits; None if it does not wait."""


class StreamWaits:
    """Marks on the device's timeline where its stream waits for a collective and continues.

    The host's timeline stays unchanged: the host does not wait there.
    """

    def __init__(self, recorder: Recorder, device: DeviceTiming, groups: GroupNumbers) -> None:
        self.guard = recorder.guard
        self._recorder = recorder
        self._device = device
        self._groups = groups
        self._inside = False
        """Inside a wait that is timed here: nested waits are part of it."""

    @guarded()
    def begin(self, op: int, group: Any) -> None:
        """The stream waits for `op` in process group `group` from here on."""
        marks = self._device.marks
        if marks is not None and self._recorder.thread.is_current():
            number = self._groups.number(group)
            marks.enter_collective(self._recorder.clock(), (number, op))

    @guarded()
    def end(self) -> None:
        """The stream continues here, unless it continued before."""
        marks, timeline = self._device.marks, self._recorder.timeline
        if marks is not None and timeline is not None:
            marks.leave_collective(self._recorder.clock(), timeline.bucket)

    def replace(self, owner: Any, name: str, waits_for: Callable[[], Awaited]) -> None:
        """Time `owner`'s method `name`, if it has one that is not timed yet."""
        method = getattr(owner, name, None)
        attachments = self._recorder.attachments
        if method is not None and not attachments.has(method):
            attachments.replace(owner, name, self.around(method, waits_for))

    def around(
        self, method: Callable[..., Any], waits_for: Callable[[], Awaited]
    ) -> Callable[..., Any]:
        """Wrap `method`, which makes the stream wait for `waits_for()`, unless that is None."""
        import torch

        compiling = torch.compiler.is_compiling

        @functools.wraps(method)
        def call(*args: Any, **kwargs: Any) -> Any:
            marks = None if compiling() or self._inside else self._device.marks
            if marks is None or self._recorder.timeline is None:
                return method(*args, **kwargs)
            awaited = self._ask(waits_for)
            if awaited is None:
                return method(*args, **kwargs)
            self._inside = True
            self.begin(*awaited)
            try:
                return method(*args, **kwargs)
            finally:
                self._inside = False
                self.end()

        return call

    def during(self, method: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call `method`, which makes the stream wait for an operation without a record.

        A pipeline stage waits for its neighbours: that time is a wait already.
        """
        marks, timeline = self._device.marks, self._recorder.timeline
        if marks is None or timeline is None or self._inside or timeline.bucket == PIPELINE_WAIT:
            return method(*args, **kwargs)
        self._inside = True
        self.begin(int(Op.OTHER), None)
        try:
            return method(*args, **kwargs)
        finally:
            self._inside = False
            self.end()

    @guarded()
    def _ask(self, waits_for: Callable[[], Awaited]) -> Awaited:
        return waits_for()
