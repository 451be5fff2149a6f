"""Whether the process that writes a ring still lives, as another process can tell."""

from __future__ import annotations

from stepwatch.signals.clock import NANOSECONDS
from stepwatch.signals.places import node_name
from stepwatch.signals.processes import boot_number, has_ended, pid_namespace, start_ticks

from .layout import Identity
from .reader import RingReader

SILENT_SECONDS = 60.0
"""A process elsewhere whose heart has not beaten for so long has ended: a rank that is stopped, or
holds the interpreter, must not lose its ring meanwhile."""

GONE_SECONDS = 900.0
"""And for so long before its ring may be removed: a container may be paused."""


def is_elsewhere(identity: Identity) -> bool:
    """Whether a ring is of another node that shares this folder: its pid and its clocks say nothing
    here. One of the same node's name is of an earlier boot, or of a container with a kernel of its
    own.
    """
    boot_differs = identity.boot not in (0, boot_number()) and boot_number() != 0
    return boot_differs and identity.node != node_name()


def launcher_lives(identity: Identity) -> bool:
    """Whether the process that starts a rank again may still do so, as far as it is seen here."""
    is_visible = identity.launcher != 0 and _is_here(identity)
    return is_visible and not has_ended(identity.launcher, identity.launcher_start)


def owner_lives(reader: RingReader, now_ns: int) -> bool:
    """Whether the owner of a ring lives at monotonic `now_ns` and has not closed it.

    Its pid tells where it is a pid here, and its start time whether that pid was given away. Of a
    process in another pid namespace only the heartbeat tells; a ring of an earlier version does not
    say where its pid holds. One on another node that has not closed its ring may live.
    """
    identity = reader.identity
    if reader.closed:
        return False
    if is_elsewhere(identity):
        return True
    if _is_here(identity):
        return not has_ended(identity.pid, identity.process_start)
    if _is_its_process(identity):
        return True
    age_ns = now_ns - reader.heartbeat_ns
    return 0 <= age_ns < SILENT_SECONDS * NANOSECONDS


def owner_ended(reader: RingReader, now_ns: int) -> bool:
    """Whether the owner of a ring has certainly ended at monotonic `now_ns`, so that nothing is
    written any more. One that cannot be looked at has not.
    """
    identity = reader.identity
    if is_elsewhere(identity):
        return False
    if _is_here(identity):
        return has_ended(identity.pid, identity.process_start)
    if _is_its_process(identity):
        return False
    silent = SILENT_SECONDS if reader.closed else GONE_SECONDS
    return now_ns - reader.heartbeat_ns >= silent * NANOSECONDS


def _is_here(identity: Identity) -> bool:
    """Whether the pid is one of this namespace; a ring of an earlier version does not say it."""
    return identity.pid_namespace != 0 and identity.pid_namespace == pid_namespace()


def _is_its_process(identity: Identity) -> bool:
    started = start_ticks(identity.pid)
    return started != 0 and started == identity.process_start
