"""One read of a probe, and its bytes between the process that reads and the agent.

The bytes are one JSON line followed by the records in memory layout; nothing in them is executed.
This module needs no numpy: `decoding` is the agent's end.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from stepwatch.agent.facts.sighting import MAX_FACTS, Sighting
from stepwatch.agent.probes.probe import Probe, Unknown
from stepwatch.signals.records import Kind, Values, pack

if TYPE_CHECKING:
    from stepwatch.signals.wire import Rows

    Read = Rows | list[Values]

R = TypeVar("R")


class Answer(NamedTuple, Generic[R]):
    """The result of one probe read: rows, or the reason for their absence (`unknown`, `detail`).

    `rows` are the probe's own, in the agent always a structured array. `owners` has, for each row,
    the related process ids; it is empty if no row relates to a process. `facts` are the faults
    found.
    """

    rows: R | None = None
    owners: tuple[frozenset[int], ...] = ()
    facts: tuple[Sighting, ...] = ()
    unknown: Unknown | None = None
    detail: str = ""


def read(probe: Probe) -> Answer[Read]:
    """Read a probe once, in this process."""
    if not probe.supported():
        return Answer(unknown=Unknown.NO_SOURCE, detail="its source is not there")
    try:
        rows = probe.read()
    except OSError as error:
        return Answer(unknown=Unknown.UNREADABLE, detail=str(error))
    except ValueError as error:
        return Answer(unknown=Unknown.INVALID, detail=str(error))
    facts = tuple(probe.facts())[:MAX_FACTS]
    return Answer(rows, tuple(map(frozenset, probe.owners())), facts)


def encode(answer: Answer[list[Values]], kind: Kind) -> bytes:
    """Return an answer as bytes; its rows are records of `kind`.

    Raises:
        ValueError: a field cannot hold its value.
    """
    head: dict[str, Any] = {
        "unknown": answer.unknown,
        "detail": answer.detail,
        "owners": [sorted(pids) for pids in answer.owners],
        "facts": answer.facts,
    }
    return json.dumps(head).encode() + b"\n" + pack(kind, answer.rows or ())
