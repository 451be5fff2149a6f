"""The busy time of pipeline stages."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any


class BusyTime:
    """Host time inside this rank's stages, in nanoseconds, without the waits between them.

    On CUDA this is the time to enqueue, not to compute: use the bubble that the hooks measure.
    """

    def __init__(self) -> None:
        self.busy_ns = 0
        self.wall_ns = 0

    def reset(self) -> None:
        """Set both times to zero."""
        self.busy_ns = self.wall_ns = 0

    def count(self, work: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap `work` so that its time counts as busy."""

        def counted(*args: Any, **kwargs: Any) -> Any:
            begun = time.perf_counter_ns()
            try:
                return work(*args, **kwargs)
            finally:
                self.busy_ns += time.perf_counter_ns() - begun

        return counted
