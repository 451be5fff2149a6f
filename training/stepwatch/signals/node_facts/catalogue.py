"""The catalogue of node facts, read from `catalogue.toml`."""

from __future__ import annotations

import tomllib
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import NamedTuple

from stepwatch.signals.names import Cause, FindingKind
from stepwatch.signals.records import NodeFact

from .actions import Action


class Severity(StrEnum):
    """A fact's severity by itself."""

    FATAL = "fatal"
    """Everything that uses the part fails until an operator acts."""
    DEGRADED = "degraded"
    """It works, more slowly or with less redundancy."""
    EVIDENCE = "evidence"
    """The node is healthy: the fact explains a rank's problem."""


class FactKind(NamedTuple):
    """The meaning of one kind of fact.

    It is over once its source was read for `quiet_seconds` without finding it again. `explains` are
    the finding kinds that it may cause, on its rank, or on its node if it names no rank; `cause` is
    then their cause. `words` completes "because ..."; `source` names the origin of the meaning.
    `is_event` is false for a lasting state: a lost device, a link that is down. A rank's fact takes
    precedence over a measured cause, unless it is not `certain`. A fact with `is_of_process`
    explains only findings on the rank of that process: if it names no rank, the process belongs to
    another job, or to an earlier attempt.
    """

    fact: NodeFact
    name: str
    words: str
    severity: Severity
    action: Action
    quiet_seconds: float
    cause: Cause
    explains: frozenset[FindingKind]
    source: str
    is_event: bool = False
    certain: bool = True
    is_of_process: bool = False


@cache
def _load() -> dict[NodeFact, FactKind]:
    text = Path(__file__).with_name("catalogue.toml").read_text(encoding="utf-8")
    kinds = {}
    for item in tomllib.loads(text)["fact"]:
        fact = NodeFact[item["name"].upper().replace("-", "_")]
        kinds[fact] = FactKind(
            fact,
            item["name"],
            item["words"],
            Severity(item["severity"]),
            Action(item["action"]),
            float(item["quiet_seconds"]),
            Cause(item["cause"]),
            frozenset(map(FindingKind, item["explains"])),
            item["source"],
            item.get("event", False),
            item.get("certain", True),
            item.get("of_process", False),
        )
    return kinds


CATALOGUE = _load()
"""Every fact kind."""


def kind_of(number: int) -> FactKind | None:
    """Return the fact kind in a record; None for a later version's kind."""
    return CATALOGUE[NodeFact(number)] if number in set(NodeFact) else None
