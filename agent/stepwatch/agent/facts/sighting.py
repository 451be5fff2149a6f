"""What a probe reports of something wrong, each time it finds it."""

from __future__ import annotations

from typing import NamedTuple

from stepwatch.signals.records import NodeFact


class Sighting(NamedTuple):
    """Something wrong on the node, as one read found it.

    `subject` is what it is about: a device, port, disk or process. `happened` counts what happened
    since the read before, 0 for a state that lasts. `pid` is the process that it is about, 0 if
    none; `code` the number of an XID error; `at_ns` when it was, in monotonic nanoseconds, 0 for
    now. `over` says that it is over by what the source itself reports.
    """

    fact: NodeFact
    subject: str
    text: str = ""
    code: int = -1
    happened: int = 0
    pid: int = 0
    at_ns: int = 0
    over: bool = False
