"""The side thread that shows whether a rank's interpreter still runs other threads."""

from __future__ import annotations

import threading
import time
import weakref
from typing import TYPE_CHECKING

from stepwatch.hooks.guard import guarded

if TYPE_CHECKING:
    from stepwatch.hooks.watch import Watch

HEARTBEAT_SECONDS = 0.5


class Heartbeat:
    """Stores the moment in the ring of `watch` while that is there and open."""

    def __init__(self, watch: Watch) -> None:
        self.guard = watch.guard
        self._watch = weakref.ref(watch)

    @guarded()
    def start(self) -> None:
        """Start the thread; it ends with the Watch."""
        threading.Thread(target=self._beat, name="stepwatch-heartbeat", daemon=True).start()

    def _beat(self) -> None:
        while True:
            watch = self._watch()
            if watch is None or watch.closed or watch.ring is None:
                return
            try:
                watch.ring.set_heartbeat(time.monotonic_ns())
            except ValueError:  # closed between the check and the store
                return
            del watch
            time.sleep(HEARTBEAT_SECONDS)
