"""Messages between the agent and a probe's process: one answer per question.

An answer is one JSON line followed by the rows in memory layout; nothing in it is executed.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import numpy as np

from stepwatch.agent.facts.book import MAX_FACTS
from stepwatch.agent.facts.sighting import Sighting
from stepwatch.agent.probes.probe import Probe, Unknown
from stepwatch.signals.records import DTYPES, Kind, NodeFact
from stepwatch.signals.wire import Rows

MAX_BYTES = 1 << 20
"""A longer answer is refused: the largest probe sends about 20 KiB."""


class Answer(NamedTuple):
    """The result of one probe read: rows, or the reason for their absence (`unknown`, `detail`).

    `owners` has, for each row, the related process ids; it is empty if no row relates to a process.
    `facts` are the faults found.
    """

    rows: Rows | None = None
    owners: tuple[frozenset[int], ...] = ()
    facts: tuple[Sighting, ...] = ()
    unknown: Unknown | None = None
    detail: str = ""


def read(probe: Probe) -> Answer:
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


def encode(answer: Answer) -> bytes:
    """Return an answer as bytes."""
    head: dict[str, Any] = {
        "unknown": answer.unknown,
        "detail": answer.detail,
        "owners": [sorted(pids) for pids in answer.owners],
        "facts": answer.facts,
    }
    rows = b"" if answer.rows is None else answer.rows.tobytes()
    return json.dumps(head).encode() + b"\n" + rows


def decode(data: bytes, kind: Kind) -> Answer:
    """Read an answer from bytes; its rows are of `kind`.

    Raises:
        ValueError: the bytes are not an answer.
    """
    text, _, body = data.partition(b"\n")
    head = json.loads(text)
    try:
        owners = tuple(frozenset(map(int, pids)) for pids in head["owners"])
        facts = tuple(_sighting(fields) for fields in head["facts"])
        unknown = None if head["unknown"] is None else Unknown(head["unknown"])
        detail = str(head["detail"])
    except (KeyError, TypeError) as error:
        raise ValueError(f"not an answer of a probe: {error!r}") from error
    rows = None if unknown else np.frombuffer(body, dtype=DTYPES[kind]).copy()
    return Answer(rows, owners, facts, unknown, detail)


def _sighting(fields: list[Any]) -> Sighting:
    fact, *values = fields
    return Sighting(NodeFact(fact), *values)
