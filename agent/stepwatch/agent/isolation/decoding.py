"""Answers of a probe's process, as the agent uses them."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from stepwatch.agent.facts.sighting import Sighting
from stepwatch.agent.probes.probe import Unknown
from stepwatch.signals.records import DTYPES, Kind, NodeFact
from stepwatch.signals.wire import Rows

from .answer import Answer


def decode(data: bytes, kind: Kind) -> Answer[Rows]:
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
