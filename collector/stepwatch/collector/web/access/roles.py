"""What each role may do."""

from __future__ import annotations

from enum import StrEnum


class Role(StrEnum):
    """What a token is for."""

    INGEST = "ingest"
    """Agents: they send segments, and count the incidents of their own jobs."""
    READ = "read"
    """Everything that is shown: jobs, incidents, nodes, `/metrics`."""
    ADMIN = "admin"
    """What `READ` may, and what changes something: silences, notes, acknowledgements."""


EVERYTHING = frozenset(Role)
READERS = frozenset({Role.READ, Role.ADMIN})
_OPEN_PATHS = ("/healthz", "/readyz", "/", "/nodes")
_OPEN_FOLDERS = ("/static/", "/jobs/", "/nodes/", "/runbooks/")
"""Pages without data: their scripts ask for it, with the token that the visitor gives."""


def allowed(method: str, path: str) -> frozenset[Role]:
    """Roles that may send this request; none where everybody may.

    What is not known to read only is for administrators.
    """
    reads = method in ("GET", "HEAD")
    if reads and (path in _OPEN_PATHS or path.startswith(_OPEN_FOLDERS)):
        return frozenset()
    if method == "POST" and path == "/v1/segments":
        return frozenset({Role.INGEST})
    if reads and path == "/v1/incidents":
        return READERS | {Role.INGEST}
    return READERS if reads else frozenset({Role.ADMIN})
