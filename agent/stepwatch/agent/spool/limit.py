"""What a spool may take of the disk.

What cannot be read has a limit of its own, as large as that of all others: it keeps no new rows
out, and nothing is deleted to make room for it. Beyond twice the limit new rows wait in the rings:
a disk that takes everything and gives nothing back must not fill up.
"""

from __future__ import annotations

import logging
from collections.abc import Collection

from .files import Spooled

logger = logging.getLogger(__name__)


def excess(segments: Collection[Spooled], limit: int) -> int:
    """Bytes beyond the limit; negative while there is room.

    Of a limit of 100, 130 that cannot be read take 30, and 60 others leave 10.
    """
    readable_bytes = sum(segment.size for segment in segments if not segment.unreadable)
    return readable_bytes + max(0, _unread_bytes(segments) - limit) - limit


def marked(spooled: Spooled, error: OSError) -> Spooled:
    """A segment that cannot be read; said once, until it could be read in between."""
    if not spooled.unreadable:
        logger.warning("spooled segment %s waits, it cannot be read: %s", spooled.path, error)
    return spooled._replace(unreadable=True)


def what_fills(segments: Collection[Spooled], limit: int) -> str:
    """What keeps new rows out of a spool in which nothing more may be dropped."""
    unread = _unread_bytes(segments) > limit
    return "files that cannot be read" if unread else "facts that may not be dropped"


def _unread_bytes(segments: Collection[Spooled]) -> int:
    return sum(segment.size for segment in segments if segment.unreadable)
