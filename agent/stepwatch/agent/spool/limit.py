"""The spool's disk limit.

Unreadable files have their own limit, as large as the limit for all others: they block no new
rows, and nothing is deleted for them. Beyond twice the limit new rows wait in the rings, so that a
disk that accepts writes but fails reads does not fill up.
"""

from __future__ import annotations

import logging
from collections.abc import Collection

from .files import Spooled

logger = logging.getLogger(__name__)


def excess(segments: Collection[Spooled], limit: int) -> int:
    """Return the bytes above the limit; negative while there is room.

    With limit 100, 130 unreadable bytes use 30, and 60 other bytes leave 10.
    """
    readable_bytes = sum(segment.size for segment in segments if not segment.unreadable)
    return readable_bytes + max(0, _unread_bytes(segments) - limit) - limit


def marked(spooled: Spooled, error: OSError) -> Spooled:
    """Mark a segment as unreadable; logged once until a read succeeds."""
    if not spooled.unreadable:
        logger.warning("spooled segment %s waits, it cannot be read: %s", spooled.path, error)
    return spooled._replace(unreadable=True)


def what_fills(segments: Collection[Spooled], limit: int) -> str:
    """Return what fills a spool in which nothing more may be dropped."""
    unread = _unread_bytes(segments) > limit
    return "files that cannot be read" if unread else "facts that may not be dropped"


def _unread_bytes(segments: Collection[Spooled]) -> int:
    return sum(segment.size for segment in segments if segment.unreadable)
