"""Permissions per role."""

from __future__ import annotations

from enum import StrEnum


class Role(StrEnum):
    """A token's purpose."""

    INGEST = "ingest"
    """Agents: send segments and traces, and count their own jobs' incidents."""
    READ = "read"
    """Read access to all data: jobs, incidents, nodes, `/metrics`."""
    ADMIN = "admin"
    """`READ` plus changes: silences, notes, acknowledgements."""


EVERYTHING = frozenset(Role)
READERS = frozenset({Role.READ, Role.ADMIN})
_PAGES = ("/", "/nodes", "/slos", "/compare", "/sweeps", "/reports", "/self")
_OPEN_PATHS = ("/healthz", "/readyz", *_PAGES)
_OPEN_FOLDERS = ("/static/", "/jobs/", "/incidents/", "/nodes/", "/runbooks/", "/slos/")
"""Pages without data: their scripts fetch it with the visitor's token."""


def allowed(method: str, path: str) -> frozenset[Role]:
    """Return the roles that may send this request; empty if it is public.

    A request that is not known to be read-only requires the admin role.
    """
    reads = method in ("GET", "HEAD")
    if reads and (path in _OPEN_PATHS or path.startswith(_OPEN_FOLDERS)):
        return frozenset()
    if method == "POST" and (path == "/v1/segments" or path.startswith("/v1/profiles/")):
        return frozenset({Role.INGEST})
    if reads and path == "/v1/incidents":
        return READERS | {Role.INGEST}
    return READERS if reads else frozenset({Role.ADMIN})
