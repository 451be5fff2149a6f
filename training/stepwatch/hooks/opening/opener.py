"""Opens this rank's ring, or logs one line with the reason why there is none."""

from __future__ import annotations

import os
import time

from stepwatch.hooks.guard import Guard, guarded
from stepwatch.hooks.identity import IdentityRequest, is_disabled, is_helper, read_identity
from stepwatch.hooks.recorder.worker_server import enable_flight_recorder
from stepwatch.signals import places
from stepwatch.signals.blackbox import RingWriter, cannot_create, own_directory
from stepwatch.signals.errors import StepwatchError

from .placement import Placement, hidden_path, remove_left_over


def is_wanted() -> bool:
    """Return whether this process is a rank whose user did not switch stepwatch off."""
    return not (is_disabled(os.environ) or is_helper())


class Opener:
    """Opens rings; `guard` counts and logs every error."""

    def __init__(self, guard: Guard) -> None:
        self.guard = guard

    @guarded()
    def placement(self, request: IdentityRequest) -> Placement | None:
        """Return this process's ring, in its place or on the way to it; None if there is none."""
        try:
            identity = read_identity(request, os.environ)
            enable_flight_recorder(os.environ)
            root = own_directory(places.ring_dir())
            ring = RingWriter(hidden_path(root, identity), identity, time.monotonic_ns())
            remove_left_over(root)
            return _placed(Placement(ring, root, request.declared, self.guard), ring)
        except StepwatchError as error:
            self.guard.misuse(f"not watching: {error}")
            return None


def _placed(placement: Placement, ring: RingWriter) -> Placement:
    """Return `placement` after it has placed the ring, if the rank is known already.

    Raises:
        StepwatchError: it cannot; the ring is removed.
    """
    try:
        placement.place_known()
    except (OSError, StepwatchError) as error:
        ring.close()
        ring.path.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise cannot_create(ring.path, error) from error
        raise
    return placement
