"""Nodes: health, facts, history."""

from __future__ import annotations

from typing import Annotated

from typing_extensions import TypedDict

from stepwatch.collector.nodes.health import Health
from stepwatch.signals.node_facts.actions import Action
from stepwatch.signals.node_facts.catalogue import Severity

from .common import OneOf

HealthWord = Annotated[str, OneOf(tuple(Health))]
"""Health of a node or a part; a node without reports is unknown."""
ActionWord = Annotated[str, OneOf(tuple(Action))]
"""The recommended action."""


class NodeFact(TypedDict):
    """A fact about a node; times are Unix seconds by the node's clock."""

    fact: str
    title: str
    """The fact in words."""
    subject: str
    """The part that it is about; empty for the whole node."""
    code: int | None
    """Number of the fault, such as an XID; null without one."""
    severity: Annotated[str, OneOf(tuple(Severity))]
    action: ActionWord
    began: float
    ended: float | None
    """Null while it holds, or without a reported end."""
    last_seen: float
    times: int
    """Number of reports; a lower bound."""
    text: str
    job: str | None
    """The job that ran then; null if none did."""
    attempt: int | None


class NodeLine(TypedDict):
    """A node: its state, the reason, the action, and its faults."""

    node: str
    health: HealthWord
    reason: str
    action: ActionWord
    since: float | None
    """Beginning of the state, Unix seconds; null if unknown."""
    last_report: float | None
    """Unix seconds."""
    agent_version: str | None
    """Null if the agent does not report it."""
    facts: list[NodeFact]
    """Present facts, worst first; the last known ones of a node that is silent."""
    faults_7d: int
    """Faults within seven days."""
    faults_30d: int
    """Faults within 30 days."""
    jobs_30d: int
    """Jobs within 30 days with an incident on the node."""
    repeat_offender: bool
    """True after repeated faults."""


class SharedFault(TypedDict):
    """The same fault on several nodes at the same time."""

    fact: str
    code: int | None
    """Null without one."""
    nodes: list[str]
    reporting: int
    """Number of nodes that report."""
    summary: str


class HealthCounts(TypedDict):
    """Number of nodes by health."""

    failed: int
    degraded: int
    unknown: int
    healthy: int


class NodesAnswer(TypedDict):
    """Nodes by name."""

    nodes: list[NodeLine]
    counts: HealthCounts
    """All nodes, whatever was selected."""
    together: list[SharedFault]
    next: str | None
    """The last name if there are more nodes: pass it as `after`."""
    history_cut: bool
    """True if the counts of faults are lower bounds."""


class PastFact(NodeFact):
    """A fact in a node's history."""

    present: bool
    """True while it counts for the node's state."""


class NodePart(TypedDict):
    """A part of a node that ever had a fault."""

    part: str
    health: HealthWord
    action: ActionWord
    faults: int
    """Number of faults in the history."""
    last_seen: float
    """Newest fault, Unix seconds."""


class NodeAnswer(NodeLine):
    """A node with its parts and its history."""

    parts: list[NodePart]
    history: list[PastFact]
    """Newest first."""
    history_left_out: int
    """Number of older facts that are not listed."""
