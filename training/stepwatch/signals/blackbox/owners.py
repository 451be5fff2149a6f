"""Whether the process that writes a ring still lives, as another process can tell."""

from __future__ import annotations

from stepwatch.signals.clock import NANOSECONDS
from stepwatch.signals.processes import pid_namespace, start_ticks

from .reader import RingReader

SILENT_SECONDS = 60.0
"""A process elsewhere whose heart has not beaten for so long has ended: a rank that is stopped, or
holds the interpreter, must not lose its ring meanwhile."""


def owner_lives(reader: RingReader, now_ns: int) -> bool:
    """Whether the owner of a ring lives at monotonic `now_ns` and has not closed it.

    Its pid tells where it is a pid here, and its start time whether that pid was given away. Of a
    process in another pid namespace only the heartbeat tells; a ring of an earlier version does not
    say where its pid holds.
    """
    identity = reader.identity
    if reader.closed:
        return False
    started = start_ticks(identity.pid)
    if started and started == identity.process_start:
        return True
    if identity.pid_namespace and identity.pid_namespace == pid_namespace():
        return False
    age_ns = now_ns - reader.heartbeat_ns
    return 0 <= age_ns < SILENT_SECONDS * NANOSECONDS
