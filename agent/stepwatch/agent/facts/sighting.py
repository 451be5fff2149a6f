"""One observation of a fault by a probe."""

from __future__ import annotations

from typing import NamedTuple

from stepwatch.signals.records import NodeFact

MAX_FACTS = 256
"""Maximum number of facts per node; further ones are counted but not kept."""


class Sighting(NamedTuple):
    """A node fault in one read.

    `subject` is the affected device, port, disk or process. `happened` counts occurrences since the
    previous read, 0 for a lasting state. `pid` is the affected process, 0 if none. `code` is the
    XID number. `at_ns` is the time in monotonic nanoseconds, 0 for now. `over` means that the
    source itself reports the end.
    """

    fact: NodeFact
    subject: str
    text: str = ""
    code: int = -1
    happened: int = 0
    pid: int = 0
    at_ns: int = 0
    over: bool = False
