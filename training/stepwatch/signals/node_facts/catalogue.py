"""The catalogue of facts of nodes, read from `catalogue.toml`."""

from __future__ import annotations

import tomllib
from enum import StrEnum
from functools import cache
from importlib import resources
from typing import NamedTuple

from stepwatch.signals.names import Cause, FindingKind
from stepwatch.signals.records import NodeFact


class Severity(StrEnum):
    """How bad a fact is by itself."""

    FATAL = "fatal"
    """Nothing that uses the part works until somebody acts."""
    DEGRADED = "degraded"
    """It works, slower or with less behind it."""
    EVIDENCE = "evidence"
    """Nothing is wrong with the node: it explains what happens to a rank."""


class Action(StrEnum):
    """What to do about a fact: nothing else is ever recommended."""

    NONE = "none"
    RESTART_APP = "restart-app"
    RESET_DEVICE = "reset-device"
    REBOOT = "reboot"
    DRAIN = "drain"
    REPLACE = "replace"
    CHECK_CABLING = "check-cabling"
    CONTACT_SUPPORT = "contact-support"


ACTIONS: dict[Action, str] = {
    Action.NONE: "nothing to do on the node",
    Action.RESTART_APP: "restart the job",
    Action.RESET_DEVICE: "reset the device while nothing runs on it",
    Action.REBOOT: "drain the node and reboot it",
    Action.DRAIN: "drain the node and look at it",
    Action.REPLACE: "drain the node and have the part replaced",
    Action.CHECK_CABLING: "check the cable, the module and the port",
    Action.CONTACT_SUPPORT: "drain the node and contact the vendor's support",
}
"""Each action in words."""


class FactKind(NamedTuple):
    """What one kind of fact means.

    It is over once its source was read for `quiet_seconds` without finding it again. `explains` are
    the kinds of findings that it may be the cause of, on its rank, or where it names none, on its
    node; `cause` is what they then say. `words` completes "because ..."; `source` says where the
    meaning comes from. `is_event` is false for what lasts: a lost device, a link that is down. One
    of a rank goes before what is measured, unless it is not `certain`. One that `is_of_process`
    explains findings of the rank of that process alone: where it names no rank, the process is of
    another job, or of an attempt before.
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
    text = resources.files(__package__).joinpath("catalogue.toml").read_text(encoding="utf-8")
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
"""Every kind of fact."""


def kind_of(number: int) -> FactKind | None:
    """The kind of fact that a record holds; None for one of a later version."""
    return CATALOGUE[NodeFact(number)] if number in set(NodeFact) else None
