"""Nodes: health, facts, history."""

from __future__ import annotations

from typing import Annotated

from typing_extensions import TypedDict

from stepwatch.collector.nodes.health import Health
from stepwatch.signals.node_facts import Action, Severity

from .common import OneOf

HealthWord = Annotated[str, OneOf(tuple(Health))]
"""Health of a node or a part; a node without reports is unknown."""
ActionWord = Annotated[str, OneOf(tuple(Action))]
"""The recommended action."""


class NodeFact(TypedDict):
    """A fact about a node; times are Unix seconds by the node's clock."""

    fact: str
    title: str
    subject: str
    """The part that it is about; empty for the whole node."""
    code: int | None
    severity: Annotated[str, OneOf(tuple(Severity))]
    action: ActionWord
    began: float
    ended: float | None
    last_seen: float
    times: int
    text: str
    job: str | None
    attempt: int | None


class NodeLine(TypedDict):
    """A node: its state, the reason, the action, and its faults."""

    node: str
    health: HealthWord
    reason: str
    action: ActionWord
    since: float | None
    last_report: float | None
    """Unix seconds."""
    agent_version: str | None
    facts: list[NodeFact]
    faults_7d: int
    faults_30d: int
    jobs_30d: int
    repeat_offender: bool


class SharedFault(TypedDict):
    """The same fault on several nodes at the same time."""

    fact: str
    code: int | None
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


class NodePart(TypedDict):
    """A part of a node that ever had a fault."""

    part: str
    health: HealthWord
    action: ActionWord
    faults: int
    last_seen: float


class NodeAnswer(NodeLine):
    """A node with its parts and its history."""

    parts: list[NodePart]
    history: list[PastFact]
    """Newest first."""
    history_left_out: int
