"""Waits of the compute stream for collectives that run on other streams, timed where they are.

FSDP2 starts its collectives on streams of its own: those cost the compute stream nothing. It waits
for an all-gather when a module is about to use what it gathered, and for reduce-scatters before it
starts another one and at the end of backward.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from stepwatch.hooks.device.timing import DeviceTiming
from stepwatch.hooks.guard import guarded
from stepwatch.hooks.recorder.recorder import Recorder

from .groups import GroupNumbers


class StreamWaits:
    """Marks on the device's timeline where its stream waits for a collective, and where it goes on.

    The host's timeline stays as it is: it waits for nothing there.
    """

    def __init__(self, recorder: Recorder, device: DeviceTiming, groups: GroupNumbers) -> None:
        self.guard = recorder.guard
        self._recorder = recorder
        self._device = device
        self._groups = groups

    @guarded()
    def begin(self, op: int, group: Any) -> None:
        """The stream waits for `op` in process group `group` from here on."""
        marks = self._device.marks
        if marks is not None and self._recorder.thread.is_current():
            number = self._groups.number(group)
            marks.enter_collective(self._recorder.clock(), (number, op))

    @guarded()
    def end(self) -> None:
        """The stream goes on here, unless it did before."""
        marks, timeline = self._device.marks, self._recorder.timeline
        if marks is not None and timeline is not None:
            marks.leave_collective(self._recorder.clock(), timeline.bucket)

    def around(
        self, method: Callable[..., Any], op: int, group_of: Callable[[], Any]
    ) -> Callable[..., Any]:
        """`method`, which makes the stream wait for `op`; `group_of` is None where it does not."""
        import torch

        compiling = torch.compiler.is_compiling

        @functools.wraps(method)
        def call(*args: Any, **kwargs: Any) -> Any:
            if compiling() or self._device.marks is None:
                return method(*args, **kwargs)
            group = group_of()
            if group is None:
                return method(*args, **kwargs)
            self.begin(op, group)
            try:
                return method(*args, **kwargs)
            finally:
                self.end()

        call.stepwatch_wrapped = True  # type: ignore[attr-defined]
        return call
