"""The side thread that shows whether a rank's interpreter still runs other threads.

It also checks the ring's file before each beat: a removed or truncated file is replaced. A store
into a truncated file ends the process (SIGBUS).
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable

from stepwatch.hooks.guard import Guard, guarded, logger
from stepwatch.signals import places
from stepwatch.signals.blackbox import FileCondition, RingWriter, own_directory
from stepwatch.signals.errors import RingError

HEARTBEAT_SECONDS = 0.5
RENEW_AGAIN_BEATS = 20
"""Beats until the next attempt after a ring could not be replaced."""


class Heartbeat:
    """Stores the moment in `ring` until the ring is closed or removed."""

    def __init__(self, ring: RingWriter, guard: Guard) -> None:
        self.guard = guard
        self._ring = weakref.ref(ring)
        self._removed_beats = 0
        self._wait_beats = 0
        self.background_call: Callable[[], None] | None = None
        """Called after each beat, on this thread; it must not raise."""
        self.wait: Callable[[], None] | None = None
        """The same, for a caller that waits for an event that may never come."""

    @guarded()
    def start(self) -> None:
        """Start the thread; it ends with the ring."""
        threading.Thread(target=self._beat, name="stepwatch-heartbeat", daemon=True).start()

    @guarded()
    def _keep(self, ring: RingWriter) -> None:
        """Replace the ring's file if it is lost; a file that is just renamed is missing once."""
        if self._wait_beats:
            self._wait_beats -= 1
            return
        try:
            condition = ring.condition()
        except ValueError:  # the ring is closed
            return
        self._removed_beats = self._removed_beats + 1 if condition is FileCondition.REMOVED else 0
        if condition is FileCondition.WHOLE or self._removed_beats == 1:
            return
        folder = ring.path.parent
        try:
            own_directory(places.ring_dir())
            ring.renew(condition)
        except (OSError, RingError) as error:
            self._wait_beats = RENEW_AGAIN_BEATS
            self.guard.misuse(
                f"the ring in {folder} was {condition.value}, and no new one can be made: {error}"
            )
            return
        self._removed_beats = 0
        logger.warning(
            "stepwatch: the ring in %s was %s while the rank ran; recording continues in a new one",
            folder,
            condition.value,
        )

    def _beat(self) -> None:
        while True:
            ring = self._ring()
            if ring is None:
                return
            self._keep(ring)
            try:
                ring.set_heartbeat(time.monotonic_ns())
            except ValueError:  # the ring is closed: its memory is released
                return
            del ring
            for called in (self.wait, self.background_call):
                if called is not None:
                    called()
            time.sleep(HEARTBEAT_SECONDS)
