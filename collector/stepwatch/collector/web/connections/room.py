"""Connection limit from the process's file descriptors."""

from __future__ import annotations

import logging
import resource

logger = logging.getLogger(__name__)

MOST_PLAIN, MOST_TLS = 4096, 1024
"""Maximum number of connections.

An idle one costs 4.3 KiB of resident memory, with TLS 280 KiB (measured with 4,000 and 500). More
agents are served as well: idle connections are closed for new ones.
"""
KEPT_DESCRIPTORS = 192
"""Reserved for the store, its readers in 40 threads, notices and files."""


def connections_allowed(tls: bool) -> int:
    """Raise the descriptor limit as far as possible, and return the connections it allows.

    A warning is logged if they are fewer than `MOST_PLAIN` or `MOST_TLS`.
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
    """Raise the descriptor limit and return it."""
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
