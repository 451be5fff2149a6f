"""Finds out whether the process that writes a ring still lives, from another process."""

from __future__ import annotations

from stepwatch.signals.clock import NANOSECONDS
from stepwatch.signals.places import node_name
from stepwatch.signals.processes import boot_number, has_ended, pid_namespace, start_ticks

from .layout import Identity
from .reader import RingReader

SILENT_SECONDS = 60.0
"""Age of the last heartbeat at which a process elsewhere has ended.

A rank that is stopped, or holds the interpreter, must not lose its ring meanwhile.
"""

GONE_SECONDS = 900.0
"""Further seconds before its ring may be removed: a container may be paused."""


def is_elsewhere(identity: Identity) -> bool:
    """Return whether a ring belongs to another node that shares this folder.

    Its pid and its clocks mean nothing here. A ring with the same node name is from an earlier
    boot, or from a container with its own kernel.
    """
    boot_differs = identity.boot not in (0, boot_number()) and boot_number() != 0
    return boot_differs and identity.node != node_name()


def launcher_lives(identity: Identity) -> bool:
    """Return whether the process that restarts a rank may still do so, as far as visible here."""
    is_visible = identity.launcher != 0 and _is_here(identity)
    return is_visible and not has_ended(identity.launcher, identity.launcher_start)


def owner_lives(reader: RingReader, now_ns: int) -> bool:
    """Return whether a ring's owner lives at monotonic `now_ns` and has not closed it.

    Its pid counts if it is a pid here, and its start time shows whether that pid was reused. For a
    process in another or an unknown pid namespace only the heartbeat counts. A process on another
    node that has not closed its ring may live.
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
    """Return whether a ring's owner has certainly ended at monotonic `now_ns`.

    Nothing is written any more then. An owner that cannot be inspected has not ended.
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
    """Return whether the pid is in this namespace; number 0 is unknown."""
    return identity.pid_namespace != 0 and identity.pid_namespace == pid_namespace()


def _is_its_process(identity: Identity) -> bool:
    started = start_ticks(identity.pid)
    return started != 0 and started == identity.process_start
