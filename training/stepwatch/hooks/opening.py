"""Opens the ring of this rank, or logs one line with the reason why there is none."""

from __future__ import annotations

import os
from pathlib import Path

from stepwatch.signals import places
from stepwatch.signals.blackbox import Identity, RingWriter
from stepwatch.signals.blackbox.layout import WORKER_SOCKET_SIZE
from stepwatch.signals.errors import StepwatchError

from .guard import Guard, guarded, logger
from .identity import Mesh, is_disabled, is_helper, read_identity, under_launcher
from .recorder.worker_server import enable_flight_recorder, socket_beside


def is_wanted() -> bool:
    """Whether this process is a rank whose user did not switch stepwatch off."""
    return not (is_disabled(os.environ) or is_helper())


class Opener:
    """Opens rings; whatever is wrong is counted and logged by `guard`."""

    def __init__(self, guard: Guard) -> None:
        self.guard = guard

    @guarded()
    def ring(self, job: str | None, index: Mesh, size: Mesh, device: int) -> RingWriter | None:
        """The ring of this process; None where it cannot be made."""
        if not under_launcher(os.environ):
            logger.info("stepwatch: not under torchrun: watching as rank 0 of 1")
        try:
            identity = read_identity(job, index, size, device, os.environ)
            folder = places.ring_dir() / identity.job / str(identity.attempt)
            path = folder / str(identity.rank)
            enable_flight_recorder(os.environ)
            return RingWriter(path, _with_socket(identity, path))
        except StepwatchError as error:
            self.guard.misuse(f"not watching: {error}")
            return None


def _with_socket(identity: Identity, ring: Path) -> Identity:
    """`identity` with the socket of its worker server, unless the path is longer than its field."""
    path = str(socket_beside(ring.absolute()))
    fits = len(os.fsencode(path)) <= WORKER_SOCKET_SIZE
    return identity._replace(worker_socket=path if fits else "")
