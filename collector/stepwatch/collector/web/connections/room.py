"""How many connections a process has descriptors for."""

from __future__ import annotations

import logging
import resource

logger = logging.getLogger(__name__)

MOST_PLAIN, MOST_TLS = 4096, 1024
"""Connections at once: one that is idle costs 4.3 KiB of resident memory, with TLS 280 (measured on
4,000 and on 500). More agents are served as well: the connections of those that wait are closed."""
KEPT_DESCRIPTORS = 192
"""For the store, its readers in 40 threads, notices and files."""


def connections_allowed(tls: bool) -> int:
    """Raise the limit of descriptors as far as it goes, and return how many connections it leaves.

    The log has one line where they are fewer than `MOST_PLAIN` or `MOST_TLS`.
    """
    most = MOST_TLS if tls else MOST_PLAIN
    descriptors = _raised()
    allowed = min(most, max(descriptors - KEPT_DESCRIPTORS, descriptors // 4))
    if allowed < most:
        logger.warning(
            "%d connections at once, not %d: this process may open %d files; raise LimitNOFILE or "
            "ulimit -n to %d",
            allowed, most, descriptors, most + KEPT_DESCRIPTORS,
        )  # fmt: skip
    return allowed


def _raised() -> int:
    """The limit of descriptors after it was raised."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_PLAIN + KEPT_DESCRIPTORS
    if soft == resource.RLIM_INFINITY:
        return wanted
    raised = wanted if hard == resource.RLIM_INFINITY else hard
    if raised <= soft:
        return soft
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))
    except (OSError, ValueError):  # a sandbox may forbid it
        return soft
    return raised
