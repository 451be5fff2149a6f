"""A collective that is timed around the object that performs it."""

from __future__ import annotations

from threading import get_ident
from typing import Any


class TimedCall:
    """Calls `inner`, which performs `op`, and times the call; the owner has it as `attribute`.

    `instruments` is the `Instruments` of the rank's hooks. Without `timed`, only a call's input is
    checked, where `checks` is set.
    """

    checks = False
    """Whether `check` gets each call's input."""

    def __init__(
        self, instruments: Any, inner: Any, op: int, owner: Any, attribute: str, timed: bool
    ) -> None:
        self._recorder = instruments.recorder
        self._groups = instruments.groups
        self._attachments = instruments.recorder.attachments
        self._inner = inner
        self._op = op
        self._parameters = owner
        self._attribute = attribute
        self._timed = timed

    def __call__(
        self, output_tensor: Any, input_tensor: Any, group: Any, *args: Any, **kwargs: Any
    ) -> Any:
        """Run the collective; the time blocked in it does not count in the enclosing phase."""
        recorder = self._recorder
        timeline = recorder.timeline
        if timeline is None:
            return self._inner(output_tensor, input_tensor, group, *args, **kwargs)
        thread = recorder.thread
        if get_ident() != thread.ident and not thread.is_current():
            return self._inner(output_tensor, input_tensor, group, *args, **kwargs)
        # The trainer may have wrapped this object in its own, and that one is watched.
        current = getattr(self._parameters, self._attribute, self)
        if current is not self and self._attachments.has(current):
            return self._inner(output_tensor, input_tensor, group, *args, **kwargs)
        if self.checks:
            self.check(input_tensor)
        if not self._timed:
            return self._inner(output_tensor, input_tensor, group, *args, **kwargs)
        op, nbytes = self._op, input_tensor.nbytes
        number = self._groups.number(group)
        arrived = timeline.enter_collective(number, op, nbytes)
        try:
            return self._inner(output_tensor, input_tensor, group, *args, **kwargs)
        finally:
            if recorder.timeline is not None:  # else a signal handler closed it
                timeline.leave_collective(number, op, nbytes, arrived)

    def check(self, input_tensor: Any) -> None:
        """Check the collective's input before other ranks' values mix with it."""
