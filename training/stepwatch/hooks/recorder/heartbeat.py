"""The side thread that shows whether a rank's interpreter still runs other threads."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable

from stepwatch.hooks.guard import Guard, guarded
from stepwatch.signals.blackbox import RingWriter

HEARTBEAT_SECONDS = 0.5


class Heartbeat:
    """Stores the moment in `ring` until the ring is closed or gone."""

    def __init__(self, ring: RingWriter, guard: Guard) -> None:
        self.guard = guard
        self._ring = weakref.ref(ring)
        self.beside: Callable[[], None] | None = None
        """Called after each beat, on this thread; it must not raise."""
        self.wait: Callable[[], None] | None = None
        """The same, for whoever waits for something that may never come."""

    @guarded()
    def start(self) -> None:
        """Start the thread; it ends with the ring."""
        threading.Thread(target=self._beat, name="stepwatch-heartbeat", daemon=True).start()

    def _beat(self) -> None:
        while True:
            ring = self._ring()
            if ring is None:
                return
            try:
                ring.set_heartbeat(time.monotonic_ns())
            except ValueError:  # the ring is closed: its memory is released
                return
            del ring
            for called in (self.wait, self.beside):
                if called is not None:
                    called()
            time.sleep(HEARTBEAT_SECONDS)
