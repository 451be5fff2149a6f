"""A small file beside the rings that describes the agent to a rank without any request.

The agent rewrites it every few seconds; a rank reads it once. Its age is measured on the node's
monotonic clock, which containers on one node share, unlike process ids.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from .clock import NANOSECONDS
from .durable import replace
from .places.directories import make_root
from .places.small_files import read_bytes
from .plain_text import plain_line

FILE = ".agent.json"
EVERY_SECONDS = 5.0
"""Interval between writes without a change."""
FRESH_SECONDS = 20.0
"""Age at which an agent does not run, or makes no progress."""
_MOST_BYTES = 1 << 16
_MOST_TEXT = 512

CONNECTED, AWAY, CONNECTING = "connected", "away", "connecting"
"""The collector answered the newest request; it did not; none was sent yet."""


class Presence(NamedTuple):
    """An agent's report about itself.

    `collector` is the base URL to which it sends, `page` the base URL for the pages. `incidents`
    counts, by job, the incidents in its newest attempt as far as the agent knows them. `written_ns`
    is monotonic.
    """

    pid: int
    collector: str
    page: str
    link: str
    written_ns: int
    incidents: Mapping[str, int]

    def page_of(self, job: str) -> str:
        """Return one job's page."""
        return f"{self.page.rstrip('/')}/jobs/{job}"

    def age_seconds(self, now_ns: int) -> float:
        """Return the seconds since it was written; negative after the node has rebooted."""
        return (now_ns - self.written_ns) / NANOSECONDS

    def is_fresh(self, now_ns: int) -> bool:
        """Return whether the agent runs."""
        return -1.0 <= self.age_seconds(now_ns) <= FRESH_SECONDS


def write(folder: Path, presence: Presence) -> None:
    """Write the file at once: a reader sees the old or the new content.

    Raises:
        OSError: the folder cannot be written.
        RingError: it cannot be made.
    """
    make_root(folder)
    replace(folder / FILE, json.dumps(presence._asdict()).encode(), mode=0o644)


def remove(folder: Path, pid: int) -> None:
    """Remove the file if the agent `pid` wrote it; another agent's file stays."""
    current = read(folder)
    if current is not None and current.pid == pid:
        (folder / FILE).unlink(missing_ok=True)


def read(folder: Path) -> Presence | None:
    """Read the file in `folder`; None if there is no readable one. It never blocks."""
    try:
        return _presence(json.loads(read_bytes(folder / FILE, _MOST_BYTES)))
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def read_near(rings: Path) -> Presence | None:
    """Return this node's agent: its file is at the top of the ring directory, or one above."""
    return read(rings) or read(rings.parent)


def _presence(document: Any) -> Presence:
    counts = {str(job): int(count) for job, count in document.get("incidents", {}).items()}
    collector, page, link = (
        _line(document.get(name, "")) for name in ("collector", "page", "link")
    )
    return Presence(
        int(document["pid"]), collector, page, link, int(document["written_ns"]), counts
    )


def _line(text: str) -> str:
    """Return `text` in a form that is safe to show on a terminal."""
    return plain_line(text)[:_MOST_TEXT]
